//! [`MappedFactory`]: reads files whose columns have other names than those of the table, at any depth.
//!
//! The columns are located by [`ColumnsInFiles`] in the schema of each file. Whatever is below this adapter knows only
//! the names of the file. At the end the fields of nested values get the names of the table.

mod batches;
mod columns;
mod rows;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion_common::metadata::FieldMetadata;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use tfr_arrow::nested::{
    child_arrays, children, item, key_and_value, map_children, struct_fields, with_children, with_item,
    with_struct_fields,
};
use tfr_arrow::visible::masked;
use tfr_files::{ColumnInFiles, ColumnsInFiles, FilesWithoutIds, FoundBy};

pub(crate) use batches::MappedBatches;
pub(crate) use columns::{check_columns, check_file, table_of};
pub(crate) use rows::{RecordedRows, check_rows};

/// Begins the name of a part that a file lacks. No name in a file begins with it.
const ABSENT: char = '\0';

/// The bytes of an INT96 timestamp, as the library returns them.
pub(crate) const INT96: DataType = DataType::FixedSizeBinary(12);

/// Where a column of the table is in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located {
    /// The index of the column in the file.
    pub(crate) index: usize,
    /// The table's column with the names of the file.
    pub(crate) field: FieldRef,
    /// The values of its parts that the file lacks.
    defaults: Defaults,
}

/// The values of the parts of a type that a file lacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Defaults {
    /// There are none, or they are null.
    None,
    /// The value of the type itself.
    Value(ScalarValue),
    /// Those of its [`children`].
    Parts(Vec<Self>),
}

impl Defaults {
    fn of_parts(parts: Vec<Self>) -> Self {
        match parts.iter().all(|part| *part == Self::None) {
            true => Self::None,
            false => Self::Parts(parts),
        }
    }

    fn part(&self, index: usize) -> &Self {
        match self {
            Self::Parts(parts) => parts.get(index).unwrap_or(&Self::None),
            _ => &Self::None,
        }
    }
}

/// Several columns of a file that a column of the table could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    /// The column of the table, or a part of it.
    pub(crate) column: String,
    /// The names in the file.
    pub(crate) found: Vec<String>,
}

/// Locates columns of a table among those of a file.
pub(crate) struct FileColumns<'a> {
    /// The columns, each with its position.
    columns: HashMap<&'a str, (usize, &'a ColumnInFiles)>,
    file: ColumnKeys<'a>,
}

impl<'a> FileColumns<'a> {
    pub(crate) fn new(columns: &'a ColumnsInFiles, file: &'a Fields) -> Self {
        let by_name = columns.columns.iter().enumerate().rev();
        let by_name = by_name.map(|(position, column)| (column.name.as_str(), (position, column)));
        Self { columns: by_name.collect(), file: ColumnKeys::of(ColumnLocator::of(columns, file), file) }
    }

    /// Locates a column. `None` if the file has no such column.
    pub(crate) fn locate(&self, field: &FieldRef) -> Result<Option<Located>, Ambiguous> {
        match self.columns.get(field.name().as_str()) {
            Some((position, column)) => {
                let index = self.file.index_at_top(*position, column)?;
                index.map(|index| self.file.found(index, column, field)).transpose()
            }
            None => Ok(None),
        }
    }

    /// Returns how a column is found in files.
    pub(crate) fn column(&self, name: &str) -> Option<&'a ColumnInFiles> {
        self.columns.get(name).map(|(_, column)| *column)
    }
}

/// Returns for each column of a file its name in the table, if it is one of the table.
pub(crate) fn names_in_table(columns: &ColumnsInFiles, file: &Fields) -> Vec<Option<String>> {
    let keys = ColumnKeys::of(ColumnLocator::of(columns, file), file);
    let mut names = vec![None; file.len()];
    for (position, column) in columns.columns.iter().enumerate() {
        if let Ok(Some(index)) = keys.index_at_top(position, column) {
            names[index] = Some(column.name.clone());
        }
    }
    names
}

/// Returns the id that a file records for a column.
pub(crate) fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// Adds the id that a file records for a column.
pub(crate) fn with_field_id(field: Field, id: Option<i32>) -> Field {
    let Some(id) = id else { return field };
    let mut metadata = field.metadata().clone();
    metadata.insert(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string());
    field.with_metadata(metadata)
}

