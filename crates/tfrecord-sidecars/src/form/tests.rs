use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_tfrecord::{Choice, MappingOptions, NullPolicy, NullRule, RecordType};

use super::*;

/// A column of every kind that the forms tell apart.
fn everything() -> Mapping {
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("label", DataType::Int32, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("hash", DataType::UInt64, false),
        Field::new("half", DataType::Float16, true),
        Field::new("price", DataType::Float64, true),
        Field::new("exact", DataType::Float64, true),
        Field::new("shown", DataType::Float64, true),
        Field::new("proto", DataType::Float64, false),
        Field::new("amount", DataType::Decimal128(10, 2), true),
        Field::new("cents", DataType::Decimal128(10, 2), false),
        Field::new("name", DataType::Utf8, true),
        Field::new("title", DataType::Utf8View, false),
        Field::new("image", DataType::Binary, false),
        Field::new("kind", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())), false),
        Field::new("seen", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        Field::new("clock", DataType::Time64(TimeUnit::Microsecond), true),
        Field::new("tags", DataType::List(item(DataType::Utf8)), true),
        Field::new("counts", DataType::LargeList(item(DataType::UInt16)), false),
        Field::new("vector", DataType::FixedSizeList(item(DataType::Float32), 3), false),
        Field::new("pair", DataType::FixedSizeList(item(DataType::Int8), 2), true),
        Field::new("nothing", DataType::Null, true),
        Field::new("it's \"a, b: c\"\n", DataType::Int64, true),
    ]);
    let options = MappingOptions::default()
        .with_choice("hash", Choice::Wrap)
        .with_choice("exact", Choice::Bits)
        .with_choice("shown", Choice::String)
        .with_choice("proto", Choice::Tensor)
        .with_choice("cents", Choice::Unscaled)
        .with_choice("seen", Choice::Millis);
    Mapping::try_new(&Arc::new(schema), &options).unwrap()
}

#[test]
fn schema_renders_in_every_format() -> Result<()> {
    let mapping = everything();
    let table = TableDescription::new(&mapping, "s3://bucket/it's/shards-*.tfrecord");
    for form in SchemaForm::ALL {
        let text = table.render(*form)?;
        assert!(text.ends_with('\n'), "{form}");
        // The IPC form says what the fields say, and changes with Arrow's version.
        insta::with_settings!({ filters => vec![(r#""ipc": "[^"]*""#, r#""ipc": "...""#)] }, {
            insta::assert_snapshot!(form.to_string(), text);
        });
    }
    Ok(())
}

/// Columns that become several features, or one of another name.
fn nested() -> Mapping {
    let item = |data_type| Arc::new(Field::new_list_field(data_type, false));
    let point =
        DataType::Struct(vec![Field::new("x", DataType::Int8, false), Field::new("y", DataType::Float64, true)].into());
    let entries = Field::new_struct(
        "entries",
        vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::UInt16, false)],
        false,
    );
    let weights = Field::new_struct(
        "entries",
        vec![Field::new("keys", DataType::UInt32, false), Field::new("values", DataType::Float32, false)],
        false,
    );
    let schema = Schema::new(vec![
        Field::new("weights", DataType::Map(Arc::new(weights), false), false),
        Field::new("point", point.clone(), true),
        Field::new("points", DataType::List(item(point)), false),
        Field::new("scores", DataType::Map(Arc::new(entries), false), true),
        Field::new("lines", DataType::List(item(DataType::List(item(DataType::Boolean)))), true),
        Field::new(
            "matrix",
            DataType::FixedSizeList(item(DataType::FixedSizeList(item(DataType::Float32), 3)), 2),
            false,
        ),
        Field::new("masked", DataType::Int32, true),
        Field::new("given", DataType::Int16, true),
    ]);
    let options = MappingOptions::default()
        .with_column_nulls("masked", NullPolicy::Mask)
        .with_column_nulls("given", NullRule::Default("-1".to_owned()));
    Mapping::try_new(&Arc::new(schema), &options).unwrap()
}

#[test]
fn schema_of_nested_columns_renders_in_every_format() -> Result<()> {
    let mapping = nested();
    for form in [SchemaForm::Ddl, SchemaForm::Pbtxt, SchemaForm::FeaturesJson, SchemaForm::Python] {
        let text = TableDescription::new(&mapping, "nested/").render(form)?;
        insta::assert_snapshot!(format!("nested_{form}"), text);
    }
    Ok(())
}

