//! Renders a table as a DataFusion SQL statement.

use std::iter;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_tfrecord::{
    Choice, ColumnMapping, ColumnRule, FeatureKind, FeatureMapping, FeatureRole, FeatureShape, Mapping, MappingOptions,
    NullPolicy, RecordType,
};
use tfr_arrow::nested::{element_type, item, key_and_value, struct_fields};
use tfr_arrow::sql::{identifier, quoted, sql_type};
use tfrecord_framing::Container;

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
        "{note}CREATE EXTERNAL TABLE {}{columns}\nSTORED AS {}\nLOCATION {}{options};\n",
        identifier(&table.name),
        if table.container == Some(Container::ArrayRecord) { "ARRAYRECORD" } else { "TFRECORD" },
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
    // A single list of structs is that of the examples.
    let are_examples_named = !table.mapping.options().sequences.is_empty();
    let is_sequence = |column: &&ColumnMapping| {
        let mut features = column.features.iter();
        features.any(|feature| feature.in_steps || feature.in_examples && are_examples_named)
    };
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
        let named = sql_type(data_type);
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
                rules: rules.into_iter().map(|(part, rule)| (part, without_choice(rule))).filter(is_given).collect(),
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

fn is_given((_, rule): &(String, ColumnRule)) -> bool {
    *rule != ColumnRule::default()
}

/// The rules that a reader needs for a column and its parts: their encodings, and how nulls were written.
fn rules(field: &Field, column: &ColumnMapping, options: &MappingOptions) -> Vec<(String, ColumnRule)> {
    let mut rules = Rules { column, options, rules: Vec::new() };
    match struct_fields(element_type(field.data_type())).filter(|_| contains_examples(column)) {
        // The fields of examples name features.
        Some(fields) => {
            let nulls = rules.add_alone(field, field.name(), NullPolicy::Absent);
            fields.iter().for_each(|field| rules.add(field, field.name(), nulls));
        }
        None => rules.add(field, field.name(), NullPolicy::Absent),
    }
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
        let nulls = self.add_alone(part, path, around);
        self.add_parts(part.data_type(), path, nulls);
    }

    /// Adds the rule of a part, and returns how its nulls were written.
    fn add_alone(&mut self, part: &Field, path: &str, around: NullPolicy) -> NullPolicy {
        let nulls = self.nulls(part, path);
        let mut rule = ColumnRule::default();
        let has_place = |choice: &Choice| *choice != Choice::Index || self.has_short_vocabulary(path);
        rule.choice = self.options.choices.get(path).copied().filter(has_place);
        rule.nulls = (nulls != around).then(|| nulls.into());
        if rule != ColumnRule::default() {
            self.rules.push((path.to_owned(), rule));
        }
        nulls
    }

    fn add_parts(&mut self, data_type: &DataType, path: &str, around: NullPolicy) {
        let name = |part: &str| format!("{path}{}{part}", self.options.separator);
        match data_type {
            DataType::Struct(fields) => {
                let parts: Vec<_> = fields.iter().map(|field| (field, name(field.name()))).collect();
                parts.into_iter().for_each(|(field, path)| self.add(field, &path, around));
            }
            map if let Some((key, value)) = key_and_value(map) => {
                let [key_path, value_path] = ["key", "value"].map(name);
                self.add(key, &key_path, around);
                self.add(value, &value_path, around);
            }
            list if let Some(item) = item(list) => self.add_parts(item.data_type(), path, around),
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
        let mut next = Some(path);
        let rules = iter::from_fn(|| {
            let part = next?;
            next = part.rsplit_once(self.options.separator.as_str()).map(|(around, _)| around);
            Some(self.options.column_nulls.get(part))
        });
        let of_column = || self.options.column_nulls.get(&self.column.column);
        let is_empty = match rules.flatten().next().or_else(of_column) {
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
    // The features of a context are as in an Example.
    if written.record_type == RecordType::ExampleListWithContext && !contains_examples(column) {
        options = options.with_record_type(RecordType::Example);
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

/// Whether the elements of a column are the examples of a record.
fn contains_examples(column: &ColumnMapping) -> bool {
    column.features.iter().any(|feature| feature.in_examples)
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

fn literal(text: &str) -> String {
    quoted(text, '\'')
}

/// Quotes the name of a part, or a value, for an option.
fn in_options(name: &str) -> String {
    let is_special = |letter: char| matches!(letter, ':' | ',' | ';' | '"') || letter.is_whitespace();
    if name.is_empty() || name.contains(is_special) { quoted(name, '"') } else { name.to_owned() }
}
