//! `tf_example` and `tf_sequence_example`: convert a struct to a record.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordType};
use datafusion_common::Result;
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::argument::{Function, values};
use super::error::FunctionErrorKind;
use super::{SECTION, result};

/// `tf_example(row [, rules])` and `tf_sequence_example(row [, sequences [, rules]])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Example {
    record_type: RecordType,
    signature: Signature,
}

/// Index of the first text argument.
const OPTIONS: usize = 1;

/// Expected first argument.
const STRUCT: &str = "a struct";

impl Default for Example {
    fn default() -> Self {
        Self::new(RecordType::Example, 2)
    }
}

impl Example {
    /// Creates the function for `tf.train.SequenceExample`.
    pub(super) fn of_sequences() -> Self {
        Self::new(RecordType::SequenceExample, 3)
    }

    fn new(record_type: RecordType, most_arguments: usize) -> Self {
        let arguments = (1..=most_arguments).map(TypeSignature::Any).collect();
        Self { record_type, signature: Signature::one_of(arguments, Volatility::Immutable) }
    }

    fn function(&self) -> Function {
        Function(match self.record_type {
            RecordType::SequenceExample => "tf_sequence_example",
            _ => "tf_example",
        })
    }

    /// Creates an encoder of records with these columns.
    fn encoder(&self, columns: &Fields, options: &MappingOptions) -> Result<Encoder> {
        let mapping = Mapping::try_new(&Arc::new(Schema::new(columns.clone())), options);
        let mapping = mapping.map_err(|error| FunctionErrorKind::Record { function: self.function().0, error })?;
        Ok(Encoder::new(Arc::new(mapping)))
    }
}

impl ScalarUDFImpl for Example {
    fn name(&self) -> &str {
        self.function().0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let function = self.function();
        let row = &args.arg_fields[0];
        let DataType::Struct(columns) = row.data_type() else {
            return Err(function.unexpected(0, STRUCT, row.data_type().to_string()).into());
        };
        let options = function.mapping(self.record_type, OPTIONS, |index| function.planned_text(&args, index))?;
        self.encoder(columns, &options)?;
        Ok(Arc::new(Field::new(function.0, DataType::LargeBinary, row.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let function = self.function();
        let options = function.mapping(self.record_type, OPTIONS, |index| function.given_text(&args, index))?;
        let (rows, is_scalar) = values(&args)?;
        let Some(rows) = rows.as_struct_opt() else {
            return Err(function.unexpected(0, STRUCT, rows.data_type().to_string()).into());
        };
        let records = self.encoder(rows.fields(), &options)?.serialize(rows);
        let records = records.map_err(|error| FunctionErrorKind::Record { function: function.0, error })?;
        result(Arc::new(records), is_scalar)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.record_type {
            RecordType::SequenceExample => &SEQUENCE_EXAMPLE,
            _ => &EXAMPLE,
        })
    }
}

const ROW: &str = "A struct whose fields are the columns of the record.";
const RULES: &str =
    "What becomes of columns and of their nulls, as in the option `map`: `'price: string, city: null=default=none'`.";

static EXAMPLE: LazyLock<Documentation> = LazyLock::new(|| {
    let description =
        "A serialized `tf.train.Example` of a row: the bytes of the record in a shard. A null row is null.";
    Documentation::builder(SECTION, description, "tf_example(row [, rules])")
        .with_sql_example(
            "```sql\nSELECT tf_example({label: label, 'image/width': width}, 'label: null=default=-1') FROM images\n```",
        )
        .with_argument("row", ROW)
        .with_argument("rules", RULES)
        .with_related_udf("tf_sequence_example")
        .with_related_udf("tf_parse")
        .build()
});

static SEQUENCE_EXAMPLE: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "A serialized `tf.train.SequenceExample` of a row. Lists of lists, lists of structs, and the lists \
                       that are named are feature lists; other columns are the context. A null row is null.";
    Documentation::builder(SECTION, description, "tf_sequence_example(row [, sequences [, rules]])")
        .with_sql_example("```sql\nSELECT tf_sequence_example({id: id, words: words}, 'words') FROM sentences\n```")
        .with_argument("row", ROW)
        .with_argument("sequences", "Names of lists, with commas between, of which every element is a step.")
        .with_argument("rules", RULES)
        .with_related_udf("tf_example")
        .with_related_udf("tf_parse_sequence_example")
        .build()
});
