use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;

use super::{Error, Explanation};

fn explain(error: DataFusionError) -> Explanation {
    Explanation::of(&Error::from(error))
}

#[test]
fn explanation_omits_wrappers() {
    let root = ArrowError::DivideByZero;
    let wrapped = DataFusionError::External(Box::new(Arc::new(DataFusionError::Shared(Arc::new(
        DataFusionError::from(ArrowError::ExternalError(Box::new(DataFusionError::from(root)))),
    )))));
    assert_eq!(
        explain(wrapped),
        Explanation { causes: vec!["division by zero".to_owned()], hint: None, ..Explanation::default() }
    );
}

#[test]
fn union_cast_error_has_a_hint() {
    let lost = "Column 'x' is declared as non-nullable but contains null values";
    let explanation = explain(DataFusionError::from(ArrowError::InvalidArgumentError(lost.to_owned())));
    assert_eq!(explanation.causes, [lost]);
    assert!(explanation.hint.is_some_and(|hint| hint.contains("union_extract(column, 'type')")));
}

#[test]
fn context_comes_before_its_cause() {
    let damaged = DataFusionError::from(ParquetError::General("page 3: checksum mismatch".to_owned()));
    assert_eq!(explain(damaged.context("data/a.parquet")).causes, ["data/a.parquet", "page 3: checksum mismatch"]);
}

#[test]
fn explanation_omits_repeated_causes() {
    let root = std::io::Error::other("the disk is on fire");
    let wrapped = DataFusionError::from(ArrowError::IoError("the disk is on fire".to_owned(), root));
    assert_eq!(explain(wrapped.context("a.csv: the disk is on fire")).causes, ["a.csv: the disk is on fire"]);
}

#[test]
fn explanation_unwraps_errors_inside_io_errors() {
    let engine = DataFusionError::Execution("row 7 is bad".to_owned());
    let wrapped = DataFusionError::IoError(std::io::Error::other(engine));
    assert_eq!(explain(wrapped).causes, ["row 7 is bad"]);
}

#[test]
fn explanation_turns_suggestions_of_the_engine_into_hints() {
    let explanation = explain(DataFusionError::Plan("Invalid function 'cuont'.\nDid you mean 'count'?".to_owned()));
    assert_eq!(explanation.causes, ["Invalid function 'cuont'"]);
    assert_eq!(explanation.hint.unwrap(), "did you mean 'count'?");
}

#[test]
fn explanation_has_hints_for_functions_of_other_engines() {
    let invalid = |name: &str| DataFusionError::Plan(format!("Invalid function '{name}'.\nDid you mean 'encode'?"));
    let hint = |error| explain(error).hint.unwrap_or_default();
    assert!(hint(invalid("explode")).starts_with("write unnest(list): "));
    assert_eq!(hint(invalid("Year")), "write date_part('year', d)");
    let call = "No function matches the given name and argument types 'date_trunc(Timestamp(ns), Utf8)'. You might need to \
        add explicit type casts.\n\tCandidate functions:\n\tdate_trunc(String, Timestamp)";
    assert_eq!(hint(DataFusionError::Plan(call.to_owned())), "the unit comes first: date_trunc('month', ts)");
    let parse = "Error parsing timestamp from '20240101' using format 'yyyyMMdd': input contains invalid characters";
    assert!(hint(DataFusionError::Execution(parse.to_owned())).contains("strftime"));
}

#[test]
fn explanation_shortens_function_mismatches() {
    let text = "Internal error: Function 'sum' failed to match any signature, errors: Error during planning: ...\n\
        No function matches the given name and argument types 'sum(Date32)'. You might need to add explicit type casts.\n\
        \tCandidate functions:\n\tsum(Int64)\n\tsum(Float64)";
    let explanation = explain(DataFusionError::Plan(text.to_owned()));
    assert_eq!(explanation.causes, ["no function matches 'sum(Date32)'"]);
    assert_eq!(explanation.hint.unwrap(), "cast the arguments: the candidates are sum(Int64) sum(Float64)");
}

#[test]
fn explanation_omits_rules_of_the_engine() {
    let error = DataFusionError::Plan("Cannot cast string 'abc' to value of Int32 type".to_owned());
    let wrapped = error.context("type_coercion").context("Optimizer rule 'simplify_expressions' failed");
    assert_eq!(explain(wrapped).causes, ["Cannot cast string 'abc' to value of Int32 type"]);
}

#[test]
fn out_of_memory_names_the_operator_and_the_option() {
    let text = "Additional allocation failed for HashJoinInput[0] with top memory consumers as:\n  HashJoinInput[0] ...\n\
        Error: Failed to allocate additional 2.6 MB for HashJoinInput[0] with 0.0 B already allocated";
    let explanation = explain(DataFusionError::ResourcesExhausted(text.to_owned()));
    assert!(explanation.causes[0].starts_with("Failed to allocate additional 2.6 MB for HashJoinInput[0]"));
    assert!(explanation.hint.unwrap().contains("prefer_hash_join = false"));
}

#[test]
fn a_join_without_an_equality_has_no_setting_that_helps() {
    let text =
        "Failed to allocate additional 3.8 MB for NestedLoopJoinLoad[0] with 61.1 MB already allocated".to_owned();
    let explanation = explain(DataFusionError::ResourcesExhausted(text));
    assert_eq!(explanation.hint.unwrap(), "a join without an equality does not spill: raise --memory-limit");
}

#[test]
fn explanation_names_our_options_instead_of_engine_settings() {
    let error = DataFusionError::ResourcesExhausted("Failed to allocate additional 10.0 MB".to_owned()).context(
        "Not enough memory to continue external sort. Consider increasing the memory limit config: \
         'datafusion.runtime.memory_limit', or decreasing the config: 'x'.",
    );
    let explanation = explain(error);
    assert_eq!(
        explanation.causes,
        ["Not enough memory to continue external sort", "Failed to allocate additional 10.0 MB"]
    );
    assert!(explanation.hint.unwrap().starts_with("raise --memory-limit"));
}

#[test]
fn explanation_keeps_hints_of_our_errors_through_the_engine() {
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow_tfrecord::{Mapping, MappingOptions};

    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, true)]));
    let error = Mapping::try_new(&schema, &MappingOptions::default().with_strict(true)).unwrap_err();
    let text = error.to_string();
    let explanation = explain(DataFusionError::External(Box::new(error)));
    assert_eq!(explanation.causes, [text]);
    let hint = "choose an exact form for each with --map 'column: choice', or run without --strict";
    assert_eq!(explanation.hint.as_deref(), Some(hint));
}

#[test]
fn columns_keep_their_hint_in_functions_sets_and_descriptions() {
    use arrow_tfrecord::{Error, ErrorKind};
    use datafusion_tfrecord::functions;

    let error = || Error::from(ErrorKind::NoVocabulary { column: "c".to_owned() });
    let hint = "give its values, with the option vocabulary='c: cat, dog' or in a file for --map-file";
    let function = functions::FunctionErrorKind::Record { function: "tf_example", error: error() };
    let table = datafusion_tfrecord::ErrorKind::Columns { error: error() };
    let wrapped: [Box<dyn std::error::Error + Send + Sync>; 4] = [
        Box::new(functions::FunctionError::from(function)),
        Box::new(datafusion_tfrecord::Error::from(table)),
        Box::new(tfrecord_shards::Error::from(error())),
        Box::new(tfrecord_sidecars::Error::from(error())),
    ];
    for wrapped in wrapped {
        assert_eq!(explain(DataFusionError::External(wrapped)).hint.as_deref(), Some(hint));
    }
}
