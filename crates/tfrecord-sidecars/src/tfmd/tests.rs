use arrow_schema::{DataType, Field};
use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

fn column(feature: &str) -> Result<Field> {
    let schema = schema_from_pbtxt(&format!("feature {{ name: \"x\" {feature} }}"))?;
    Ok(schema.field(0).clone())
}

#[test]
fn features_become_columns() -> Result<()> {
    for (feature, expected) in [
        ("type: INT shape {}", "Int64"),
        ("type: FLOAT shape {}", "Float32"),
        ("type: BYTES shape {}", "Binary"),
        ("type: INT shape { dim { size: 1 } }", "Int64"),
        ("type: INT value_count { min: 1 max: 1 }", "Int64"),
        ("type: INT value_counts { value_count { min: 1 max: 1 } }", "Int64"),
        ("type: INT value_count { min: 2 max: 2 }", "List(Int64)"),
        ("type: INT value_count { min: 1 }", "List(Int64)"),
        ("type: INT", "List(Int64)"),
        ("type: FLOAT shape { dim { size: 2 } dim { size: 3 } }", "FixedSizeList(6 x Float32)"),
        ("type: FLOAT shape { dim { size: 2 } dim { } }", "List(Float32)"),
        ("type: FLOAT shape { dim { size: -1 } }", "List(Float32)"),
        ("type: INT int_domain { min: 0 max: 9 } shape {}", "Int64"),
        ("int_domain { min: 0 } shape {}", "Int64"),
        ("type: INT bool_domain {} shape {}", "Boolean"),
        ("type: BYTES bool_domain { true_value: 'y' } shape {}", "Utf8"),
        ("type: BYTES string_domain {} shape {}", "Utf8"),
        ("type: BYTES domain: 'words' shape {}", "Utf8"),
        ("type: BYTES natural_language_domain {} shape {}", "Utf8"),
        ("type: BYTES image_domain {} shape {}", "Binary"),
        ("type: BYTES annotation { tag: 'utf8' } shape {}", "Utf8"),
        ("type: INT time_domain { integer_format: UNIX_DAYS } shape {}", "Date32"),
        ("type: INT time_domain { integer_format: UNIX_MILLISECONDS } shape {}", "Timestamp(ms, \"UTC\")"),
        ("type: BYTES time_domain { string_format: '%Y' } shape {}", "Utf8"),
        ("type: INT time_of_day_domain { integer_format: PACKED_64_NANOS } shape {}", "Int64"),
    ] {
        assert_eq!(column(feature)?.data_type().to_string(), expected, "{feature}");
    }
    Ok(())
}

#[test]
fn columns_are_required_where_values_are() -> Result<()> {
    let always = "type: INT presence { min_fraction: 1.0 }";
    assert!(!column(always)?.is_nullable());
    for why in ["not_in_environment: 'SERVING'", "lifecycle_stage: PLANNED", "deprecated: true"] {
        assert!(column(&format!("{always} {why}"))?.is_nullable(), "{why}");
    }
    for presence in ["", "presence { min_count: 1 }", "presence { min_fraction: 0.9 }"] {
        assert!(column(&format!("type: INT {presence}"))?.is_nullable(), "{presence}");
    }
    Ok(())
}

#[test]
fn tensors_give_shapes() -> Result<()> {
    let schema = schema_from_pbtxt(
        r#"
        feature { name: "dense" type: FLOAT }
        feature { name: "optional" type: INT value_count { min: 1 max: 1 } }
        feature { name: "idx" type: INT }
        tensor_representation_group {
          key: ""
          value {
            tensor_representation {
              key: "d" value { dense_tensor { column_name: "dense" shape { dim { size: 4 } } } }
            }
            tensor_representation { key: "optional" value { varlen_sparse_tensor { column_name: "optional" } } }
            tensor_representation {
              key: "s"
              value { sparse_tensor { dense_shape { dim { size: 9 } } index_column_names: "idx" value_column_name: "v" } }
            }
          }
        }"#,
    )?;
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["FixedSizeList(4 x Float32)", "Int64", "List(Int64)"]);
    Ok(())
}

