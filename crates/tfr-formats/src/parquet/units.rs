//! [`Units`]: the column types of a table whose files have INT96 timestamps or other values that the library returns as
//! bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, IntervalUnit, Schema, TimeUnit};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use parquet::errors::Result;
use tfr_arrow::nested::{any_type, children, item, map_children};

use super::footer::CorrectedFooter;
use super::reader::{Projection, column};
use super::schema::LeafKind;
use super::values::{Failure, MismatchReason, convert, converted_type};
use crate::names::ColumnNames;

/// The units of INT96 timestamps, which the format does not specify.
#[derive(Debug, Clone, Default)]
pub(super) struct Units {
    /// The unit that was specified.
    pub(super) asked: Option<TimeUnit>,
    /// The declared columns.
    pub(super) declared: Option<Arc<Schema>>,
    /// The leaves with values beyond the range of nanoseconds, by path in the table.
    far: BTreeSet<String>,
}

impl Units {
    pub(super) fn new(asked: Option<TimeUnit>, declared: Option<Arc<Schema>>) -> Self {
        Self { asked, declared, far: BTreeSet::new() }
    }

    /// Returns the columns of a file in the types of the table, under their names in the file.
    pub(super) fn schema(&self, footer: &CorrectedFooter, columns: &ColumnNames) -> Schema {
        let mut leaves = Leaves { footer, next: 0, columns };
        let fields = footer.schema.fields().iter().map(|field| {
            let name = columns.in_table(field.name());
            let declared = self.declared.as_ref().and_then(|declared| declared.field_with_name(&name).ok());
            let unit = |_, path: &str| self.unit(path);
            leaves.field(field, declared.map(Field::data_type), &unit)
        });
        Schema::new_with_metadata(fields.collect::<Vec<_>>(), footer.schema.metadata().clone())
    }

    fn unit(&self, path: &str) -> TimeUnit {
        match self.asked {
            Some(unit) => unit,
            None if self.far.contains(path) => TimeUnit::Microsecond,
            None => TimeUnit::Nanosecond,
        }
    }

