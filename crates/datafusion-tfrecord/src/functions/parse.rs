//! `tf_parse` and `tf_parse_sequence_example`: parse a record to a struct.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_tfrecord::{FeatureMapping, FeatureNames, Mapping, MappingOptions, RecordParser, RecordType};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::{
    Coercion, ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignature, TypeSignatureClass, Volatility,
};

use tfrecord_framing::Position;

use super::argument::{Function, values};
use super::error::FunctionErrorKind;
use super::{SECTION, result};

/// `tf_parse(record, columns [, rules])` and `tf_parse_sequence_example(record, columns [, sequences [, rules]])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Parse {
    record_type: RecordType,
    signature: Signature,
}

impl Default for Parse {
    fn default() -> Self {
        Self::new(RecordType::Example, 1)
    }
}

/// Index of the column declaration among the arguments.
const COLUMNS: usize = 1;

/// Index of the first further text.
const OPTIONS: usize = 2;

impl Parse {
    /// Creates the function for `tf.train.SequenceExample`.
    pub(super) fn of_sequences() -> Self {
        Self::new(RecordType::SequenceExample, 2)
    }

    fn new(record_type: RecordType, optional_texts: usize) -> Self {
        let record = || Coercion::new_exact(TypeSignatureClass::Binary);
        let text = || Coercion::new_exact(TypeSignatureClass::Any);
        let arguments = |texts: usize| {
            TypeSignature::Coercible(std::iter::once(record()).chain((0..texts).map(|_| text())).collect())
        };
        let arguments = (1..=1 + optional_texts).map(arguments).collect();
        Self { record_type, signature: Signature::one_of(arguments, Volatility::Immutable) }
    }

    fn function(&self) -> Function {
        Function(match self.record_type {
            RecordType::SequenceExample => "tf_parse_sequence_example",
            _ => "tf_parse",
        })
    }

    /// Creates a parser of records with these columns.
    fn parser(&self, schema: &SchemaRef, options: &MappingOptions) -> Result<RecordParser> {
        let parser = Mapping::try_new(schema, options).and_then(|mapping| RecordParser::try_new(&mapping));
        Ok(parser.map_err(|error| FunctionErrorKind::Record { function: self.function().0, error })?)
    }
}

