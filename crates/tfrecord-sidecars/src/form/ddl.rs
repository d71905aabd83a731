//! Renders a table as a DataFusion SQL statement.

use std::iter;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use arrow_tfrecord::{
    Choice, ColumnMapping, ColumnRule, FeatureKind, FeatureMapping, FeatureRole, FeatureShape, Mapping, MappingOptions,
    NullPolicy, RecordType,
};

use super::TableDescription;

pub(super) fn statement(table: &TableDescription<'_>) -> String {
    let fields = table.mapping.schema().fields();
    let columns = fields.iter().zip(table.mapping.columns());
    let columns: Vec<Column> = columns.map(|(field, column)| Column::new(field, column, table.mapping)).collect();
    let last = columns.iter().rposition(|column| column.definition.is_some());
    let mut lines = Vec::new();
    for (position, column) in columns.iter().enumerate() {
        // Names of columns and fields may contain line feeds, which would end the comment.
        let comment = column.comment.as_ref().map(|text| format!("-- {}", text.replace(char::is_control, " ")));
        let definition = column.definition.as_ref().map(|definition| {
            let comma = if Some(position) == last { "" } else { "," };
            format!("{definition}{comma}")
        });
        lines.push(format!("  {}\n", definition.into_iter().chain(comment).collect::<Vec<_>>().join(" ")));
    }
    let options = options(&columns, table);
    let options = if options.is_empty() { String::new() } else { format!("\nOPTIONS ({})", options.join(", ")) };
    // Without any named column, the types are inferred from the records.
    let columns = if last.is_some() { format!(" (\n{})", lines.concat()) } else { String::new() };
    let note = table.note.as_ref().map(|note| format!("-- {note}\n")).unwrap_or_default();
    format!(
        "{note}CREATE EXTERNAL TABLE {}{columns}\nSTORED AS TFRECORD\nLOCATION {}{options};\n",
        identifier(&table.name),
        literal(&table.location),
    )
}

/// The maximum number of values of a vocabulary in a statement. Longer ones are only in the manifest.
const LONGEST_VOCABULARY: usize = 1000;

fn options(columns: &[Column], table: &TableDescription<'_>) -> Vec<String> {
    let rules: Vec<String> = columns
        .iter()
        .flat_map(|column| &column.rules)
        .map(|(part, rule)| format!("{}: {rule}", in_options(part)))
        .collect();
    let vocabularies: Vec<String> = columns
        .iter()
        .flat_map(|column| &column.rules)
        .filter_map(|(part, rule)| Some((part, vocabulary(part, rule, table.mapping.options())?)))
        .map(|(part, values)| {
            let values: Vec<_> = values.iter().map(|value| in_options(value)).collect();
            format!("{}: {}", in_options(part), values.join(", "))
        })
        .collect();
    let option = |name: &str, value: &str| format!("'tfrecord.{name}' {}", literal(value));
    let record_type = table.mapping.record_type();
    let record_type = (record_type != RecordType::default()).then(|| option("record_type", &record_type.to_string()));
    let is_sequence = |column: &&ColumnMapping| column.features.iter().any(|feature| feature.in_steps);
    let separator = &table.mapping.options().separator;
    let separator = (*separator != MappingOptions::default().separator).then(|| option("separator", separator));
    let sequences = table.mapping.columns().iter().filter(is_sequence);
    let sequences: Vec<_> = sequences.map(|column| in_options(&column.column)).collect();
    let sequences = (!sequences.is_empty()).then(|| option("sequence", &sequences.join(", ")));
    let map = (!rules.is_empty()).then(|| option("map", &rules.join(", ")));
    let refused = table.mapping.columns().iter().any(|column| column.nulls == NullPolicy::Error);
    record_type
        .into_iter()
        .chain(sequences)
        .chain(separator)
        .chain(map)
        .chain((!vocabularies.is_empty()).then(|| option("vocabulary", &vocabularies.join("; "))))
        .chain(refused.then(|| option("null", "error")))
        .collect()
}

/// A column of the statement.
struct Column {
    /// `None` if its type has no SQL name.
    definition: Option<String>,
    comment: Option<String>,
    /// Its entries of the option `map`.
    rules: Vec<(String, ColumnRule)>,
}

impl Column {
    fn new(field: &FieldRef, column: &ColumnMapping, mapping: &Mapping) -> Self {
        let name = identifier(field.name());
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        let data_type = field.data_type();
        let rules = rules(field, column, mapping.options());
        let named = named(data_type);
        let is_named = named.is_some();
        if let Some((sql, named)) = named.filter(|(_, named)| reads(named, field, column, &rules, mapping.options())) {
            return Self {
                definition: Some(format!("{name} {sql}{not_null}")),
                comment: (named != *data_type).then(|| data_type.to_string()),
                rules,
            };
        }
        match stored(column) {
            Some(sql) => Self {
                definition: Some(format!("{name} {sql}{not_null}")),
                comment: Some(match &column.form {
                    Some(form) => format!("{data_type}, as stored: {form}"),
                    None => format!("{data_type}, as stored"),
                }),
                rules: rules.into_iter().map(|(part, rule)| (part, without_choice(rule))).filter(said).collect(),
            },
            None => {
                let but = if is_named { "cannot be declared as it was written" } else { "SQL cannot name" };
                let comment = Some(format!("{name} is {data_type}, which {but}"));
                Self { definition: None, comment, rules: Vec::new() }
            }
        }
    }
}

fn without_choice(mut rule: ColumnRule) -> ColumnRule {
    rule.choice = None;
    rule
}

fn said((_, rule): &(String, ColumnRule)) -> bool {
    *rule != ColumnRule::default()
}

