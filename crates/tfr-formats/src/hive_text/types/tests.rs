//! Declarations, and what is wrong with them.

use super::*;

fn types(text: &str) -> Result<Vec<String>, String> {
    let columns = HiveColumns(DdlParser { text, at: 0 }.columns()?);
    Ok(columns.schema().fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect())
}

#[test]
fn hive_types_parse_declarations() -> Result<(), String> {
    assert_eq!(
        types("a BIGINT, `b c` array<string> COMMENT 'what, it is', d: decimal(5,2), e timestamp , f varchar(10)")?,
        ["a Int64", "b c List(Utf8)", "d Decimal128(5, 2)", "e Timestamp(µs)", "f Utf8"]
    );
    assert_eq!(
        types("s struct<x:int, y : map<string,double precision>>, u uniontype<int,array<string>>, `a``b` dec")?,
        [
            "s Struct(\"x\": Int32, \"y\": Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": Float64), unsorted))",
            "u Struct(\"tag\": Int8, \"field0\": Int32, \"field1\": List(Utf8))",
            "a`b Decimal128(10, 0)",
        ]
    );
    Ok(())
}

#[test]
fn hive_types_reject_invalid_declarations() {
    let deep = format!("a {}int{}", "array<".repeat(100_000), ">".repeat(100_000));
    for (text, message) in [
        ("", "expected a name at its end"),
        ("a", "expected a type at its end"),
        ("a interval", "expected a type at \"interval\""),
        ("a int b int", "expected \",\" at \"b int\""),
        ("a int,", "expected a name at its end"),
        ("a array<int", "expected \">\" at its end"),
        ("a char", "expected a length from 1 to 65535, as in char(20)"),
        ("a decimal(x)", "expected a number at \"x)\""),
        ("a decimal(39,2)", "expected at most 38 digits, as in decimal(10,2)"),
        ("a timestamp with local time zone", "expected \",\" at \"with local time zone\""),
        ("a int, a int", "two columns are named \"a\""),
        ("a map<array<int>,int>", "expected a primitive type at \"array<int>,int>\""),
        ("`a int", "expected a closing backtick at \"a int\""),
        (&deep, "columns are nested deeper than the 26 separators that there are"),
    ] {
        assert_eq!(types(text), Err(message.to_owned()), "{}", &text[..text.len().min(40)]);
    }
}

#[test]
fn types_that_sql_declares() {
    let nested = DataType::new_list(DataType::Struct(vec![Field::new("x", DataType::Utf8View, true)].into()), true);
    assert!(HiveType::of(&nested).is_some_and(|hive_type| hive_type.data_type == nested));
    assert_eq!(HiveType::of(&DataType::Timestamp(TimeUnit::Second, Some("UTC".into()))), None);
    assert_eq!(HiveType::of(&DataType::UInt64), None);
}