#[test]
fn schema_of_array_record_opens_array_record() -> Result<()> {
    let mapping = nested();
    let table = TableDescription::new(&mapping, "nested/").with_container(Container::ArrayRecord);
    assert!(table.render(SchemaForm::Ddl)?.contains("\nSTORED AS ARRAYRECORD\n"));
    let module = table.render(SchemaForm::Python)?;
    assert!(module.contains("    source = ArrayRecordDataSource(sorted(names))\n"), "{module}");
    assert!(!module.contains("TFRecordDataset") && !module.contains('@'), "{module}");
    Ok(())
}

#[test]
fn ddl_records_how_columns_were_written() -> Result<()> {
    let list = |item| DataType::new_list(item, false);
    let schema = Schema::new(vec![
        Field::new("a, b", list(DataType::Int64), true),
        Field::new("words", list(DataType::Utf8), true),
        Field::new("empty", DataType::Float64, true),
    ]);
    let options = MappingOptions::default()
        .with_record_type(RecordType::SequenceExample)
        .with_sequence("words")
        .with_rule("a, b", "null=mask".parse().unwrap())
        .with_rule("empty", "bits, null=empty".parse().unwrap());
    let mapping = Mapping::try_new(&Arc::new(schema), &options).unwrap();
    insta::assert_snapshot!(TableDescription::new(&mapping, "t").render(SchemaForm::Ddl)?, @r##"
    CREATE EXTERNAL TABLE "t" (
      "a, b" BIGINT[], -- List(non-null Int64)
      "words" VARCHAR[], -- List(non-null Utf8)
      "empty" DOUBLE
    )
    STORED AS TFRECORD
    LOCATION 't'
    OPTIONS ('tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'words', 'tfrecord.map' 'empty: bits, null=empty');
    "##);
    Ok(())
}

/// What was said of parts is said again, but where the statement's types, everything in which may be null, say it; and
/// what they cannot say is left out.
#[test]
fn ddl_records_how_nested_parts_were_written() -> Result<()> {
    let field = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
    let structs = |fields: Vec<Field>| DataType::Struct(fields.into());
    let inner = structs(vec![
        field("t", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        field("n", DataType::Utf8, false),
    ]);
    let schema = Schema::new(vec![
        field(
            "s",
            structs(vec![field("in", inner, true), field("l", DataType::new_list(DataType::Int64, true), true)]),
            true,
        ),
        field("kinds", DataType::new_list(DataType::new_list(DataType::Int64, false), true), true),
        field("e", structs(vec![field("l", DataType::new_list(DataType::Int8, false), true)]), false),
        field("k", structs(vec![field("label", DataType::Utf8, true)]), false),
        field("long", DataType::Utf8, true),
    ]);
    let words = ["cat", "a, b", "say \"z\"", "it's", ""].map(str::to_owned);
    let options = MappingOptions::default()
        .with_separator(".")
        .with_nulls(NullPolicy::Mask)
        .with_rule("s.in.t", "millis".parse().unwrap())
        .with_rule("e", "null=empty".parse().unwrap())
        .with_vocabulary("k.label", words.to_vec())
        .with_vocabulary("long", (0..=1000).map(|number: i32| number.to_string()).collect());
    let mapping = Mapping::try_new(&Arc::new(schema), &options).unwrap();
    insta::assert_snapshot!(TableDescription::new(&mapping, "t").render(SchemaForm::Ddl)?);
    Ok(())
}

#[test]
fn python_reads_sequences() -> Result<()> {
    let list = |item| DataType::new_list(item, false);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("words", list(list(DataType::Utf8)), true),
        Field::new("frames", list(DataType::new_fixed_size_list(DataType::Float64, 2, false)), false),
        Field::new("labels", list(DataType::Int8), false),
        Field::new("boxes", list(DataType::Struct(vec![Field::new("label", DataType::Utf8, false)].into())), true),
        Field::new("gaps", DataType::new_list(DataType::Int32, true), false),
    ]);
    let options = MappingOptions { record_type: RecordType::SequenceExample, ..MappingOptions::default() };
    let options = options.with_sequence("gaps").with_column_nulls("gaps", NullPolicy::Unset);
    let mapping = Mapping::try_new(&Arc::new(schema), &options.with_sequence("labels")).unwrap();
    let table = TableDescription::new(&mapping, "sequences/");
    insta::assert_snapshot!("sequences_python", table.render(SchemaForm::Python)?);
    let refused = table.render(SchemaForm::Pbtxt).unwrap_err();
    assert_eq!(refused.to_string(), "records of type sequence-example have no such description");
    Ok(())
}

/// TensorFlow takes a default for a feature that is missing, but not for one that is there without a value; in the
/// context of a SequenceExample, one without a kind is there too.
#[test]
fn nulls_without_values_are_sparse() {
    let point = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("point", point, true)]));
    let spec = |key: &str, options: &MappingOptions| {
        let mapping = Mapping::try_new(&schema, options).unwrap();
        let text = TableDescription::new(&mapping, "t").render(SchemaForm::Python).unwrap();
        // Behind the table of nulls.
        let (_, spec) = text.rsplit_once(&format!("\n    {key:?}: ")).unwrap();
        spec.lines().next().unwrap_or_default().to_owned()
    };
    let sparse = "tf.io.VarLenFeature(tf.int64),";
    let unset = MappingOptions::default().with_nulls(NullPolicy::Unset);
    assert_eq!(spec("id", &unset), "_scalar(\"id\", tf.int64),");
    assert_eq!(spec("id", &unset.clone().with_record_type(RecordType::SequenceExample)), sparse);
    assert_eq!(spec("id", &MappingOptions::default().with_nulls(NullPolicy::Empty)), sparse);
    for part in ["point", "point/x"] {
        assert_eq!(spec("point/x", &unset.clone().with_column_nulls(part, NullPolicy::Empty)), sparse, "{part}");
    }
}

