use serde_json::Value;

use super::*;

const WHOLE: &str = r#"
record-type = "sequence-example"
null = "mask"
separator = "."
sequence = ["frames"]
strict = true

[columns]
price = "string"
"point.x" = "bits, null=default=0"

[columns.label]
null = "default=other"
vocabulary = ["cat", "dog", "other"]

[columns.day]
map = "seconds"
"#;

fn read(text: &str) -> Result<MapFile> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapping.toml");
    fs::write(&path, text).unwrap();
    MapFile::read(&path)
}

/// What is said of a file, without its directory.
fn message(text: &str) -> String {
    let text = read(text).unwrap_err().to_string();
    text.split_once("mapping.toml").unwrap().1.to_owned()
}

#[test]
fn map_file_equals_the_options() {
    let file = read(WHOLE).unwrap();
    assert_eq!(file.record_type, Some(RecordType::SequenceExample));
    assert_eq!((file.null, file.separator.as_deref(), file.strict), (Some(NullPolicy::Mask), Some("."), true));
    assert_eq!(file.sequence.into_iter().collect::<Vec<_>>(), ["frames"]);
    let rules: Vec<_> = file.columns.iter().map(|(column, entry)| format!("{column}: {}", entry.rule)).collect();
    assert_eq!(
        rules,
        ["day: seconds", "label: index, null=default=other", "point.x: bits, null=default=0", "price: string"]
    );
    assert_eq!(file.columns["label"].vocabulary.as_deref().unwrap(), ["cat", "dog", "other"]);
    assert_eq!(read("").unwrap(), MapFile::default());
}

#[test]
fn map_file_errors_report_the_line() {
    insta::assert_snapshot!(message("null = \"mask\"\n[columns]\nprice = \"strin\"\n"), @r##": line 3: price = "strin": unknown choice "strin": expected wrap, bits, string, tensor, unscaled, seconds, millis, micros, index"##);
    insta::assert_snapshot!(message("nulls = \"mask\"\n"), @r##": line 1: nulls = "mask": unknown field `nulls`, expected one of `record-type`, `null`, `separator`, `sequence`, `strict`, `columns`"##);
    insta::assert_snapshot!(message("[columns.label]\nnull = \"zero\"\n"), @r##": line 2: null = "zero": unknown null policy "zero": expected absent, unset, empty, error, mask, drop, default=VALUE"##);
    insta::assert_snapshot!(message("[columns.label]\nvocabulary = [\"a\", 1]\n"), @r##": line 2: vocabulary = ["a", 1]: invalid type: integer `1`, expected a string"##);
    insta::assert_snapshot!(message("[columns]\nprice = 3\n"), @r##": line 2: price = 3: invalid type: integer `3`, expected a rule such as "bits, null=mask", or a table of map, null and vocabulary"##);
    insta::assert_snapshot!(message("\nnull = \n"), @": line 2: null =: string values must be quoted, expected literal string");
    insta::assert_snapshot!(message("[columns]\na = \"bits\"\na = \"string\"\n"), @r##": line 3: a = "string": duplicate key"##);
}

/// The schema takes what is read, and nothing that is not.
#[test]
fn the_schema_describes_the_file() {
    let schema: Value = serde_json::from_str(include_str!("../../../../schemas/mapping-file.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let texts = [
        WHOLE,
        "",
        "null = \"unset\"",
        "[columns]\na = \"null=drop\"",
        "[columns]\na = \"string, null=default=x, y\"",
        "[columns]\na = \" null=empty , micros \"",
        "null = \"zero\"",
        "null = \"default=1\"",
        "separator = 1",
        "separator = \"\"",
        "sequence = \"a\"",
        "other = 1",
        "record-type = \"bytes\"",
        "record_type = \"bytes\"",
        "[columns]\na = \"exact\"",
        "[columns]\na = \"null=zero\"",
        "[columns]\na = \"bits, string\"",
        "[columns.a]\nmap = \"index\"\nvocabulary = []",
        "[columns.a]\nmap = \"bits, null=mask\"",
        "[columns.a]\nnull = \"default=\"",
        "[columns.a]\nvocabulary = [1]",
        "[columns.a]\nchoice = \"bits\"",
    ];
    for text in texts {
        let value: Value = toml::from_str(text).unwrap();
        assert_eq!(schema.is_valid(&value), read(text).is_ok(), "{text}");
    }
}
