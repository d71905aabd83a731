//! Timestamps with time zone, by the rules of PostgreSQL.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/answers.slt`: A local time is the time there

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow_schema::{DataType, FieldRef, TimeUnit};
use chrono::DateTime;
use datafusion::arrow::datatypes::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType as SqlDataType, TimezoneInfo};
use datafusion_common::config::ConfigOptions;
use datafusion_common::datatype::DataTypeExt as _;
use datafusion_common::{ScalarValue, exec_err, plan_err};
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::zone_offsets::{DEFAULT_ZONE, is_fixed, offset_at, offset_of_local, parse_zone};

/// Plans `TIMESTAMP WITH TIME ZONE` as a timestamp in the zone of the session, or in UTC. The engine would drop the
/// zone in a session without the setting.
#[derive(Debug)]
pub struct ZonedTypes(Arc<str>);

impl ZonedTypes {
    /// Reads the session's zone from its configuration.
    pub fn new(config: &ConfigOptions) -> Self {
        Self(config.execution.time_zone.as_deref().unwrap_or(DEFAULT_ZONE).into())
    }
}

impl TypePlanner for ZonedTypes {
    fn plan_type_field(&self, sql_type: &SqlDataType) -> Result<Option<FieldRef>> {
        let SqlDataType::Timestamp(precision, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) = sql_type else {
            return Ok(None);
        };
        let unit = match precision {
            Some(0) => TimeUnit::Second,
            Some(3) => TimeUnit::Millisecond,
            Some(6) => TimeUnit::Microsecond,
            None | Some(9) => TimeUnit::Nanosecond,
            Some(_) => return Ok(None),
        };
        Ok(Some(DataType::Timestamp(unit, Some(Arc::clone(&self.0))).into_nullable_field_ref()))
    }
}

/// The function that `AT TIME ZONE` calls.
///
/// A timestamp without time zone is a local time in the zone, and is converted to an instant. Where clocks were set
/// forward or back, standard time applies, as in PostgreSQL. A timestamp with time zone is converted to the local time
/// in the zone.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct AtTimeZone(Signature);

impl AtTimeZone {
    /// The function name in SQL.
    pub const NAME: &str = "at_time_zone";
}

impl Default for AtTimeZone {
    fn default() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    /// The name of a column does not change with its zone.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [timestamp, ..] => Ok(timestamp.schema_name().to_string()),
            [] => Ok(Self::NAME.to_owned()),
        }
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [timestamp, zone] = arg_types else {
            return plan_err!("at_time_zone takes a timestamp and a time zone");
        };
        let timestamp = match timestamp {
            DataType::Timestamp(..) => timestamp.clone(),
            DataType::Date32 | DataType::Date64 | DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            other => return plan_err!("AT TIME ZONE is for timestamps, not {other}"),
        };
        match zone {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(vec![timestamp, DataType::Utf8]),
            other => plan_err!("the zone of AT TIME ZONE must be a text, not {other}"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of AT TIME ZONE depends on the zone")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let zone = match args.scalar_arguments {
            [_, Some(zone)] => zone.try_as_str().flatten(),
            _ => None,
        };
        let Some(zone) = zone else {
            return plan_err!("the zone of AT TIME ZONE must be a text in quotes, such as 'Europe/Berlin'");
        };
        parse_zone(zone)?;
        let data_type = match args.arg_fields {
            [timestamp, _] => match timestamp.data_type() {
                DataType::Timestamp(unit, None) => DataType::Timestamp(*unit, Some(zone.into())),
                DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
                other => return plan_err!("AT TIME ZONE is for timestamps, not {other}"),
            },
            _ => return plan_err!("at_time_zone takes a timestamp and a time zone"),
        };
        Ok(data_type.into_nullable_field_ref())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [timestamp, ColumnarValue::Scalar(zone)] = args.args.as_slice() else {
            return exec_err!("the zone of AT TIME ZONE must be a text in quotes");
        };
        let Some(zone) = zone.try_as_str().flatten() else {
            return exec_err!("the zone of AT TIME ZONE must be a text in quotes");
        };
        let zone = parse_zone(zone)?;
        let values = timestamp.to_array_of_size(if matches!(timestamp, ColumnarValue::Scalar(_)) {
            1
        } else {
            args.number_rows
        })?;
        let moved = cast(&moved_of(&values, zone)?, args.return_type())?;
        Ok(match timestamp {
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&moved, 0)?),
            ColumnarValue::Array(_) => ColumnarValue::Array(moved),
        })
    }
}

/// Converts timestamps in a zone with summer time to their local times, without a zone. Returns other values
/// unchanged.
pub fn local_times(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Timestamp(_, Some(zone)) if !is_fixed(zone) => moved_of(values, parse_zone(zone)?),
        _ => Ok(Arc::clone(values)),
    }
}

fn moved_of(values: &ArrayRef, zone: Tz) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => moved::<TimestampSecondType>(values, zone),
        DataType::Timestamp(TimeUnit::Millisecond, _) => moved::<TimestampMillisecondType>(values, zone),
        DataType::Timestamp(TimeUnit::Microsecond, _) => moved::<TimestampMicrosecondType>(values, zone),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => moved::<TimestampNanosecondType>(values, zone),
        other => exec_err!("AT TIME ZONE is for timestamps, not {other}"),
    }
}

/// Converts instants to local times of a zone, or local times to instants. The result has the zone of `values`, not
/// yet that of the function's type: the cast to that type changes no value.
fn moved<T: ArrowTimestampType>(values: &ArrayRef, zone: Tz) -> Result<ArrayRef> {
    let is_zoned = matches!(values.data_type(), DataType::Timestamp(_, Some(_)));
    let per_second = match T::UNIT {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let moved: PrimitiveArray<T> = values.as_primitive::<T>().try_unary(|value| {
        let seconds = value.div_euclid(per_second);
        let offset = DateTime::from_timestamp(seconds, 0)
            .map(|time| time.naive_utc())
            .and_then(|time| if is_zoned { offset_at(zone, time) } else { offset_of_local(zone, time) });
        offset
            .and_then(|offset| offset.checked_mul(per_second))
            .and_then(|offset| if is_zoned { value.checked_add(offset) } else { value.checked_sub(offset) })
            .ok_or_else(|| {
                DataFusionError::Execution(format!("AT TIME ZONE: timestamp {value} ({:?}) is out of range", T::UNIT))
            })
    })?;
    // Without its zone, a cast to a type with a zone would shift the values again. With UTC it does not.
    Ok(if is_zoned { Arc::new(moved) } else { Arc::new(moved.with_timezone(DEFAULT_ZONE)) })
}