/// The rules that a reader needs for a column and its parts: their encodings, and how nulls were written.
fn rules(field: &Field, column: &ColumnMapping, options: &MappingOptions) -> Vec<(String, ColumnRule)> {
    let mut rules = Rules { column, options, rules: Vec::new() };
    rules.add(field, field.name(), NullPolicy::Absent);
    rules.rules
}

struct Rules<'a> {
    column: &'a ColumnMapping,
    options: &'a MappingOptions,
    rules: Vec<(String, ColumnRule)>,
}

impl Rules<'_> {
    /// Adds the rules of a part and its children that differ from `around`.
    fn add(&mut self, part: &Field, path: &str, around: NullPolicy) {
        let nulls = self.nulls(part, path);
        let mut rule = ColumnRule::default();
        let has_place = |choice: &Choice| *choice != Choice::Index || self.has_short_vocabulary(path);
        rule.choice = self.options.choices.get(path).copied().filter(has_place);
        rule.nulls = (nulls != around).then(|| nulls.into());
        if rule != ColumnRule::default() {
            self.rules.push((path.to_owned(), rule));
        }
        self.add_parts(part.data_type(), path, nulls);
    }

    fn add_parts(&mut self, data_type: &DataType, path: &str, around: NullPolicy) {
        let name = |part: &str| format!("{path}{}{part}", self.options.separator);
        match data_type {
            DataType::Struct(fields) => {
                let parts: Vec<_> = fields.iter().map(|field| (field, name(field.name()))).collect();
                parts.into_iter().for_each(|(field, path)| self.add(field, &path, around));
            }
            DataType::Map(entries, _) => {
                if let DataType::Struct(fields) = entries.data_type() {
                    let parts: Vec<_> = fields.iter().zip(["key", "value"].map(name)).collect();
                    parts.into_iter().for_each(|(field, path)| self.add(field, &path, around));
                }
            }
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => self.add_parts(item.data_type(), path, around),
            _ => {}
        }
    }

    /// Whether the vocabulary of a part is short enough for the statement.
    fn has_short_vocabulary(&self, path: &str) -> bool {
        self.options.vocabularies.get(path).is_some_and(|values| values.len() <= LONGEST_VOCABULARY)
    }

    /// How the nulls of a part were written, as far as readers need it.
    fn nulls(&self, part: &Field, path: &str) -> NullPolicy {
        let mask = format!("{path}{}is_null", self.options.separator);
        let is_mask = |name: &str| {
            let level = name.strip_prefix(mask.as_str());
            level.is_some_and(|level| level.is_empty() || level.starts_with('_'))
        };
        let features = self.column.features.iter();
        if features.into_iter().any(|feature| feature.role == FeatureRole::Mask && is_mask(&feature.name)) {
            return NullPolicy::Mask;
        }
        let mut said_of = Some(path);
        let said = iter::from_fn(|| {
            let part = said_of?;
            said_of = part.rsplit_once(self.options.separator.as_str()).map(|(around, _)| around);
            Some(self.options.column_nulls.get(part))
        });
        let is_empty = match said.flatten().next() {
            Some(rule) => *rule == NullPolicy::Empty,
            None => self.options.nulls == NullPolicy::Empty,
        };
        if is_empty && part.is_nullable() { NullPolicy::Empty } else { NullPolicy::Absent }
    }
}

/// The vocabulary of a part, if its rule is `index`.
fn vocabulary<'a>(part: &str, rule: &ColumnRule, written: &'a MappingOptions) -> Option<&'a [String]> {
    written.vocabularies.get(part).filter(|_| rule.choice == Some(Choice::Index)).map(Vec::as_slice)
}

/// Whether a column declared with a type whose parts are all nullable has the features that were written.
fn reads(
    named: &DataType,
    field: &Field,
    column: &ColumnMapping,
    rules: &[(String, ColumnRule)],
    written: &MappingOptions,
) -> bool {
    fn sorted(column: &ColumnMapping) -> Vec<&FeatureMapping> {
        let mut features: Vec<_> = column.features.iter().collect();
        features.sort_by_key(|feature| &feature.name);
        features
    }

    let mut options =
        MappingOptions::default().with_record_type(written.record_type).with_separator(&written.separator);
    if column.features.iter().any(|feature| feature.in_steps) {
        options = options.with_sequence(field.name());
    }
    for (part, rule) in rules {
        options = options.with_rule(part, rule.clone());
        if let Some(values) = vocabulary(part, rule, written) {
            options.vocabularies.insert(part.clone(), values.to_vec());
        }
    }
    let declared = Schema::new(vec![Field::new(field.name(), named.clone(), field.is_nullable())]);
    Mapping::try_new(&Arc::new(declared), &options)
        .is_ok_and(|mapping| mapping.columns().iter().map(sorted).eq([sorted(column)]))
}

/// The SQL name of a type, with the Arrow type of that name. It has the same values, but is not always the same type.
pub(super) fn named(data_type: &DataType) -> Option<(String, DataType)> {
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
        T::Dictionary(_, values) => return named(values),
        T::RunEndEncoded(_, values) => return named(values.data_type()),
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            let (sql, item) = named(item.data_type())?;
            // Brackets after `>>` would apply to the inner struct.
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

/// The SQL type of the stored values of a single-feature column.
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

/// Quotes the name of a part, or a value, for an option.
fn in_options(name: &str) -> String {
    let is_special = |letter: char| matches!(letter, ':' | ',' | ';' | '"') || letter.is_whitespace();
    if name.is_empty() || name.contains(is_special) { quoted(name, '"') } else { name.to_owned() }
}
