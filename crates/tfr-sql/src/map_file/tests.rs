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
fn told(text: &str) -> String {
    let text = read(text).unwrap_err().to_string();
    text.split_once("mapping.toml").unwrap().1.to_owned()
}

#[test]
fn a_file_says_what_the_options_say() {
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
fn mistakes_are_told_by_line() {
    insta::assert_snapshot!(told("null = \"mask\"\n[columns]\nprice = \"strin\"\n"), @"");
    insta::assert_snapshot!(told("nulls = \"mask\"\n"), @"");
    insta::assert_snapshot!(told("[columns.label]\nnull = \"zero\"\n"), @"");
    insta::assert_snapshot!(told("[columns.label]\nvocabulary = [\"a\", 1]\n"), @"");
    insta::assert_snapshot!(told("[columns]\nprice = 3\n"), @"");
    insta::assert_snapshot!(told("\nnull = \n"), @"");
    insta::assert_snapshot!(told("[columns]\na = \"bits\"\na = \"string\"\n"), @"");
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
