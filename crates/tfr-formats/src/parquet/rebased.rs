//! [`CalendarAdapterFactory`]: wraps columns of one file in [`Rebased`] where the engine's own adapter inserts casts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{ColumnarValue, ScalarUDF};
use datafusion_functions::core::file_row_index::FileRowIndexFunc;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use tfr_files::{Finding, Findings};

use super::calendar::ColumnCalendars;
use super::values::{Failure, Mismatch, convert, convert_cut};
use crate::calendar::{Rule, Watched, count, rebased};
use crate::orc::CUT_TIMESTAMPS;

/// Counts the ambiguous values of a file, and the timestamps that are cut.
#[derive(Debug, Clone)]
pub(super) struct Count {
    pub(super) findings: Arc<Findings>,
    pub(super) file: Arc<str>,
    pub(super) watched: Vec<Arc<Watched>>,
    /// The columns whose timestamps are cut, by name in the file.
    pub(super) cut: Vec<String>,
}

/// What is counted in a column.
#[derive(Debug, Clone)]
enum Counted {
    Ambiguous(Arc<Watched>),
    /// Timestamps that are finer than the type of the column.
    Finer {
        column: String,
        data_type: DataType,
    },
}

/// Creates the adapters of one file.
#[derive(Debug)]
pub(super) struct CalendarAdapterFactory {
    pub(super) inner: Arc<dyn PhysicalExprAdapterFactory>,
    pub(super) calendar: Arc<ColumnCalendars>,
    pub(super) count: Option<Count>,
}

impl PhysicalExprAdapterFactory for CalendarAdapterFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(CalendarAdapter {
            inner: self.inner.create(logical_file_schema, Arc::clone(&physical_file_schema))?,
            file_schema: physical_file_schema,
            calendar: Arc::clone(&self.calendar),
            count: self.count.clone(),
        }))
    }
}

/// Wraps the columns of a file in the hybrid calendar in [`Rebased`].
#[derive(Debug)]
struct CalendarAdapter {
    inner: Arc<dyn PhysicalExprAdapter>,
    file_schema: SchemaRef,
    calendar: Arc<ColumnCalendars>,
    count: Option<Count>,
}

impl CalendarAdapter {
    fn rebase(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let rebased = expr.transform_down(|expr| {
            if let Some(counting) = expr.downcast_ref::<Counting>() {
                let counting = self.counting(counting)?;
                return Ok(Transformed::new(counting, true, TreeNodeRecursion::Jump));
            }
            let rules = expr.downcast_ref::<Column>().and_then(|column| self.calendar.rules.get(column.name()));
            Ok(match rules {
                Some(rules) => {
                    let rebased: Arc<dyn PhysicalExpr> = Arc::new(Rebased { column: expr, rules: Arc::clone(rules) });
                    Transformed::new(rebased, true, TreeNodeRecursion::Jump)
                }
                None => Transformed::no(expr),
            })
        });
        rebased.data()
    }

    /// Adds the columns whose values are counted.
    fn counting(&self, counting: &Counting) -> Result<Arc<dyn PhysicalExpr>> {
        let ambiguous = self.count.iter().flat_map(|count| &count.watched).filter_map(|watched| {
            let index = self.file_schema.index_of(&watched.column).ok()?;
            let column = self.rebase(Arc::new(Column::new(&watched.column, index)));
            Some(column.map(|column| (column, Counted::Ambiguous(Arc::clone(watched)))))
        });
        let finer = self.count.iter().flat_map(|count| &count.cut).filter_map(|column| {
            let (index, field) = self.file_schema.column_with_name(column)?;
            let stored: Arc<dyn PhysicalExpr> = Arc::new(AsStored { column: Arc::new(Column::new(column, index)) });
            Some(Ok((stored, Counted::Finer { column: column.clone(), data_type: field.data_type().clone() })))
        });
        let columns = ambiguous.chain(finer).collect::<Result<_>>()?;
        let (value, row) = (self.rebase(Arc::clone(&counting.value))?, Arc::clone(&counting.row));
        Ok(Arc::new(Counting { value, row, columns, count: self.count.clone() }))
    }
}

impl PhysicalExprAdapter for CalendarAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        self.rebase(self.inner.rewrite(expr)?)
    }
}

/// A rebased column of a file.
#[derive(Debug)]
struct Rebased {
    column: Arc<dyn PhysicalExpr>,
    rules: Arc<[Rule]>,
}

impl PartialEq for Rebased {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && Arc::ptr_eq(&self.rules, &other.rules)
    }
}