/// A feature that is there without values is read as a list of them by all.
#[test]
fn nulls_without_values_are_lists() -> Result<()> {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let mapping = Mapping::try_new(&schema, &MappingOptions::default().with_nulls(NullPolicy::Empty)).unwrap();
    let table = TableDescription::new(&mapping, "ids/");
    let features = table.render(SchemaForm::FeaturesJson)?;
    assert!(features.contains("\"-1\"") && !features.contains("optional"), "{features}");
    let pbtxt = table.render(SchemaForm::Pbtxt)?;
    assert!(pbtxt.contains("min: 0"), "{pbtxt}");
    Ok(())
}

#[test]
fn schema_without_nulls_has_no_optional_features() -> Result<()> {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let mapping = Mapping::try_new(&schema, &MappingOptions::default().with_nulls(NullPolicy::Error)).unwrap();
    let table = TableDescription::new(&mapping, "ids/").with_name("Ids");
    assert!(table.render(SchemaForm::Python)?.contains(r#""id": tf.io.FixedLenFeature([], tf.int64)"#));
    assert!(!table.render(SchemaForm::FeaturesJson)?.contains("optional"));
    assert!(table.render(SchemaForm::Pbtxt)?.contains("min_fraction: 1.0"));
    let ddl = table.render(SchemaForm::Ddl)?;
    assert!(ddl.starts_with("CREATE EXTERNAL TABLE \"Ids\" ") && ddl.contains("('tfrecord.null' 'error')"), "{ddl}");
    Ok(())
}

#[test]
fn schema_without_columns_renders_in_every_format() -> Result<()> {
    let mapping = Mapping::try_new(&Arc::new(Schema::empty()), &MappingOptions::default()).unwrap();
    let table = TableDescription::new(&mapping, "none/");
    for form in SchemaForm::ALL {
        table.render(*form)?;
    }
    assert_eq!(
        table.render(SchemaForm::Ddl)?,
        "CREATE EXTERNAL TABLE \"none\"\nSTORED AS TFRECORD\nLOCATION 'none/';\n"
    );
    Ok(())
}

/// What TensorFlow Metadata can say of a table comes back from its `schema.pbtxt`.
#[test]
fn pbtxt_reads_back_the_schema() -> Result<()> {
    let mapping = everything();
    let schema = tfmd::schema_from_pbtxt(&TableDescription::new(&mapping, "").render(SchemaForm::Pbtxt)?)?;
    let columns = mapping.schema().fields().iter().filter(|field| *field.data_type() != DataType::Null);
    let lines: String = columns
        .zip(schema.fields())
        .map(|(written, read)| {
            assert_eq!((written.name(), written.is_nullable()), (read.name(), read.is_nullable()));
            format!("{} -> {}\n", written.data_type(), read.data_type())
        })
        .collect();
    insta::assert_snapshot!(lines);
    Ok(())
}

#[test]
fn schema_format_names_round_trip() {
    for form in SchemaForm::ALL {
        assert_eq!(form.to_string().parse(), Ok(*form));
    }
    let error = "yaml".parse::<SchemaForm>().unwrap_err();
    assert_eq!(error.to_string(), r#"unknown form "yaml": expected arrow, ddl, pbtxt, features.json, python, json"#);
}

#[test]
fn ddl_names_the_table_after_its_location() {
    for (location, expected) in [
        ("shards/", "shards"),
        ("s3://bucket/events/part-*.tfrecord", "events"),
        ("data/events.tfrecord.gz", "events"),
        ("events/dt=2026-01-01/", "events"),
        ("s3://bucket", "bucket"),
        ("/", "records"),
        (".", "records"),
    ] {
        assert_eq!(name_of(location), expected, "{location}");
    }
}