/// Whether a file records an id of any column or part.
pub(crate) fn has_field_ids(file: &Fields) -> bool {
    fn any_id(data_type: &DataType) -> bool {
        let of_field = |field: &FieldRef| field_id(field).is_some() || any_id(field.data_type());
        let entries = key_and_value(data_type).map(|(key, value)| [key, value]);
        struct_fields(data_type).into_iter().flatten().any(of_field)
            || item(data_type).is_some_and(of_field)
            || entries.into_iter().flatten().any(of_field)
    }
    file.iter().any(|field| field_id(field).is_some() || any_id(field.data_type()))
}

/// The columns of a file, or the fields of a struct in it, by what identifies them.
struct ColumnKeys<'a> {
    locator: ColumnLocator,
    fields: &'a Fields,
    found: HashMap<ColumnKey<'a>, Vec<usize>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum ColumnKey<'a> {
    Id(i32),
    Name(&'a str),
    /// A name in lower case.
    Folded(String),
}

impl<'a> ColumnKeys<'a> {
    fn of(locator: ColumnLocator, fields: &'a Fields) -> Self {
        let mut found: HashMap<ColumnKey<'a>, Vec<usize>> = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            let name = ColumnKey::Name(field.name());
            let keys = match locator {
                ColumnLocator::Id => [field_id(field).map(ColumnKey::Id), None],
                ColumnLocator::Names => [Some(name), None],
                ColumnLocator::Name | ColumnLocator::Position => {
                    [Some(name), Some(ColumnKey::Folded(field.name().to_lowercase()))]
                }
            };
            keys.into_iter().flatten().for_each(|key| found.entry(key).or_default().push(index));
        }
        Self { locator, fields, found }
    }

    /// Locates a column, or a field. `None` if there is no such one.
    fn field(&self, column: &ColumnInFiles, wanted: &FieldRef) -> Result<Option<Located>, Ambiguous> {
        self.index(column)?.map(|index| self.found(index, column, wanted)).transpose()
    }

    /// Returns a column that is at an index.
    fn found(&self, index: usize, column: &ColumnInFiles, wanted: &FieldRef) -> Result<Located, Ambiguous> {
        let found = &self.fields[index];
        let (data_type, defaults) = self.locator.data_type(&column.parts, wanted.data_type(), found.data_type())?;
        let field = wanted.as_ref().clone().with_name(found.name()).with_data_type(data_type);
        Ok(Located { index, field: Arc::new(field), defaults })
    }

    /// Returns the index of a column of the table, the one at `position` of them.
    fn index_at_top(&self, position: usize, column: &ColumnInFiles) -> Result<Option<usize>, Ambiguous> {
        match self.locator {
            ColumnLocator::Position => Ok((position < self.fields.len()).then_some(position)),
            _ => self.index(column),
        }
    }

    fn index(&self, column: &ColumnInFiles) -> Result<Option<usize>, Ambiguous> {
        let indices: BTreeSet<usize> = match self.locator {
            ColumnLocator::Id => column.id.into_iter().flat_map(|id| self.with(&ColumnKey::Id(id))).collect(),
            ColumnLocator::Names => column.names.iter().flat_map(|name| self.with(&ColumnKey::Name(name))).collect(),
            ColumnLocator::Name | ColumnLocator::Position => {
                match self.with(&ColumnKey::Name(&column.in_file)).next() {
                    Some(first) => [first].into(),
                    // Writers need not keep the case of names.
                    None => self.with(&ColumnKey::Folded(column.in_file.to_lowercase())).collect(),
                }
            }
        };
        let mut indices = indices.into_iter();
        match (indices.next(), indices.next()) {
            (first, None) => Ok(first),
            (first, second) => {
                let found = first.into_iter().chain(second).map(|index| self.fields[index].name().clone());
                Err(Ambiguous { column: column.name.clone(), found: found.collect() })
            }
        }
    }

    fn with<'b>(&'b self, key: &ColumnKey<'b>) -> impl Iterator<Item = usize> + use<'b> {
        let found: &'b HashMap<ColumnKey<'b>, Vec<usize>> = &self.found;
        found.get(key).into_iter().flatten().copied()
    }
}

/// How columns and their parts are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnLocator {
    /// By [`ColumnInFiles::in_file`].
    Name,
    /// By [`ColumnInFiles::id`].
    Id,
    /// By [`ColumnInFiles::names`].
    Names,
    /// By the position at the top, and parts by name.
    Position,
}

impl ColumnLocator {
    fn of(columns: &ColumnsInFiles, file: &Fields) -> Self {
        match (columns.by, columns.without_ids) {
            (FoundBy::Name, _) => Self::Name,
            (FoundBy::Position, _) => Self::Position,
            (FoundBy::Id, FilesWithoutIds::ByNames) if !has_field_ids(file) => Self::Names,
            (FoundBy::Id, _) => Self::Id,
        }
    }