impl Eq for Rebased {}

impl Hash for Rebased {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
    }
}

impl fmt::Display for Rebased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rebased({})", self.column)
    }
}

impl PhysicalExpr for Rebased {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.column.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.column.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.column.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let column = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(rebased(&column, &self.rules)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let (Some(column), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a rebased column has one child");
        };
        Ok(Arc::new(Self { column, rules: Arc::clone(&self.rules) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}

/// A column of a file as the library returns it, in bytes. Conversions leave it alone.
#[derive(Debug)]
pub(super) struct AsStored {
    column: Arc<dyn PhysicalExpr>,
}

impl PartialEq for AsStored {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column)
    }
}

impl Eq for AsStored {}

impl Hash for AsStored {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
    }
}

impl fmt::Display for AsStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stored({})", self.column)
    }
}

impl PhysicalExpr for AsStored {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.column.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.column.nullable(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.column.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(column), true) => Ok(Arc::new(Self { column })),
            _ => internal_err!("a stored column has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}

/// Adds the timestamps of a batch that are cut to `findings`. Values that fit no type fail elsewhere.
fn count_finer(
    findings: &Findings,
    file: &str,
    column: &str,
    (stored, data_type): (&ArrayRef, &DataType),
    row_of: impl Fn(usize) -> u64,
) {
    let Err(Failure::Mismatch(Mismatch { value, .. })) = convert(stored, data_type) else { return };
    let Ok((_, count @ 1..)) = convert_cut(stored, data_type) else { return };
    let first = (0..stored.len()).find(|row| convert(&stored.slice(*row, 1), data_type).is_err());
    findings.add(Finding {
        file: file.to_owned(),
        column: Some(column.to_owned()),
        what: CUT_TIMESTAMPS.to_owned(),
        row: first.map(row_of).unwrap_or_default(),
        value,
        count,
    });
}

/// An expression that also counts the ambiguous values of each batch.
#[derive(Debug)]
pub(super) struct Counting {
    /// The expression whose value is returned.
    value: Arc<dyn PhysicalExpr>,
    /// The number of each row in its file.
    row: Arc<dyn PhysicalExpr>,
    /// The columns to count in, without the casts to the table's types.
    columns: Vec<(Arc<dyn PhysicalExpr>, Counted)>,
    count: Option<Count>,
}

impl Counting {
    /// Evaluates to `value`. The adapter of a file adds the columns to count in.
    pub(super) fn try_new(value: Arc<dyn PhysicalExpr>) -> Result<Self> {
        Ok(Self { value, row: row_index()?, columns: Vec::new(), count: None })
    }
}

impl PartialEq for Counting {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value) && self.row.eq(&other.row) && self.columns.len() == other.columns.len()
    }
}

impl Eq for Counting {}

impl Hash for Counting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
        self.row.hash(state);
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl PhysicalExpr for Counting {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.value.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.value.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.value.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if let Some(Count { findings, file, .. }) = &self.count {
            let rows = self.row.evaluate(batch)?.into_array(batch.num_rows())?;
            let rows = rows.as_primitive_opt::<Int64Type>();
            let row_of = |row: usize| rows.and_then(|rows| u64::try_from(rows.value(row)).ok()).unwrap_or_default();
            for (column, counted) in &self.columns {
                let array = column.evaluate(batch)?.into_array(batch.num_rows())?;
                match counted {
                    Counted::Ambiguous(watched) => count(findings, file, watched, &array, row_of)?,
                    Counted::Finer { column, data_type } => {
                        count_finer(findings, file, column, (&array, data_type), row_of);
                    }
                }
            }
        }
        self.value.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        [&self.value, &self.row].into_iter().chain(self.columns.iter().map(|(column, _)| column)).collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let mut children = children.into_iter();
        let (Some(value), Some(row)) = (children.next(), children.next()) else {
            return internal_err!("an expression that counts has two children");
        };
        let columns = children.zip(&self.columns).map(|(column, (_, counted))| (column, counted.clone()));
        Ok(Arc::new(Self { value, row, columns: columns.collect(), count: self.count.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt_sql(f)
    }
}

/// Returns an expression for the number of a row in its file.
fn row_index() -> Result<Arc<dyn PhysicalExpr>> {
    let function = Arc::new(ScalarUDF::new_from_impl(FileRowIndexFunc::new()));
    let options = Arc::new(ConfigOptions::default());
    Ok(Arc::new(ScalarFunctionExpr::try_new(function, Vec::new(), &Schema::empty(), options)?))
}
