//! Arguments of functions: bytes of any binary type, and constant texts, such as column declarations and types in SQL
//! syntax.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryViewArray};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_tfrecord::{MappingOptions, RecordType};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, ScalarValue, TableReference, plan_err};
use datafusion_expr::planner::ContextProvider;
use datafusion_expr::{
    AggregateUDF, ColumnarValue, HigherOrderUDF, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, TableSource, WindowUDF,
};
use datafusion_sql::planner::{ParserOptions, SqlToRel};
use datafusion_sql::sqlparser::ast::{ColumnDef, ColumnOption, Ident};
use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

use super::error::{FunctionError, FunctionErrorKind};
use crate::options::{parse_columns, parse_rules};

/// Returns the first argument, and whether it is a scalar, which has one element.
pub(super) fn values(args: &ScalarFunctionArgs) -> Result<(ArrayRef, bool)> {
    let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
    Ok((args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?, is_scalar))
}

/// The same for an argument of any binary type.
pub(super) fn bytes(args: &ScalarFunctionArgs) -> Result<(BinaryViewArray, bool)> {
    let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
    let bytes = args.args[0].cast_to(&DataType::BinaryView, None)?;
    let bytes = bytes.into_array(if is_scalar { 1 } else { args.number_rows })?;
    Ok((bytes.as_binary_view().clone(), is_scalar))
}

/// A function's name, for errors about its arguments.
#[derive(Clone, Copy)]
pub(super) struct Function(pub(super) &'static str);

impl Function {
    /// Returns the constant text of argument `index`; `None` if there is no such argument.
    pub(super) fn planned_text<'a>(self, args: &'a ReturnFieldArgs<'_>, index: usize) -> Result<Option<&'a str>> {
        let Some(argument) = args.scalar_arguments.get(index) else { return Ok(None) };
        let found = || match argument {
            Some(value) => format!("{} of type {}", value, value.data_type()),
            None => format!("{} that may differ from row to row", args.arg_fields[index].data_type()),
        };
        self.text(argument.as_deref(), index, found).map(Some)
    }

    /// The same, when the function is called.
    pub(super) fn given_text(self, args: &ScalarFunctionArgs, index: usize) -> Result<Option<&str>> {
        match args.args.get(index) {
            None => Ok(None),
            Some(ColumnarValue::Scalar(value)) => self.text(Some(value), index, || value.to_string()).map(Some),
            Some(ColumnarValue::Array(array)) => self.text(None, index, || array.data_type().to_string()).map(Some),
        }
    }

    fn text(self, value: Option<&ScalarValue>, index: usize, found: impl FnOnce() -> String) -> Result<&str> {
        let text = value.and_then(|value| value.try_as_str().flatten());
        text.ok_or_else(|| self.unexpected(index, "a text in quotes", found()).into())
    }

    /// Creates the error for an argument that differs from the expected one.
    pub(super) fn unexpected(self, index: usize, expected: &'static str, found: impl Into<String>) -> FunctionError {
        FunctionErrorKind::Argument { function: self.0, number: index + 1, expected, found: found.into() }.into()
    }

    /// Parses the mapping in the arguments from `first` on: names of sequences, if records have them, then rules.
    pub(super) fn mapping<'a>(
        self,
        record_type: RecordType,
        first: usize,
        text: impl Fn(usize) -> Result<Option<&'a str>>,
    ) -> Result<MappingOptions> {
        let mut options = MappingOptions::default().with_record_type(record_type);
        let mut index = first;
        if record_type == RecordType::SequenceExample {
            if let Some(text) = text(index)?.filter(|text| !text.trim().is_empty()) {
                options.sequences.extend(parse_columns(text).map_err(|expected| self.misread(index, text, &expected))?);
            }
            index += 1;
        }
        if let Some(text) = text(index)? {
            let rules = parse_rules(text).map_err(|expected| self.misread(index, text, &expected))?;
            options = rules.into_iter().fold(options, |options, (column, rule)| options.with_rule(column, rule));
        }
        Ok(options)
    }

    /// Parses the columns that argument `index` declares: `label BIGINT, name VARCHAR NOT NULL, emb FLOAT[]`.
    pub(super) fn columns(self, index: usize, text: &str) -> Result<SchemaRef> {
        columns(text).map(Arc::new).map_err(|reason| self.invalid(index, text, reason).into())
    }

    /// Parses the type that argument `index` names, in Arrow's or SQL's spelling: `Float32`, `FLOAT[]`, `Float16[]`.
    pub(super) fn data_type(self, index: usize, text: &str) -> Result<DataType> {
        // Arrow's names first: they differ by case from those of SQL, whose INT8 has 8 bytes.
        if let Some(data_type) = arrow_type(text) {
            return Ok(data_type);
        }
        data_type(text).map_err(|reason| self.invalid(index, text, reason).into())
    }

    fn misread(self, index: usize, text: &str, expected: &str) -> FunctionError {
        self.invalid(index, text, format!("expected {expected}"))
    }

    /// Creates the error for an invalid text of argument `index`.
    pub(super) fn invalid(self, index: usize, text: &str, reason: String) -> FunctionError {
        FunctionErrorKind::Text { function: self.0, number: index + 1, text: text.to_owned(), reason }.into()
    }
}

