//! Tests of the table of classes and properties.

use super::*;
use crate::error::ErrorKind;

const TEXT: &str = "org.apache.hadoop.mapred.TextInputFormat";

fn table(serde: &str, input_format: &str) -> HiveTable {
    HiveTable {
        serde: Some(serde.to_owned()),
        input_format: Some(input_format.to_owned()),
        columns: vec![("a".to_owned(), "int".to_owned())],
        ..HiveTable::default()
    }
}

fn with(mut table: HiveTable, of_serde: &[(&str, &str)], of_table: &[(&str, &str)]) -> HiveTable {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    table.serde_parameters.extend(of_serde.iter().map(owned));
    table.parameters.extend(of_table.iter().map(owned));
    table
}

#[track_caller]
fn options(table: &HiveTable) -> Vec<String> {
    let reader = table.reader().unwrap();
    reader.input_options().unwrap();
    reader.options.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

#[track_caller]
fn refused(table: &HiveTable) -> HiveRefusal {
    match table.reader() {
        Err(error) => match error.kind() {
            ErrorKind::HiveTable(refusal) => refusal.clone(),
            other => panic!("{other}"),
        },
        Ok(reader) => panic!("{reader:?}"),
    }
}

#[test]
fn hive_classes_determine_the_reader() {
    let serde2 = |name: &str| format!("org.apache.hadoop.hive.serde2.{name}");
    let io = |name: &str| format!("org.apache.hadoop.hive.ql.io.{name}");
    let schema = "schema=`a` int".to_owned();
    for (serde, input_format, format, expected) in [
        (serde2("lazy.LazySimpleSerDe"), TEXT.to_owned(), InputFormat::HiveText, vec![schema.clone()]),
        (serde2("JsonSerDe"), TEXT.to_owned(), InputFormat::HiveText, vec!["serde=json".to_owned(), schema.clone()]),
        (
            serde2("OpenCSVSerde"),
            TEXT.to_owned(),
            InputFormat::HiveText,
            vec!["serde=opencsv".to_owned(), "schema=`a` string".to_owned()],
        ),
        (
            io("parquet.serde.ParquetHiveSerDe"),
            io("parquet.MapredParquetInputFormat"),
            InputFormat::Parquet,
            vec!["names=insensitive".to_owned(), "timestamps=cut".to_owned(), schema.clone()],
        ),
        (
            io("orc.OrcSerde"),
            io("orc.OrcInputFormat"),
            InputFormat::Orc,
            vec!["by_position=true".to_owned(), "timestamps=cut".to_owned(), schema.clone()],
        ),
        (
            serde2("avro.AvroSerDe"),
            io("avro.AvroContainerInputFormat"),
            InputFormat::Avro,
            vec!["names=insensitive".to_owned(), schema.clone()],
        ),
    ] {
        let table = table(&serde, &input_format);
        assert_eq!(options(&table), expected, "{serde}");
        assert_eq!(table.reader().unwrap().format, format);
    }
    let lazy = serde2("lazy.LazySimpleSerDe");
    let sequence = "org.apache.hadoop.mapred.SequenceFileInputFormat".to_owned();
    assert_eq!(refused(&table(&lazy, &sequence)), HiveRefusal::InputFormat { class: sequence.clone() });
    let regex = serde2("RegexSerDe");
    assert_eq!(refused(&table(&regex, TEXT)), HiveRefusal::Serde { class: regex.clone() });
    let orc = io("orc.OrcInputFormat");
    assert!(matches!(refused(&table(&lazy, &orc)), HiveRefusal::Classes { .. }));
}

/// The properties of a table have precedence, and names differ by case: both are Hive 4.0.1's.
#[test]
fn hive_properties_are_options_or_refused() {
    let lazy = || table("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", TEXT);
    let schema = "schema=`a` int";
    let both = with(lazy(), &[("field.delim", ","), ("serialization.format", ",")], &[("field.delim", "|")]);
    assert_eq!(options(&both), [String::from("field.delim=|"), schema.to_owned()]);
    let format = with(lazy(), &[("serialization.format", ",")], &[]);
    assert_eq!(options(&format), [String::from("serialization.format=,"), schema.to_owned()]);
    let case = with(lazy(), &[("FIELD.DELIM", ",")], &[]);
    assert_eq!(refused(&case), HiveRefusal::UnknownProperty { key: "FIELD.DELIM".to_owned() });
    for key in ["serialization.new", "skip.lines", "field.delims"] {
        assert_eq!(refused(&with(lazy(), &[], &[(key, "1")])), HiveRefusal::UnknownProperty { key: key.to_owned() });
    }
    for (key, value) in [
        ("timestamp.formats", "millis"),
        ("serialization.last.column.takes.rest", "true"),
        ("field.delim", "||"),
        ("projection.enabled", "true"),
    ] {
        let found = refused(&with(lazy(), &[], &[(key, value)]));
        assert!(matches!(found, HiveRefusal::Property { key: found, .. } if found == key), "{key}");
    }
    let harmless = [
        ("EXTERNAL", "TRUE"),
        ("numRows", "3"),
        ("transient_lastDdlTime", "1"),
        ("bucketing_version", "2"),
        ("transactional", "false"),
        ("serialization.last.column.takes.rest", "false"),
        ("timestamp.formats", ""),
        ("spark.sql.create.version", "3.5.7"),
        ("orc.compress", "ZLIB"),
        ("serialization.escape.crlf", "true"),
    ];
    let reader = with(lazy(), &[], &harmless).reader().unwrap();
    assert_eq!((reader.options.len(), reader.warnings.len()), (1, 0));
    let unknown = with(lazy(), &[], &[("team", "x"), ("ticket", "7")]).reader().unwrap();
    assert_eq!(unknown.warnings, ["table properties without a meaning here are ignored: team, ticket"]);
    // What OpenCSVSerde and JsonSerDe ignore, and what they do not have.
    let json = || table("org.apache.hadoop.hive.serde2.JsonSerDe", TEXT);
    assert_eq!(options(&with(json(), &[("field.delim", ",")], &[])), ["serde=json", schema]);
    assert!(matches!(
        refused(&with(json(), &[("ignore.malformed.json", "true")], &[])),
        HiveRefusal::UnknownProperty { .. }
    ));
    assert!(matches!(refused(&with(json(), &[("text.null.empty.line", "true")], &[])), HiveRefusal::Property { .. }));
    assert!(matches!(
        refused(&with(json(), &[("serialization.encoding", "ISO-8859-1")], &[])),
        HiveRefusal::Property { .. }
    ));
    let csv = || table("org.apache.hadoop.hive.serde2.OpenCSVSerde", TEXT);
    assert_eq!(
        options(&with(csv(), &[("separatorChar", "||"), ("serialization.null.format", "NULL")], &[])),
        ["separator_char=\\x7c", "serde=opencsv", "schema=`a` string"]
    );
    let warnings = csv().reader().unwrap().warnings;
    assert_eq!(warnings, ["all columns of OpenCSVSerde are STRING, as in Hive, whatever is declared: a"]);
    let several = || table("org.apache.hadoop.hive.serde2.MultiDelimitSerDe", TEXT);
    assert_eq!(refused(&several()), HiveRefusal::MissingProperty { key: "field.delim" });
    let digit = with(several(), &[("field.delim", "1"), ("serialization.format", "2")], &[]);
    assert_eq!(options(&digit), ["field.delim=\\x31", schema]);
}

#[test]
fn hive_tables_of_other_kinds_are_refused_or_opened_as_they_are() {
    let lazy = || table("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", TEXT);
    assert_eq!(refused(&with(lazy(), &[], &[("transactional", "TRUE")])), HiveRefusal::Transactional);
    let class = "org.apache.hadoop.hive.hbase.HBaseStorageHandler".to_owned();
    assert_eq!(
        refused(&with(lazy(), &[], &[("storage_handler", &class)])),
        HiveRefusal::StorageHandler { class: class.clone() }
    );
    let mut view = lazy();
    view.table_type = Some("VIRTUAL_VIEW".to_owned());
    assert_eq!(refused(&view), HiveRefusal::View { kind: "VIRTUAL_VIEW".to_owned() });
    let provider = with(lazy(), &[], &[("spark.sql.sources.provider", "csv")]);
    assert_eq!(refused(&provider), HiveRefusal::Provider { provider: "csv".to_owned() });
    let delta = with(lazy(), &[], &[("spark.sql.sources.provider", "delta")]).reader().unwrap();
    assert_eq!((delta.format, delta.options.len()), (InputFormat::Delta, 0));
    let iceberg = with(lazy(), &[], &[("table_type", "ICEBERG"), ("metadata_location", "s3://b/m.json")]);
    let iceberg = iceberg.reader().unwrap();
    assert_eq!((iceberg.format, iceberg.location.as_deref()), (InputFormat::Iceberg, Some("s3://b/m.json")));
}
