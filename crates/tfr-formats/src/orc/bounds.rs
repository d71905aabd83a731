//! [`StripeBounds`]: determines which stripes of a file may contain rows that pass a filter.
//!
//! Bounds are used for integers, for texts, and for dates since the start of the Gregorian calendar, which all writers
//! count alike. Texts of a fixed length are excluded: they are stored without trailing spaces that may be part of their
//! bounds. Bounds of floating point numbers ignore NaN, those of timestamps ignore time zones, and those of decimals
//! are texts.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Date32Array, Int64Array, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, SchemaRef};
use datafusion_common::pruning::PruningStatistics;
use datafusion_common::{Column, ScalarValue};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_pruning::PruningPredicateBuilder;

use super::proto::{StripeStatistics, ValueStatistics, kind};
use super::tail::Tail;

/// 1582-10-15, in days since 1970.
const GREGORIAN_START: i32 = -141_427;

/// The bounds in a file's tail.
pub(super) struct StripeBounds<'a> {
    tail: &'a Tail,
    /// The table's names of the file's columns, in file order.
    names: &'a [String],
    /// The columns of the table.
    schema: &'a SchemaRef,
    stripes: Vec<StripeStatistics>,
}

impl<'a> StripeBounds<'a> {
    /// Returns the bounds, if the file has any.
    pub(super) fn of(tail: &'a Tail, names: &'a [String], schema: &'a SchemaRef) -> Option<Self> {
        Some(Self { tail, names, schema, stripes: tail.stripe_statistics()? })
    }

    /// Returns for each stripe whether it may contain rows that pass. Undetermined stripes may.
    pub(super) fn may_pass(&self, filter: &Arc<dyn PhysicalExpr>) -> Vec<bool> {
        let predicate = PruningPredicateBuilder::new().with_file_schema(Arc::clone(self.schema));
        let predicate = predicate.try_build(Arc::clone(filter));
        let passing = predicate.and_then(|predicate| predicate.prune(self));
        passing.unwrap_or_else(|_| vec![true; self.stripes.len()])
    }

    /// Returns a bound of each stripe in the type of the table's column; null if there is none.
    fn bounds(&self, column: &Column, side: Side) -> Option<ArrayRef> {
        let field = self.schema.field_with_name(&column.name).ok()?;
        let index = self.names.iter().position(|name| *name == column.name)?;
        let id = self.tail.columns[index].types.start;
        let found = self.stripes.iter().map(|stripe| &stripe.columns[id]);
        // In another type, values may be ordered differently than in the file.
        let wanted = field.data_type();
        let bounds: ArrayRef = match self.tail.types[id].kind {
            kind::BYTE | kind::SHORT | kind::INT | kind::LONG if wanted.is_integer() => {
                Arc::new(found.map(|found| side.integer(found)).collect::<Int64Array>())
            }
            kind::DATE if *wanted == DataType::Date32 => {
                Arc::new(found.map(|found| side.date(found)).collect::<Date32Array>())
            }
            kind::STRING | kind::VARCHAR if is_text(wanted) => {
                Arc::new(found.map(|found| side.text(found)).collect::<StringArray>())
            }
            _ => return None,
        };
        // A bound that is out of range for the table's type becomes null, which means no bound.
        cast_with_options(&bounds, wanted, &CastOptions::default()).ok()
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Which bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Minimum,
    Maximum,
}

impl Side {
    fn of<T>(self, minimum: T, maximum: T) -> T {
        match self {
            Self::Minimum => minimum,
            Self::Maximum => maximum,
        }
    }

    fn integer(self, found: &ValueStatistics) -> Option<i64> {
        found.integers.and_then(|integers| self.of(integers.minimum, integers.maximum))
    }

    fn date(self, found: &ValueStatistics) -> Option<i32> {
        let days = found.dates.and_then(|dates| self.of(dates.minimum, dates.maximum));
        days.filter(|days| *days >= GREGORIAN_START)
    }

    fn text(self, found: &ValueStatistics) -> Option<&str> {
        let text = found.strings.as_ref().and_then(|texts| self.of(texts.minimum.as_ref(), texts.maximum.as_ref()));
        text.and_then(|text| std::str::from_utf8(text).ok())
    }
}

impl PruningStatistics for StripeBounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, Side::Minimum)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, Side::Maximum)
    }

    fn num_containers(&self) -> usize {
        self.stripes.len()
    }

    /// Not used: some writers omit whether there are nulls, which a reader takes as none.
    fn null_counts(&self, _column: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[cfg(test)]
mod tests;
