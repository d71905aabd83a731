//! [`Totals`]: sums, averages and products of lists of integers, and sums of lists of decimals.
//!
//! The engine computes with doubles: `array_sum([9223372036854775807, -9223372036854775808])` was 0.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, Decimal128Type, Int64Type};
use arrow_schema::{DataType, Field};
use datafusion_common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use tfr_arrow::nested::item;

use super::rows::ListRows;
use crate::corrected::{Correction, on_arrays};
use crate::sums::average;

/// What is computed of the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Totals {
    Sum,
    Average,
    Product,
}

impl Totals {
    /// Returns the type that items are computed in, or `None` if the engine computes them.
    fn exact(self, list: &DataType) -> Option<DataType> {
        match (item(list)?.data_type(), self) {
            (DataType::UInt64, Self::Sum | Self::Average) => Some(DataType::Decimal128(20, 0)),
            (integer, _) if integer.is_integer() && *integer != DataType::UInt64 => Some(DataType::Int64),
            (DataType::Decimal128(20, 0), Self::Average) => Some(DataType::Decimal128(20, 0)),
            (DataType::Decimal128(precision, scale), Self::Sum) => Some(DataType::Decimal128(*precision, *scale)),
            _ => None,
        }
    }
}

impl Correction for Totals {
    fn coerce(&self, _: &ScalarUDF, types: &[DataType]) -> Result<Option<Vec<DataType>>> {
        let [list] = types else { return Ok(None) };
        Ok(self.exact(list).map(|item| {
            let item = Arc::new(Field::new_list_field(item, true));
            vec![if matches!(list, DataType::LargeList(_)) { DataType::LargeList(item) } else { DataType::List(item) }]
        }))
    }

    fn return_type(&self, _: &ScalarUDF, types: &[DataType]) -> Result<Option<DataType>> {
        let [list] = types else { return Ok(None) };
        Ok(self.exact(list).map(|item| match (self, item) {
            (Self::Average, _) => DataType::Float64,
            (_, DataType::Decimal128(_, scale)) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
            (_, integer) => integer,
        }))
    }

    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_exact = args.args.first().is_some_and(|list| self.exact(&list.data_type()).is_some());
        if !is_exact {
            return engine.invoke_with_args(args);
        }
        on_arrays(&args.args, |arrays| {
            let [lists] = arrays else { return exec_err!("{} takes one list", engine.name()) };
            let Some(rows) = ListRows::of(&ColumnarValue::Array(Arc::clone(lists)))? else {
                return exec_err!("{} takes a list", engine.name());
            };
            let totals: Vec<_> =
                (0..lists.len()).map(|row| self.total(&rows, row, engine.name())).collect::<Result<_>>()?;
            self.results(totals, rows.items().data_type(), engine.name())
        })
    }
}

impl Totals {
    /// Returns the sum or product of the items in a row that are not NULL, and their number, if there are any.
    fn total(self, rows: &ListRows, row: usize, function: &str) -> Result<Option<(i128, u64)>> {
        let value = |item: usize| match rows.items().as_primitive_opt::<Int64Type>() {
            Some(integers) => i128::from(integers.value(item)),
            None => rows.items().as_primitive::<Decimal128Type>().value(item),
        };
        let mut total: Option<(i128, u64)> = None;
        for item in rows.range(row).into_iter().flatten().filter(|item| !rows.is_null_item(*item)) {
            total = match total {
                None => Some((value(item), 1)),
                Some((total, count)) => {
                    let next = match self {
                        Self::Sum | Self::Average => total.checked_add(value(item)),
                        Self::Product => total.checked_mul(value(item)),
                    };
                    Some((next.ok_or_else(|| out_of_range(function))?, count + 1))
                }
            };
        }
        Ok(total)
    }

    fn results(self, totals: Vec<Option<(i128, u64)>>, item: &DataType, function: &str) -> Result<ArrayRef> {
        let sums = totals.iter().map(|total| total.map(|(total, _)| total));
        Ok(match (self, item) {
            (Self::Average, _) => {
                let averages = totals.iter().map(|total| total.map(|(total, count)| average(total, count)));
                Arc::new(averages.collect::<Float64Array>())
            }
            (_, DataType::Decimal128(_, scale)) => {
                let sums =
                    sums.collect::<Decimal128Array>().with_precision_and_scale(DECIMAL128_MAX_PRECISION, *scale)?;
                sums.validate_decimal_precision(DECIMAL128_MAX_PRECISION).map_err(|_| out_of_range(function))?;
                Arc::new(sums)
            }
            _ => {
                let integer = |total: i128| i64::try_from(total).map_err(|_| out_of_range(function));
                Arc::new(sums.map(|total| total.map(integer).transpose()).collect::<Result<Int64Array>>()?)
            }
        })
    }
}

fn out_of_range(function: &str) -> DataFusionError {
    exec_datafusion_err!("{function} is out of range; CAST(x AS DOUBLE[]) has no such limit")
}