fn columns(text: &str) -> Result<Schema, String> {
    let (columns, constraints) = parse(&format!("({text}\n)"), |parser| parser.parse_columns())?;
    if let Some(constraint) = constraints.first() {
        return Err(format!("{constraint} is not a column"));
    }
    if columns.is_empty() {
        return Err("it declares no column".to_owned());
    }
    let is_known = |option: &ColumnOption| matches!(option, ColumnOption::Null | ColumnOption::NotNull);
    for column in &columns {
        if let Some(option) = column.options.iter().find(|option| !is_known(&option.option)) {
            return Err(format!("column {}: {option} is not for columns of records", column.name));
        }
    }
    schema(columns)
}

/// Parses an Arrow type, or a list of one with SQL's brackets.
fn arrow_type(text: &str) -> Option<DataType> {
    match text.trim_end().strip_suffix("[]") {
        Some(item) => Some(DataType::new_list(arrow_type(item)?, true)),
        None => text.parse().ok(),
    }
}

fn data_type(text: &str) -> Result<DataType, String> {
    let data_type = parse(text, |parser| parser.parse_data_type())?;
    let column = ColumnDef { name: Ident::new("value"), data_type, options: Vec::new() };
    Ok(schema(vec![column])?.field(0).data_type().clone())
}

/// Parses the whole of `text`.
fn parse<T>(text: &str, what: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>) -> Result<T, String> {
    let dialect = GenericDialect {};
    let parse = || {
        let mut parser = Parser::new(&dialect).try_with_sql(text)?;
        let parsed = what(&mut parser)?;
        parser.expect_token(&Token::EOF)?;
        Ok(parsed)
    };
    let reason = |error: ParserError| match error {
        ParserError::TokenizerError(reason) | ParserError::ParserError(reason) => reason,
        error => error.to_string(),
    };
    // The reported position refers to the wrapped text, so it is removed.
    parse().map_err(|error| reason(error).split(" at Line:").next().unwrap_or_default().to_owned())
}

/// Returns the types that `CREATE TABLE` would give to columns. Names are unchanged.
fn schema(columns: Vec<ColumnDef>) -> Result<Schema, String> {
    let context = TypeContext(ConfigOptions::default());
    let options = ParserOptions::new().with_enable_ident_normalization(false);
    let planner = SqlToRel::new_with_options(&context, options);
    planner.build_schema(columns).map_err(|error| error.strip_backtrace())
}

/// A planning context that only knows SQL's types.
struct TypeContext(ConfigOptions);

impl ContextProvider for TypeContext {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        plan_err!("no table {name}")
    }

    fn get_function_meta(&self, _: &str) -> Option<Arc<ScalarUDF>> {
        None
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.0
    }

    fn udf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_argument_parses_create_table_columns() -> Result<(), String> {
        let schema = columns("label BIGINT, \"Image/Name\" VARCHAR NOT NULL, UserId INT UNSIGNED, emb FLOAT[]")?;
        let columns: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), field.data_type().to_string(), field.is_nullable()))
            .collect();
        let expected = [
            ("label", "Int64", true),
            ("Image/Name", "Utf8View", false),
            ("UserId", "UInt32", true),
            ("emb", "List(Float32)", true),
        ];
        assert_eq!(columns, expected.map(|(name, data_type, nullable)| (name, data_type.to_owned(), nullable)));
        Ok(())
    }

    #[test]
    fn columns_argument_rejects_text_without_columns() {
        for (text, reason) in [
            ("", "it declares no column"),
            ("a BIGINT) STORED AS CSV (b INT", "Expected: EOF, found: STORED"),
            ("a", "Expected: a data type name, found: )"),
            ("a BIGINT DEFAULT 3", "column a: DEFAULT 3 is not for columns of records"),
            ("a BIGINT, PRIMARY KEY (a)", "PRIMARY KEY (a) is not a column"),
            ("a \"b", "Expected close delimiter"),
        ] {
            let found = columns(text).expect_err(text);
            assert!(found.contains(reason), "{text}: {found}");
        }
    }

    #[test]
    fn type_argument_accepts_sql_and_arrow_types() -> Result<()> {
        let function = Function("parse_tensor");
        for (text, data_type) in [
            ("FLOAT[]", "List(Float32)"),
            ("Float16", "Float16"),
            ("Int8", "Int8"),
            ("INT8", "Int64"),
            ("BYTEA[][]", "List(List(Binary))"),
            ("Float16[] []", "List(List(Float16))"),
            ("Int8[]", "List(Int8)"),
            ("INT8[]", "List(Int64)"),
            ("FLOAT[3]", "FixedSizeList(3 x Float32)"),
        ] {
            assert_eq!(function.data_type(1, text)?.to_string(), data_type, "{text}");
        }
        assert!(function.data_type(1, "FLOAT, INT").is_err());
        Ok(())
    }
}