    /// Returns a type of the table with the names of the file, and the values of what the file lacks of it.
    fn data_type(
        self,
        parts: &[ColumnInFiles],
        wanted: &DataType,
        found: &DataType,
    ) -> Result<(DataType, Defaults), Ambiguous> {
        if let (Some(wanted), Some(file)) = (struct_fields(wanted), struct_fields(found)) {
            return self.fields(parts, wanted, file);
        }
        if key_and_value(wanted).is_some() {
            return self.map(parts, wanted, found);
        }
        match (wanted, found) {
            // Instants whose zone the file does not record.
            (DataType::Timestamp(unit, Some(_)), found)
                if *found == INT96 || matches!(found, DataType::Timestamp(_, None)) =>
            {
                Ok((DataType::Timestamp(*unit, None), Defaults::None))
            }
            (wanted, found) => self.by_position(parts, wanted, found),
        }
    }

    fn map(
        self,
        parts: &[ColumnInFiles],
        wanted: &DataType,
        found: &DataType,
    ) -> Result<(DataType, Defaults), Ambiguous> {
        let entries = |data_type| children(data_type).first().copied().cloned().unwrap_or(DataType::Null);
        if key_and_value(found).is_some() {
            let (located, defaults) = self.by_position(parts, &entries(wanted), &entries(found))?;
            let data_type = map_children(wanted, |_| located.clone());
            return Ok((data_type, Defaults::of_parts(vec![defaults])));
        }
        // Avro has no maps whose keys are no strings: it has lists of pairs, in the layout of maps.
        let list = item(found).and_then(|item| Some((item, struct_fields(item.data_type())?)));
        let Some((item, file)) = list.filter(|(_, file)| file.len() == 2) else {
            return Ok((wanted.clone(), Defaults::None));
        };
        let (pairs, defaults) = self.by_position(parts, &entries(wanted), item.data_type())?;
        let pairs = struct_fields(&pairs).into_iter().flatten().zip(file);
        let pairs = pairs.map(|(pair, file)| Arc::new(pair.as_ref().clone().with_name(file.name()))).collect();
        let item = Field::new(item.name(), with_struct_fields(pairs), false);
        let list = with_item(&DataType::new_list(DataType::Null, false), Arc::new(item));
        Ok((list, Defaults::of_parts(vec![defaults])))
    }

    fn fields(
        self,
        parts: &[ColumnInFiles],
        wanted: &Fields,
        file: &Fields,
    ) -> Result<(DataType, Defaults), Ambiguous> {
        let mut defaults = Vec::with_capacity(wanted.len());
        let keys = ColumnKeys::of(self, file);
        let parts: HashMap<&str, &ColumnInFiles> = parts.iter().rev().map(|part| (part.name.as_str(), part)).collect();
        let fields = wanted.iter().map(|field| {
            let part = parts.get(field.name().as_str());
            if let Some(located) = part.map(|part| keys.field(part, field)).transpose()?.flatten() {
                defaults.push(located.defaults);
                return Ok(located.field);
            }
            let default = part.and_then(|part| part.default.clone());
            defaults.push(default.map_or(Defaults::None, Defaults::Value));
            // Such a name is in no file.
            Ok(Arc::new(field.as_ref().clone().with_name(format!("{ABSENT}{}", field.name()))))
        });
        let fields = fields.collect::<Result<Fields, _>>()?;
        Ok((with_struct_fields(fields), Defaults::of_parts(defaults)))
    }

    /// As [`data_type`](Self::data_type), for parts whose names do not matter.
    fn by_position(
        self,
        parts: &[ColumnInFiles],
        wanted: &DataType,
        found: &DataType,
    ) -> Result<(DataType, Defaults), Ambiguous> {
        let pairs = parts.iter().zip(children(found));
        let located: Vec<_> = pairs
            .zip(children(wanted))
            .map(|((part, found), wanted)| self.data_type(&part.parts, wanted, found))
            .collect::<Result<_, _>>()?;
        let (types, defaults): (Vec<_>, Vec<_>) = located.into_iter().unzip();
        let mut types = types.into_iter();
        let data_type = map_children(wanted, |wanted| types.next().unwrap_or_else(|| wanted.clone()));
        Ok((data_type, Defaults::of_parts(defaults)))
    }
}

/// Adapts expressions on a table's columns to files that have them under other names.
#[derive(Debug)]
pub(crate) struct MappedFactory {
    pub(crate) columns: Arc<ColumnsInFiles>,
    /// Adapts expressions on columns with the names of the file.
    pub(crate) inner: Arc<dyn PhysicalExprAdapterFactory>,
}