#[test]
fn tfmd_merges_a_repeated_feature() -> Result<()> {
    let twice = "feature { name: 'x' type: INT } feature { name: 'x' type: INT int_domain { min: 0 } }";
    assert_eq!(schema_from_pbtxt(twice)?.fields().len(), 1);
    Ok(())
}

#[test]
fn tfmd_rejects_unsupported_features_by_name() {
    let ragged = "feature { name: 'r' type: INT } tensor_representation_group { key: '' value {
        tensor_representation { key: 'r' value { ragged_tensor {
            feature_path { step: 'r' } partition { row_length: 'lengths' } } } } } }";
    let deep = "feature { struct_domain { ".repeat(40);
    let problems: Vec<_> = [
        "feature { name: 'x' type: STRUCT struct_domain { feature { name: 'y' } } }",
        "feature { name: 'x' }",
        "feature { type: INT }",
        "feature { name: 'x' type: INT value_counts { value_count { min: 1 } value_count { min: 2 } } }",
        "feature { name: 'x' type: INT shape { dim { size: 65536 } dim { size: 65536 } } }",
        "feature { name: 'x' type: INT shape { dim { size: 0 } } }",
        "feature { name: 'x' type: INT } feature { name: 'x' type: FLOAT }",
        ragged,
        "feature {\n  name: 'x'\n  typ: INT\n}",
        "feature {\n  name: 'x'\n  type: INTEGER\n}",
        "feature {\n  name: 'x'\n",
        "feature { name: 'é' \u{1} }",
        "\u{feff}nonsense",
        &deep,
    ]
    .iter()
    .map(|text| {
        let error = schema_from_pbtxt(text).map_or_else(|error| error, |schema| panic!("{text}: {schema}"));
        let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let hint = match error.kind() {
            ErrorKind::Feature { hint, .. } => format!("\n  hint: {hint}"),
            _ => String::new(),
        };
        format!("{error}{source}{hint}")
    })
    .collect();
    insta::assert_snapshot!(problems.join("\n"));
}

#[test]
fn braces_in_texts_and_comments_do_not_nest() -> Result<()> {
    let braces = "{".repeat(100);
    let text = format!("# {braces}\nfeature {{ name: \"{braces}\\\"{braces}\" type: INT }}");
    assert_eq!(schema_from_pbtxt(&text)?.field(0).data_type(), &DataType::new_list(DataType::Int64, true));
    Ok(())
}

const SCHEMA: &str = r#"
feature {
  name: "x" type: FLOAT presence { min_fraction: 1.0 } # comment
  shape { dim { size: 2 } dim { size: 3 } }
  annotation { tag: 'a\"b' extra_metadata { [type.googleapis.com/google.protobuf.Struct] { fields { key: "k" } } } }
}
feature: [{ name: "t", type: INT, time_domain: < integer_format: UNIX_DAYS > }, { name: "s" domain: "d" }]
string_domain { name: "d" value: "\303\251" }
tensor_representation_group { key: "" value { tensor_representation {
  key: "x" value { ragged_tensor { feature_path { step: "x" } partition { uniform_row_length: 2 } } } } } }
"#;

proptest! {
    /// Corrupted schemas are read or rejected, without panics.
    #[test]
    fn no_text_panics(at in any::<prop::sample::Index>(), len in 0_usize..8, text in "[{}<>\\[\\]:\"'\\\\#\\PC]{0,8}") {
        let mut letters: Vec<char> = SCHEMA.chars().collect();
        let at = at.index(letters.len());
        let end = (at + len).min(letters.len());
        letters.splice(at..end, text.chars());
        let damaged: String = letters.into_iter().collect();
        if let Ok(schema) = schema_from_pbtxt(&damaged) {
            prop_assert!(schema.fields().iter().all(|field| !field.name().is_empty()));
        }
    }
}

#[test]
fn tfmd_reads_every_spelling() {
    let error = schema_from_pbtxt(SCHEMA).unwrap_err().to_string();
    assert_eq!(error, r#"feature "x": a ragged tensor of more than one ragged dimension is not read"#);
    let without = SCHEMA.split("tensor_representation_group").next().unwrap();
    let types: Vec<_> =
        schema_from_pbtxt(without).unwrap().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["FixedSizeList(6 x Float32)", "List(Date32)", "List(Utf8)"]);
}
