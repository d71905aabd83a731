//! Names of types and columns in SQL.

use std::iter;

use arrow_schema::{DataType, Field, TimeUnit};

/// Returns the SQL name that declares a column of this type in DataFusion, and the Arrow type of that declaration. It
/// has the same values, but is not always the same type. `None` for types without a SQL name.
///
/// ```
/// use arrow_schema::DataType;
/// use tfr_arrow::sql::sql_type;
///
/// assert_eq!(sql_type(&DataType::LargeUtf8), Some(("VARCHAR".to_owned(), DataType::Utf8View)));
/// ```
pub fn sql_type(data_type: &DataType) -> Option<(String, DataType)> {
    use DataType as T;

    let (sql, named) = match data_type {
        T::Boolean => ("BOOLEAN", T::Boolean),
        T::Int8 => ("TINYINT", T::Int8),
        T::Int16 => ("SMALLINT", T::Int16),
        T::Int32 => ("INT", T::Int32),
        T::Int64 => ("BIGINT", T::Int64),
        T::UInt8 => ("TINYINT UNSIGNED", T::UInt8),
        T::UInt16 => ("SMALLINT UNSIGNED", T::UInt16),
        T::UInt32 => ("INT UNSIGNED", T::UInt32),
        T::UInt64 => ("BIGINT UNSIGNED", T::UInt64),
        T::Float16 | T::Float32 => ("REAL", T::Float32),
        T::Float64 => ("DOUBLE", T::Float64),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => ("VARCHAR", T::Utf8View),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => ("BYTEA", T::Binary),
        T::Date32 => ("DATE", T::Date32),
        T::Time64(TimeUnit::Nanosecond) => ("TIME", T::Time64(TimeUnit::Nanosecond)),
        T::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            let with_zone = zone.as_ref().map_or("", |_| " WITH TIME ZONE");
            // The session's zone applies, and is unset by default.
            return Some((format!("TIMESTAMP({digits}){with_zone}"), T::Timestamp(*unit, None)));
        }
        T::Decimal32(precision, scale)
        | T::Decimal64(precision, scale)
        | T::Decimal128(precision, scale)
        | T::Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            let sql = format!("DECIMAL({precision}, {scale})");
            let wide = *precision > arrow_schema::DECIMAL128_MAX_PRECISION;
            return Some((
                sql,
                if wide { T::Decimal256(*precision, *scale) } else { T::Decimal128(*precision, *scale) },
            ));
        }
        T::Dictionary(_, values) => return sql_type(values),
        T::RunEndEncoded(_, values) => return sql_type(values.data_type()),
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            let (sql, item) = sql_type(item.data_type())?;
            // Brackets after `>>` would apply to the inner struct.
            let sql = if sql.ends_with('>') { format!("ARRAY<{sql}>") } else { format!("{sql}[]") };
            return Some((sql, T::new_list(item, true)));
        }
        T::FixedSizeList(item, len) => {
            let (sql, item) = sql_type(item.data_type())?;
            let is_clear = !sql.ends_with('>');
            return is_clear.then(|| (format!("{sql}[{len}]"), T::new_fixed_size_list(item, *len, true)));
        }
        T::Struct(fields) => {
            let named: Option<Vec<_>> =
                fields.iter().map(|field| Some((field.name(), sql_type(field.data_type())?))).collect();
            let named = named.filter(|fields| !fields.is_empty())?;
            let sql: Vec<_> = named.iter().map(|(name, (sql, _))| format!("{} {sql}", identifier(name))).collect();
            let fields = named.into_iter().map(|(name, (_, data_type))| Field::new(name, data_type, true));
            return Some((format!("STRUCT<{}>", sql.join(", ")), T::Struct(fields.collect())));
        }
        _ => return None,
    };
    Some((sql.to_owned(), named))
}

/// Quotes the name of a column.
pub fn identifier(name: &str) -> String {
    quoted(name, '"')
}

/// Puts a text in quotes, and doubles the quotes in it.
pub fn quoted(text: &str, quote: char) -> String {
    let doubled = text.chars().flat_map(|letter| iter::repeat_n(letter, if letter == quote { 2 } else { 1 }));
    iter::once(quote).chain(doubled).chain(iter::once(quote)).collect()
}