    /// Returns the used INT96 leaves of a file whose unit is neither declared nor specified, with indices and paths.
    pub(super) fn undecided(
        &self,
        footer: &CorrectedFooter,
        columns: &ColumnNames,
        is_used: impl Fn(&str) -> bool,
    ) -> BTreeMap<usize, String> {
        let found = Mutex::new(BTreeMap::new());
        if self.asked.is_none() && footer.leaves.contains(&LeafKind::Int96) {
            let mut leaves = Leaves { footer, next: 0, columns };
            for field in footer.schema.fields() {
                let name = columns.in_table(field.name());
                let declared = self.declared.as_ref().and_then(|declared| declared.field_with_name(&name).ok());
                let unit = |leaf, path: &str| {
                    if is_used(&name) {
                        found.lock().unwrap_or_else(PoisonError::into_inner).insert(leaf, path.to_owned());
                    }
                    TimeUnit::Nanosecond
                };
                leaves.field(field, declared.map(Field::data_type), &unit);
            }
        }
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Determines the undecided units by reading the leaves: microseconds if a value in some file does not fit
    /// nanoseconds. Reads each such leaf of each file once, until a value does not fit.
    pub(super) async fn decide(
        &mut self,
        store: &Arc<dyn ObjectStore>,
        files: Vec<(ObjectMeta, Arc<CorrectedFooter>, BTreeMap<usize, String>)>,
        concurrency: usize,
    ) {
        let far = &Mutex::new(BTreeSet::new());
        let read = |(meta, footer, leaves): (ObjectMeta, Arc<CorrectedFooter>, BTreeMap<usize, String>)| async move {
            for (leaf, path) in leaves {
                let is_known = || far.lock().unwrap_or_else(PoisonError::into_inner).contains(&path);
                // An unreadable file is reported by the scan of the column.
                if !is_known() && is_far(store, &meta, &footer, leaf, is_known).await.unwrap_or(false) {
                    far.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
                }
            }
        };
        let reads: Vec<_> = files.into_iter().map(read).collect();
        futures::stream::iter(reads).buffer_unordered(concurrency.max(1)).collect::<()>().await;
        self.far = std::mem::take(&mut *far.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a leaf of a file has values beyond the range of nanoseconds.
async fn is_far(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    footer: &Arc<CorrectedFooter>,
    leaf: usize,
    is_known: impl Fn() -> bool,
) -> Result<bool> {
    let schema = footer.metadata.file_metadata().schema_descr();
    let root = schema.get_column_root_idx(leaf);
    let first = (0..leaf).rev().take_while(|before| schema.get_column_root_idx(*before) == root).last().unwrap_or(leaf);
    let name = schema.get_column_root(leaf).name();
    // The library cannot read a map without its keys.
    let is_map = |data_type: &DataType| matches!(data_type, DataType::Map(..));
    let has_map = footer.schema.field_with_name(name).is_ok_and(|field| any_type(field.data_type(), is_map));
    let (projection, before) =
        if has_map { (Projection::Column(root), leaf - first) } else { (Projection::Leaf(leaf), 0) };
    let mut batches = column(store, meta, footer, projection)?;
    while let Some(array) = batches.try_next().await? {
        let data_type = nanoseconds(array.data_type(), &mut Some(before));
        let converted = converted_type(array.data_type(), &data_type).map(|wanted| convert(&array, &wanted));
        match converted {
            Some(Err(Failure::Mismatch(mismatch))) => return Ok(mismatch.reason == MismatchReason::Beyond),
            _ if is_known() => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// Returns the type with nanoseconds for the leaf that comes after `before` others.
fn nanoseconds(data_type: &DataType, before: &mut Option<usize>) -> DataType {
    if data_type.is_nested() {
        return map_children(data_type, |child| nanoseconds(child, before));
    }
    let is_wanted = *before == Some(0);
    *before = before.and_then(|before| before.checked_sub(1));
    if is_wanted { DataType::Timestamp(TimeUnit::Nanosecond, None) } else { data_type.clone() }
}

/// Traverses the leaves of a file in order.
struct Leaves<'a> {
    footer: &'a CorrectedFooter,
    next: usize,
    columns: &'a ColumnNames,
}

impl Leaves<'_> {
    /// Returns the table's field for one of the file; `unit` returns the unit of an INT96 leaf, given its index and
    /// path.
    fn field(
        &mut self,
        field: &Field,
        declared: Option<&DataType>,
        unit: &dyn Fn(usize, &str) -> TimeUnit,
    ) -> FieldRef {
        Arc::new(field.clone().with_data_type(self.data_type(field.data_type(), declared, unit)))
    }

    fn data_type(
        &mut self,
        data_type: &DataType,
        declared: Option<&DataType>,
        unit: &dyn Fn(usize, &str) -> TimeUnit,
    ) -> DataType {
        let inner = declared.filter(|declared| item(declared).is_some() || matches!(declared, DataType::Map(..)));
        let inner = inner.and_then(|declared| children(declared).pop());
        match data_type {
            DataType::Struct(fields) => {
                let fields = fields.iter().map(|field| {
                    let declared = match declared {
                        Some(DataType::Struct(declared)) => {
                            declared.find(field.name()).map(|(_, field)| field.data_type())
                        }
                        _ => None,
                    };
                    self.field(field, declared, unit)
                });
                DataType::Struct(fields.collect())
            }
            nested if nested.is_nested() => map_children(nested, |child| self.data_type(child, inner, unit)),
            leaf => {
                let index = self.next;
                self.next += 1;
                match self.footer.leaves.get(index) {
                    Some(LeafKind::Int96) => {
                        let unit = match declared {
                            Some(DataType::Timestamp(unit, None)) => *unit,
                            _ => unit(index, &self.path(index)),
                        };
                        DataType::Timestamp(unit, None)
                    }
                    Some(LeafKind::Interval) => DataType::Interval(IntervalUnit::MonthDayNano),
                    Some(LeafKind::Decimal { precision }) => decimal(leaf, *precision),
                    _ => leaf.clone(),
                }
            }
        }
    }

    /// Returns the path of a leaf in the table.
    fn path(&self, leaf: usize) -> String {
        let schema = self.footer.metadata.file_metadata().schema_descr();
        let parts = schema.column(leaf).path().parts().to_vec();
        let mut parts = parts.into_iter();
        let first = parts.next().map(|name| self.columns.in_table(&name));
        first.into_iter().chain(parts).collect::<Vec<_>>().join(".")
    }
}

/// Returns the decimal with the number of digits that the file specifies.
fn decimal(data_type: &DataType, precision: u8) -> DataType {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => match precision <= DECIMAL128_MAX_PRECISION {
            true => DataType::Decimal128(precision, *scale),
            false => DataType::Decimal256(precision, *scale),
        },
        other => other.clone(),
    }
}