impl PhysicalExprAdapterFactory for MappedFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let mut columns = HashMap::new();
        let mut in_file = Vec::new();
        let file = FileColumns::new(&self.columns, physical_file_schema.fields());
        for field in logical_file_schema.fields() {
            let located = match file.locate(field) {
                Ok(located) => located,
                Err(Ambiguous { column, found }) => {
                    return internal_err!("column {column:?} of the table is one of {found:?} in the file");
                }
            };
            in_file.extend(located.as_ref().map(|located| Arc::clone(&located.field)));
            columns.insert(field.name().clone(), (located, Arc::clone(field)));
        }
        let schema = Schema::new_with_metadata(in_file, logical_file_schema.metadata().clone());
        let inner = self.inner.create(Arc::new(schema), physical_file_schema)?;
        let defaults =
            self.columns.columns.iter().filter_map(|column| Some((column.name.clone(), column.default.clone()?)));
        Ok(Arc::new(MappedAdapter { columns, defaults: defaults.collect(), inner }))
    }
}

#[derive(Debug)]
struct MappedAdapter {
    /// Where the columns of the table are, with their fields in the table.
    columns: HashMap<String, (Option<Located>, FieldRef)>,
    /// The values of columns that the file may lack.
    defaults: HashMap<String, ScalarValue>,
    inner: Arc<dyn PhysicalExprAdapter>,
}

impl MappedAdapter {
    /// Returns the value of a column that the file lacks.
    fn default(&self, wanted: &Field) -> Result<ScalarValue> {
        match self.defaults.get(wanted.name()) {
            Some(value) if value.data_type() == *wanted.data_type() => Ok(value.clone()),
            Some(value) => internal_err!("the default {value:?} of a column of type {}", wanted.data_type()),
            None => ScalarValue::try_from(wanted.data_type()),
        }
    }
}

impl PhysicalExprAdapter for MappedAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let located = expr.transform(|expr| {
            let column = expr.downcast_ref::<Column>();
            let Some((located, wanted)) = column.and_then(|column| self.columns.get(column.name())) else {
                return Ok(Transformed::no(expr));
            };
            let Some(Located { index, field, defaults }) = located else {
                let default =
                    Literal::new_with_metadata(self.default(wanted)?, Some(FieldMetadata::from(wanted.as_ref())));
                return Ok(Transformed::yes(Arc::new(default) as Arc<dyn PhysicalExpr>));
            };
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), *index));
            Ok(Transformed::yes(match field.data_type() == wanted.data_type() {
                true => column,
                false => Arc::new(Renamed { column, to: Arc::clone(wanted), defaults: defaults.clone() }),
            }))
        });
        self.inner.rewrite(located.data()?)
    }
}

/// A column whose parts get the names of the table, and the values of those that the file lacks.
#[derive(Debug)]
struct Renamed {
    column: Arc<dyn PhysicalExpr>,
    to: FieldRef,
    defaults: Defaults,
}

impl PartialEq for Renamed {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.to == other.to && self.defaults == other.defaults
    }
}

impl Eq for Renamed {}

impl Hash for Renamed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.to.hash(state);
        self.defaults.hash(state);
    }
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "renamed({}, {})", self.column, self.to.data_type())
    }
}

impl PhysicalExpr for Renamed {
    fn return_field(&self, _input_schema: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.to))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(renamed(&array, self.to.data_type(), &self.defaults)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [column] = children.as_slice() else {
            return internal_err!("a renamed column has one child, not {}", children.len());
        };
        Ok(Arc::new(Self { column: Arc::clone(column), to: Arc::clone(&self.to), defaults: self.defaults.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}

/// Returns an array in a type of the same layout, with the values of parts that the file lacks.
fn renamed(array: &ArrayRef, wanted: &DataType, defaults: &Defaults) -> Result<ArrayRef> {
    if array.data_type() == wanted && *defaults == Defaults::None {
        return Ok(Arc::clone(array));
    }
    let found = child_arrays(array);
    let mut parts = Vec::with_capacity(found.len());
    for (index, (part, wanted)) in found.iter().zip(children(wanted)).enumerate() {
        parts.push(match defaults.part(index) {
            // The part has one value for each value of its struct.
            Defaults::Value(value) => masked(&value.to_array_of_size(part.len())?, array.nulls())?,
            defaults => renamed(part, wanted, defaults)?,
        });
    }
    Ok(with_children(array, wanted, &parts)?)
}
