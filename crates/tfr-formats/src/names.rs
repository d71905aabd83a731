//! [`ColumnNames`]: matches the named columns of files with those of the table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use tfr_files::{ColumnInFiles, ColumnsInFiles, ExactAdapterFactory};

/// Maximum number of columns that are inferred from a file, where each field of a nested type counts. A few kilobytes
/// that decompress to millions of cells or keys would otherwise exhaust any memory.
pub(crate) const MAX_COLUMNS: usize = 100_000;

/// Whether column names are compared with or without case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameMatching {
    /// Case-sensitive.
    #[default]
    Exact,
    /// Case-insensitive, as in Hive: a table's names are in lower case, or as declared. Struct fields keep their names.
    Insensitive,
}

/// Maps the names in a file to the names of a table's columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnNames {
    matching: NameMatching,
    /// The declared columns that are in the files, in their order.
    declared: Option<Arc<[String]>>,
    /// How the columns are found, where the metadata of a table determines it.
    mapped: Option<Arc<ColumnsInFiles>>,
}

impl ColumnNames {
    /// Matches names with those in `declared`, except for the partition columns.
    pub(crate) fn new(matching: NameMatching, declared: Option<&SchemaRef>, path: &[FieldRef]) -> Self {
        let in_path = |name: &str| path.iter().any(|field| field.name() == name);
        let declared = declared.map(|schema| {
            let names = schema.fields().iter().map(|field| field.name());
            names.filter(|name| !in_path(name)).cloned().collect()
        });
        Self { matching, declared, mapped: None }
    }

    /// Finds the columns as the metadata of a table determines.
    pub(crate) fn mapped_by(columns: Arc<ColumnsInFiles>) -> Self {
        Self { mapped: Some(columns), ..Self::default() }
    }

    /// Returns how the columns are found, where the metadata of a table determines it.
    pub(crate) fn mapped(&self) -> Option<&Arc<ColumnsInFiles>> {
        self.mapped.as_ref()
    }

    /// Whether all columns have the same names in the table and in its files.
    pub(crate) fn is_exact(&self) -> bool {
        self.matching == NameMatching::Exact && self.mapped.is_none()
    }

    pub(crate) fn declared(&self) -> Option<&[String]> {
        self.declared.as_deref()
    }

    /// Returns the table's name for the column `name` of a file.
    pub(crate) fn in_table(&self, name: &str) -> String {
        if let Some(mapped) = &self.mapped {
            let is_named = |column: &&ColumnInFiles| column.names.iter().any(|known| known == name);
            let found = mapped.columns.iter().find(|column| column.in_file == name);
            let column = found.or_else(|| mapped.columns.iter().find(is_named));
            return column.map_or(name, |column| &column.name).to_owned();
        }
        match self.matching {
            NameMatching::Exact => name.to_owned(),
            NameMatching::Insensitive => {
                let folded = name.to_lowercase();
                let declared = self.declared().into_iter().flatten().find(|declared| declared.to_lowercase() == folded);
                declared.cloned().unwrap_or(folded)
            }
        }
    }

    /// Returns the schema of a file with the table's names. The error is a name that two of its columns would have.
    pub(crate) fn schema(&self, schema: &SchemaRef) -> Result<SchemaRef, String> {
        if self.matching == NameMatching::Exact {
            return Ok(Arc::clone(schema));
        }
        let names = self.all_in_table(schema.fields().iter().map(|field| field.name().as_str()))?;
        let fields = schema.fields().iter().zip(names).map(|(field, name)| field.as_ref().clone().with_name(name));
        let fields: Vec<_> = fields.collect();
        Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }

    /// Returns the table's names for all columns of a file. The error is a name that two of them would have.
    pub(crate) fn all_in_table<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, String> {
        let mut known = HashSet::new();
        let names = names.into_iter().map(|name| {
            let name = self.in_table(name);
            if known.insert(name.clone()) { Ok(name) } else { Err(name) }
        });
        names.collect()
    }

    /// Returns an adapter by which the engine's scan finds a file's columns and converts them to the table's types.
    pub(crate) fn adapter(&self) -> Arc<dyn PhysicalExprAdapterFactory> {
        match self.matching {
            NameMatching::Exact => Arc::new(ExactAdapterFactory),
            NameMatching::Insensitive => Arc::new(RenamingFactory(self.clone())),
        }
    }
}

#[derive(Debug)]
struct RenamingFactory(ColumnNames);

impl PhysicalExprAdapterFactory for RenamingFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let in_file: HashMap<String, String> = physical_file_schema
            .fields()
            .iter()
            .map(|field| (self.0.in_table(field.name()), field.name().clone()))
            .collect();
        let fields = logical_file_schema.fields().iter().map(|field| match in_file.get(field.name()) {
            Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
            None => Arc::clone(field),
        });
        let renamed = Schema::new_with_metadata(fields.collect::<Vec<_>>(), logical_file_schema.metadata().clone());
        let inner = ExactAdapterFactory.create(Arc::new(renamed), physical_file_schema)?;
        Ok(Arc::new(Renaming { in_file, inner }))
    }
}

/// Replaces the table's column names by those of one file.
#[derive(Debug)]
struct Renaming {
    in_file: HashMap<String, String>,
    inner: Arc<dyn PhysicalExprAdapter>,
}

impl PhysicalExprAdapter for Renaming {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let renamed = expr.transform(|expr| {
            let column = expr.downcast_ref::<Column>();
            let renamed = column.and_then(|column| Some(Column::new(self.in_file.get(column.name())?, column.index())));
            Ok(match renamed {
                Some(renamed) => Transformed::yes(Arc::new(renamed) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(expr),
            })
        });
        self.inner.rewrite(renamed.data()?)
    }
}
