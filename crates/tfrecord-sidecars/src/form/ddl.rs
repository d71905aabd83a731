//! A table as a statement of DataFusion's SQL.

use std::iter;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use arrow_tfrecord::{Choice, ColumnMapping, FeatureKind, FeatureRole, FeatureShape, NullPolicy, RecordType};

use super::TableDescription;

/// What SQL makes of `TIMESTAMP WITH TIME ZONE` unless a session has another zone.
const SESSION_ZONE: &str = "+00:00";

pub(super) fn statement(table: &TableDescription<'_>) -> String {
    let fields = table.mapping.schema().fields();
    let columns: Vec<Column> = fields.iter().zip(table.mapping.columns()).map(Column::new).collect();
    let last = columns.iter().rposition(|column| column.definition.is_some());
    let mut lines = Vec::new();
    for (position, column) in columns.iter().enumerate() {
        // Names of columns and fields may hold line feeds, which would end the comment.
        let comment = column.comment.as_ref().map(|text| format!("-- {}", text.replace(char::is_control, " ")));
        let definition = column.definition.as_ref().map(|definition| {
            let comma = if Some(position) == last { "" } else { "," };
            format!("{definition}{comma}")
        });
        lines.push(format!("  {}\n", definition.into_iter().chain(comment).collect::<Vec<_>>().join(" ")));
    }
    let options = options(&columns, table);
    let options = if options.is_empty() { String::new() } else { format!("\nOPTIONS ({})", options.join(", ")) };
    // Without a column to name, the types are those that the records have.
    let columns = if last.is_some() { format!(" (\n{})", lines.concat()) } else { String::new() };
    format!(
        "CREATE EXTERNAL TABLE {}{columns}\nSTORED AS TFRECORD\nLOCATION {}{options};\n",
        identifier(&table.name),
        literal(&table.location),
    )
}

fn options(columns: &[Column], table: &TableDescription<'_>) -> Vec<String> {
    let rules: Vec<&str> = columns.iter().filter_map(|column| column.rule.as_deref()).collect();
    let option = |name: &str, value: &str| format!("'tfrecord.{name}' {}", literal(value));
    let record_type = table.mapping.record_type();
    let record_type = (record_type != RecordType::default()).then(|| option("record_type", &record_type.to_string()));
    let is_sequence = |column: &&ColumnMapping| column.features.iter().any(|feature| feature.in_steps);
    let sequences = table.mapping.columns().iter().filter(is_sequence);
    let sequences: Vec<_> = sequences.map(|column| in_options(&column.column)).collect();
    let sequences = (!sequences.is_empty()).then(|| option("sequence", &sequences.join(", ")));
    let map = (!rules.is_empty()).then(|| option("map", &rules.join(", ")));
    let refused = table.mapping.columns().iter().any(|column| column.nulls == NullPolicy::Error);
    record_type.into_iter().chain(sequences).chain(map).chain(refused.then(|| option("null", "error"))).collect()
}

/// A column of the statement.
struct Column {
    /// None if SQL has no name for its type.
    definition: Option<String>,
    comment: Option<String>,
    /// The column's part of the option `map`.
    rule: Option<String>,
}

impl Column {
    fn new((field, column): (&FieldRef, &ColumnMapping)) -> Self {
        let name = identifier(field.name());
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        let data_type = field.data_type();
        // The vocabulary of ranks has no place in the statement.
        let has_form = column.choice != Some(Choice::Index);
        if let Some((sql, named)) = named(data_type).filter(|_| has_form) {
            return Self {
                definition: Some(format!("{name} {sql}{not_null}")),
                comment: (named != *data_type).then(|| data_type.to_string()),
                rule: rule(column, column.choice),
            };
        }
        match stored(column) {
            Some(sql) => Self {
                definition: Some(format!("{name} {sql}{not_null}")),
                comment: Some(match &column.form {
                    Some(form) => format!("{data_type}, as stored: {form}"),
                    None => format!("{data_type}, as stored"),
                }),
                rule: rule(column, None),
            },
            None => Self {
                definition: None,
                comment: Some(format!("{name} is {data_type}, which SQL cannot name")),
                rule: None,
            },
        }
    }
}

