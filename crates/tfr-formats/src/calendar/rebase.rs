//! [`rebased`]: converts arrays from the hybrid to the proleptic Gregorian calendar.

use std::slice::Iter;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use tfr_arrow::nested::map_array;

use super::{GREGORIAN_START, JavaZone, ZoneRules, rebased_days};

const SECONDS_OF_DAY: i64 = 86_400;

/// How the values of a leaf type are converted to the proleptic Gregorian calendar.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// Unchanged: they are proleptic Gregorian, or not dates.
    Keep,
    /// Dates, and timestamps without time zone: keep the local day and time of day.
    Local,
    /// Instants: keep the local day and time of day in the writer's time zone.
    Instant(Arc<JavaZone>),
    /// Instants that become the local day and time of day in the writer's time zone, by these rules.
    LocalOf(Arc<JavaZone>, ZoneRules),
}

impl Rule {
    pub(crate) fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

/// Rebases the dates and timestamps of an array; `rules` has one rule for each leaf of the type, in order.
pub(crate) fn rebased(array: &ArrayRef, rules: &[Rule]) -> Result<ArrayRef, ArrowError> {
    part(array, &mut rules.iter())
}

fn part(array: &ArrayRef, rules: &mut Iter<'_, Rule>) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        nested if nested.is_nested() => map_array(array, |child| part(child, rules))?,
        data_type => {
            let rule = rules.next().unwrap_or(&Rule::Keep);
            match data_type {
                _ if rule.is_keep() => Arc::clone(array),
                DataType::Date32 => {
                    let days = array.as_primitive::<Date32Type>();
                    Arc::new(days.try_unary::<_, Date32Type, _>(|days| {
                        i32::try_from(rebased_days(days.into())).map_err(|_| out_of_range(&format!("{days} days")))
                    })?)
                }
                DataType::Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(array, 1, rule)?,
                DataType::Timestamp(TimeUnit::Millisecond, _) => {
                    timestamps::<TimestampMillisecondType>(array, 1_000, rule)?
                }
                DataType::Timestamp(TimeUnit::Microsecond, _) => {
                    timestamps::<TimestampMicrosecondType>(array, 1_000_000, rule)?
                }
                DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                    timestamps::<TimestampNanosecondType>(array, 1_000_000_000, rule)?
                }
                _ => Arc::clone(array),
            }
        }
    })
}

fn timestamps<T: ArrowPrimitiveType<Native = i64>>(
    array: &ArrayRef,
    per_second: i64,
    rule: &Rule,
) -> Result<ArrayRef, ArrowError> {
    let rebased = array.as_primitive::<T>().try_unary::<_, T, _>(|value| {
        let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
        let seconds = match rule {
            Rule::Keep => Some(seconds),
            Rule::Local => rebased_seconds(seconds),
            Rule::Instant(zone) => zone.rebased(seconds),
            Rule::LocalOf(zone, rules) => zone.local(seconds, *rules),
        };
        let rebased = seconds.and_then(|seconds| seconds.checked_mul(per_second)?.checked_add(fraction));
        rebased.ok_or_else(|| match rule {
            Rule::LocalOf(..) => ArrowError::ComputeError(format!(
                "{seconds} seconds since 1970 are beyond the range of {} in the time zone of the writer",
                array.data_type(),
                seconds = value.div_euclid(per_second)
            )),
            _ => out_of_range(&format!("{seconds} seconds", seconds = value.div_euclid(per_second))),
        })
    })?;
    // Restore the time zone of the type, which `try_unary` drops.
    let rebased: PrimitiveArray<T> = rebased.with_data_type(array.data_type().clone());
    Ok(Arc::new(rebased))
}

/// Returns the error for a value, which includes its unit.
fn out_of_range(value: &str) -> ArrowError {
    let reason = format!(
        "{value} from 1970 in the hybrid calendar is before the first date of this type in the proleptic Gregorian calendar"
    );
    ArrowError::ComputeError(reason)
}

/// Rebases local seconds since 1970 from the hybrid calendar; `None` if out of range.
pub(super) fn rebased_seconds(seconds: i64) -> Option<i64> {
    let (days, rest) = (seconds.div_euclid(SECONDS_OF_DAY), seconds.rem_euclid(SECONDS_OF_DAY));
    match days >= GREGORIAN_START {
        true => Some(seconds),
        false => rebased_days(days).checked_mul(SECONDS_OF_DAY)?.checked_add(rest),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Date32Array, Int32Array, ListArray, StructArray, TimestampMillisecondArray};
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use arrow_schema::{Field, Fields};

    use super::*;

    /// Each leaf has its own rule, and nulls stay null.
    #[test]
    fn rebase_rules_apply_to_each_nested_leaf() -> Result<(), ArrowError> {
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(-719_164), None, Some(0)]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![-719_164; 3]));
        let fields = Fields::from(vec![
            Field::new("n", DataType::Int32, true),
            Field::new("d", DataType::Date32, true),
            Field::new("kept", DataType::Date32, true),
        ]);
        let nulls = Some(NullBuffer::from(vec![true, true, false]));
        let columns = vec![Arc::clone(&numbers), Arc::clone(&dates), Arc::clone(&dates)];
        let structs: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), columns, nulls.clone())?);
        let item = Arc::new(Field::new_list_field(structs.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([1, 2]);
        let lists: ArrayRef = Arc::new(ListArray::try_new(item, offsets, structs, None)?);

        let found = rebased(&lists, &[Rule::Keep, Rule::Local, Rule::Keep])?;
        let found = found.as_list::<i32>().values().as_struct();
        let expected: ArrayRef = Arc::new(Date32Array::from(vec![Some(-719_162), None, Some(0)]));
        let columns = vec![numbers, expected, dates];
        assert_eq!(*found, StructArray::try_new(fields, columns, nulls)?);
        Ok(())
    }

    /// The first years are moved towards 1970, so that the first values stay in range.
    #[test]
    fn the_first_values_of_each_type_can_be_rebased() -> Result<(), ArrowError> {
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![i32::MIN]));
        assert!(rebased(&dates, &[Rule::Local])?.as_primitive::<Date32Type>().value(0) > i32::MIN);
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![i64::MIN]).with_timezone("UTC"));
        let times = rebased(&times, &[Rule::Local])?;
        assert!(times.as_primitive::<TimestampMillisecondType>().value(0) > i64::MIN);
        assert_eq!(times.data_type(), &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())));
        Ok(())
    }
}