impl ScalarUDFImpl for Parse {
    fn name(&self) -> &str {
        self.function().0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(internal_datafusion_err!("the type of {} depends on the columns in its arguments", self.name()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let function = self.function();
        let text = function.planned_text(&args, COLUMNS)?.unwrap_or_default();
        let schema = function.columns(COLUMNS, text)?;
        let options = function.mapping(self.record_type, OPTIONS, |index| function.planned_text(&args, index))?;
        self.parser(&schema, &options)?;
        let data_type = DataType::Struct(schema.fields().clone());
        Ok(Arc::new(Field::new(function.0, data_type, args.arg_fields[0].is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let function = self.function();
        let schema = function.columns(COLUMNS, function.given_text(&args, COLUMNS)?.unwrap_or_default())?;
        let options = function.mapping(self.record_type, OPTIONS, |index| function.given_text(&args, index))?;
        let (records, is_scalar) = values(&args)?;
        let failed = |error| FunctionErrorKind::parse(function.0, error);
        let rows = self.parser(&schema, &options)?.parse(&records).map_err(failed)?;
        let is_missing = |column: &ArrayRef| column.null_count() == rows.len() && rows.null_count() < rows.len();
        if rows.columns().iter().any(is_missing) {
            let names = names(&records).map_err(failed)?;
            for (field, _) in rows.fields().iter().zip(rows.columns()).filter(|(_, column)| is_missing(column)) {
                let column = Arc::new(Schema::new(vec![Arc::clone(field)]));
                if let Ok(mapping) = Mapping::try_new(&column, &options)
                    && let Some(found) = elsewhere(&mapping, &options, &names)
                {
                    let (function, column) = (function.0, field.name().clone());
                    return Err(FunctionErrorKind::Elsewhere { function, column, found }.into());
                }
            }
        }
        result(Arc::new(rows), is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.record_type {
            RecordType::SequenceExample => &SEQUENCE_EXAMPLE,
            _ => &EXAMPLE,
        })
    }
}

/// Returns the names of the features in `records`.
fn names(records: &dyn Array) -> Result<FeatureNames, arrow_tfrecord::Error> {
    let mut names = FeatureNames::default();
    let mut observe = |row: usize, record: Option<&[u8]>| {
        let position = Position { record: row as u64, byte: 0 };
        record.map_or(Ok(()), |record| names.observe(record, position))
    };
    match records.data_type() {
        DataType::BinaryView => {
            records.as_binary_view().iter().enumerate().try_for_each(|(row, record)| observe(row, record))?;
        }
        DataType::Binary => {
            records.as_binary::<i32>().iter().enumerate().try_for_each(|(row, record)| observe(row, record))?;
        }
        DataType::LargeBinary => {
            records.as_binary::<i64>().iter().enumerate().try_for_each(|(row, record)| observe(row, record))?;
        }
        _ => {}
    }
    Ok(names)
}

/// Returns where the records contain a column instead of the expected place. Otherwise it would silently be null in
/// every row.
fn elsewhere(mapping: &Mapping, options: &MappingOptions, names: &FeatureNames) -> Option<String> {
    if names.record_type() == RecordType::ExampleListWithContext {
        return Some("a list of examples with a context".to_owned());
    }
    let features: Vec<_> = mapping.columns().iter().flat_map(|column| &column.features).collect();
    let is_present = |feature: &&FeatureMapping| {
        let place = if feature.in_steps { names.feature_lists() } else { names.features() };
        place.contains(feature.name.as_str())
    };
    if features.iter().any(is_present) {
        return None;
    }
    let is_claimed = |name: &str| features.iter().any(|feature| feature.name == name);
    features.iter().find_map(|feature| {
        let part = format!("{}{}", feature.name, options.separator);
        let (there, sort) = match feature.in_steps {
            true => (names.features(), "feature"),
            false => (names.feature_lists(), "feature list"),
        };
        if there.contains(feature.name.as_str()) {
            return Some(format!("a {sort} of that name"));
        }
        let parts = [(names.features(), "feature"), (names.feature_lists(), "feature list")];
        parts.into_iter().find_map(|(names, sort)| {
            let part = names.iter().find(|name| name.starts_with(&part) && !is_claimed(name))?;
            Some(format!("the {sort} {part:?}"))
        })
    })
}

const RECORD: &str = "The bytes of the record.";
const DECLARED: &str = "The columns to read, declared as in `CREATE TABLE`: `'label BIGINT, name VARCHAR, emb FLOAT[]'`. \
                        Names are taken as they are written. Other features are passed over.";
const RULES: &str = "How columns are encoded in the record, as for the writer.";

static EXAMPLE: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "The columns of a serialized `tf.train.Example`, as a struct. A feature that is not there is null; \
                       one of another kind is an error. A null record is null. A record does not tell in which unit a \
                       time was written, nor which rules its columns had: types and rules must be those of the writer, \
                       as the manifest of a set has them.";
    Documentation::builder(SECTION, description, "tf_parse(record, columns [, rules])")
        .with_sql_example(
            "```sql\nSELECT tf_parse(record, 'label BIGINT, \"image/width\" INT')['label'] FROM records\n```",
        )
        .with_argument("record", RECORD)
        .with_argument("columns", DECLARED)
        .with_argument("rules", RULES)
        .with_related_udf("tf_parse_sequence_example")
        .with_related_udf("tf_example")
        .build()
});

static SEQUENCE_EXAMPLE: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "The columns of a serialized `tf.train.SequenceExample`, as a struct. A null record is null.";
    let syntax = "tf_parse_sequence_example(record, columns [, sequences [, rules]])";
    Documentation::builder(SECTION, description, syntax)
        .with_sql_example(
            "```sql\nSELECT tf_parse_sequence_example(record, 'id BIGINT, words VARCHAR[]', 'words') FROM records\n```",
        )
        .with_argument("record", RECORD)
        .with_argument("columns", DECLARED)
        .with_argument("sequences", "Names of lists, with commas between, of which every element is a step.")
        .with_argument("rules", RULES)
        .with_related_udf("tf_parse")
        .with_related_udf("tf_sequence_example")
        .build()
});
