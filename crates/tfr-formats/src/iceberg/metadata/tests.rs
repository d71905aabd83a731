use super::*;

const METADATA: &str = r#"{
    "format-version": 2, "table-uuid": "x", "location": "file:/t", "last-sequence-number": 3,
    "current-schema-id": 1,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": []}, {"type": "struct", "schema-id": 1, "fields": []}],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "current-snapshot-id": 3,
    "refs": {"main": {"snapshot-id": 3, "type": "branch"}, "b": {"snapshot-id": 2, "type": "branch"},
        "t": {"snapshot-id": 1, "type": "tag"}},
    "snapshots": [
        {"snapshot-id": 1, "timestamp-ms": 1000, "manifest-list": "file:/t/a.avro", "schema-id": 0},
        {"snapshot-id": 2, "timestamp-ms": 2000, "manifest-list": "file:/t/b.avro", "schema-id": 0},
        {"snapshot-id": 3, "timestamp-ms": 3000, "manifest-list": "file:/t/c.avro", "schema-id": 1}],
    "snapshot-log": [{"timestamp-ms": 1000, "snapshot-id": 1}, {"timestamp-ms": 3000, "snapshot-id": 3}]
}"#;

fn metadata() -> Metadata {
    Metadata::parse(METADATA.as_bytes()).unwrap()
}

fn selected(metadata: &Metadata, options: &IcebergOptions) -> Result<(Option<i64>, i32), Unread> {
    let (snapshot, schema) = metadata.select(options)?;
    Ok((snapshot.map(|snapshot| snapshot.snapshot_id), schema.schema_id))
}

fn at(millis: i64) -> IcebergOptions {
    IcebergOptions { timestamp: DateTime::from_timestamp_millis(millis), ..IcebergOptions::default() }
}

fn branch(name: &str) -> IcebergOptions {
    IcebergOptions { branch: Some(name.to_owned()), ..IcebergOptions::default() }
}

fn tag(name: &str) -> IcebergOptions {
    IcebergOptions { tag: Some(name.to_owned()), ..IcebergOptions::default() }
}

#[test]
fn iceberg_snapshots_are_read_with_their_schema_and_branches_with_that_of_the_table() {
    let metadata = metadata();
    let snapshot = |id| IcebergOptions { snapshot: Some(id), ..IcebergOptions::default() };
    for (options, expected) in [
        (IcebergOptions::default(), (Some(3), 1)),
        (snapshot(2), (Some(2), 0)),
        (at(999 + 1), (Some(1), 0)),
        // Snapshot 2 is not of the main branch.
        (at(2999), (Some(1), 0)),
        (at(9000), (Some(3), 1)),
        (branch("main"), (Some(3), 1)),
        (branch("b"), (Some(2), 1)),
        (tag("t"), (Some(1), 0)),
        // A schema that the caller names.
        (IcebergOptions { schema: Some(1), ..snapshot(2) }, (Some(2), 1)),
        (IcebergOptions { schema: Some(0), ..IcebergOptions::default() }, (Some(3), 0)),
    ] {
        assert_eq!(selected(&metadata, &options), Ok(expected), "{options:?}");
    }
    let schema = IcebergOptions { schema: Some(2), ..snapshot(2) };
    for options in [schema, snapshot(4), at(999), branch("t"), branch("x"), tag("b"), tag("main")] {
        let found = selected(&metadata, &options);
        assert!(matches!(found, Err(Unread::NoSuch(..))), "{options:?}: {found:?}");
    }
}

#[test]
fn iceberg_metadata_that_contradicts_itself_is_refused() {
    let edited = |from: &str, to: &str| {
        assert!(METADATA.contains(from), "{from}");
        let metadata = Metadata::parse(METADATA.replace(from, to).as_bytes())?;
        selected(&metadata, &IcebergOptions::default())
    };
    for (from, to) in [
        (r#""current-snapshot-id": 3"#, r#""current-snapshot-id": 2"#),
        (r#""current-snapshot-id": 3"#, r#""current-snapshot-id": null"#),
        (r#""current-schema-id": 1"#, r#""current-schema-id": 7"#),
        (r#""current-schema-id": 1,"#, ""),
        (r#""location": "file:/t","#, ""),
        (r#"{"snapshot-id": 2,"#, r#"{"snapshot-id": 1,"#),
        (r#""schema-id": 0, "fields""#, r#""schema-id": 1, "fields""#),
        (r#"[{"spec-id": 0, "fields": []}]"#, r#"[{"spec-id": 0, "fields": []}, {"spec-id": 0, "fields": []}]"#),
    ] {
        let found = edited(from, to);
        assert!(matches!(found, Err(Unread::Defect(Defect::Damaged(_)))), "{to}: {found:?}");
    }
    for (from, to) in [
        (r#""format-version": 2"#, r#""format-version": 4"#),
        (r#""current-schema-id": 1"#, r#""current-schema-id": 1, "encryption-keys": [{"key-id": "k"}]"#),
        (r#""schema-id": 1}]"#, r#""schema-id": 1, "key-id": "k"}]"#),
        (r#""current-schema-id": 1"#, r#""current-schema-id": 1, "properties": {"encryption.key-id": "k"}"#),
    ] {
        let found = edited(from, to);
        assert!(matches!(found, Err(Unread::Defect(Defect::Unsupported(_)))), "{to}: {found:?}");
    }
}

#[test]
fn iceberg_metadata_of_version_1_has_one_schema_and_one_spec() {
    let text = r#"{"format-version": 1, "location": "/t", "last-updated-ms": 1, "last-column-id": 1,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "required": true, "type": "int"}]},
        "partition-spec": [{"name": "a", "transform": "identity", "source-id": 1, "field-id": 1000}],
        "current-snapshot-id": -1, "snapshots": []}"#;
    let metadata = Metadata::parse(text.as_bytes()).unwrap();
    let (snapshot, schema) = metadata.select(&IcebergOptions::default()).unwrap();
    assert!(snapshot.is_none());
    assert_eq!(schema.fields[0].name, "a");
    assert_eq!(metadata.spec(0).unwrap().identity_of(1), Some(0));
    assert!(metadata.spec(1).is_none());
}