/// The SQL name of a type, with the type that it names: of the same values, but not always the same.
fn named(data_type: &DataType) -> Option<(String, DataType)> {
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
            let (with_zone, zone) = match zone {
                Some(_) => (" WITH TIME ZONE", Some(SESSION_ZONE.into())),
                None => ("", None),
            };
            return Some((format!("TIMESTAMP({digits}){with_zone}"), T::Timestamp(*unit, zone)));
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
        T::Dictionary(_, values) => return named(values),
        T::RunEndEncoded(_, values) => return named(values.data_type()),
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            let (sql, item) = named(item.data_type())?;
            // Brackets behind `>>` would belong to the inner struct.
            let sql = if sql.ends_with('>') { format!("ARRAY<{sql}>") } else { format!("{sql}[]") };
            return Some((sql, T::new_list(item, true)));
        }
        T::FixedSizeList(item, len) => {
            let (sql, item) = named(item.data_type())?;
            let is_clear = !sql.ends_with('>');
            return is_clear.then(|| (format!("{sql}[{len}]"), T::new_fixed_size_list(item, *len, true)));
        }
        T::Struct(fields) => {
            let named: Option<Vec<_>> =
                fields.iter().map(|field| Some((field.name(), named(field.data_type())?))).collect();
            let named = named.filter(|fields| !fields.is_empty())?;
            let sql: Vec<_> = named.iter().map(|(name, (sql, _))| format!("{} {sql}", identifier(name))).collect();
            let fields = named.into_iter().map(|(name, (_, data_type))| Field::new(name, data_type, true));
            return Some((format!("STRUCT<{}>", sql.join(", ")), T::Struct(fields.collect())));
        }
        _ => return None,
    };
    Some((sql.to_owned(), named))
}

/// The SQL type of what is in the column's only feature.
fn stored(column: &ColumnMapping) -> Option<String> {
    let [feature] = column.features.as_slice() else { return None };
    let sql = match feature.kind {
        FeatureKind::Int64 => "BIGINT",
        FeatureKind::Float => "REAL",
        FeatureKind::Bytes if column.choice == Some(Choice::String) => "VARCHAR",
        FeatureKind::Bytes => "BYTEA",
    };
    Some(match feature.shape {
        FeatureShape::Scalar => sql.to_owned(),
        FeatureShape::List => format!("{sql}[]"),
        FeatureShape::Fixed(len) => format!("{sql}[{len}]"),
    })
}

fn identifier(name: &str) -> String {
    quoted(name, '"')
}

fn literal(text: &str) -> String {
    quoted(text, '\'')
}

fn quoted(text: &str, quote: char) -> String {
    let doubled = text.chars().flat_map(|letter| iter::repeat_n(letter, if letter == quote { 2 } else { 1 }));
    iter::once(quote).chain(doubled).chain(iter::once(quote)).collect()
}

/// What a reader has to know of a column: its form, and where its nulls are.
fn rule(column: &ColumnMapping, choice: Option<Choice>) -> Option<String> {
    let has_masks = column.features.iter().any(|feature| feature.role == FeatureRole::Mask);
    let nulls = match has_masks {
        true => Some(NullPolicy::Mask),
        false => Some(NullPolicy::Empty).filter(|policy| column.nullable && column.nulls == *policy),
    };
    let choice = choice.map(|choice| choice.to_string());
    let said: Vec<_> = choice.into_iter().chain(nulls.map(|policy| format!("null={policy}"))).collect();
    (!said.is_empty()).then(|| format!("{}: {}", in_options(&column.column), said.join(", ")))
}

/// A column's name in an option.
fn in_options(name: &str) -> String {
    if name.contains([':', ',', ';', ' ', '"']) { quoted(name, '"') } else { name.to_owned() }
}
