//! Hints for Hive tables that cannot be read by their classes and properties.

use tfr_formats::HiveRefusal;

/// Returns a hint, if there is one.
pub fn hint(refusal: &HiveRefusal) -> Option<String> {
    Some(match refusal {
        HiveRefusal::Serde { class } if class.ends_with(".RegexSerDe") => {
            "declare one STRING column STORED AS TEXTFILE, and take its parts in the query: \
             (regexp_match(line, '...'))[1]"
                .to_owned()
        }
        HiveRefusal::Serde { .. } | HiveRefusal::InputFormat { .. } => {
            "copy the rows with Hive to a table STORED AS PARQUET or ORC; or leave the classes out, and name the format \
             of the files, as in STORED AS TEXTFILE, PARQUET, ORC, AVRO, JSON or CSV"
                .to_owned()
        }
        HiveRefusal::Classes { .. } => "name the format of the files, as in STORED AS ORC".to_owned(),
        HiveRefusal::Property { key, .. } => match key.as_str() {
            "timestamp.formats" => {
                "declare the column as STRING, and parse it in the query: to_timestamp(s, '%Y/%m/%d')".to_owned()
            }
            "serialization.last.column.takes.rest" => {
                "declare a column for each cell, and join them: concat_ws(',', a, b)".to_owned()
            }
            "field.delim" => {
                "for several characters, as in Hive's MultiDelimitSerDe, leave the clause out and put \
                 OPTIONS ('field.delim' '||') behind the location"
                    .to_owned()
            }
            "avro.schema.literal" | "avro.schema.url" => {
                "declare the columns and leave the property out: a field that a file lacks is then null, whatever default \
                 the schema has"
                    .to_owned()
            }
            "serialization.encoding" => "read it STORED AS JSON OPTIONS (encoding 'latin1')".to_owned(),
            _ => "leave the property out, if the values do not depend on it".to_owned(),
        },
        HiveRefusal::UnknownProperty { .. } => {
            "leave the property out, if the values do not depend on it".to_owned()
        }
        HiveRefusal::MissingProperty { key } => format!("add it: WITH SERDEPROPERTIES ('{key}'='||')"),
        HiveRefusal::Transactional => {
            "copy the rows with Hive: CREATE EXTERNAL TABLE copy STORED AS PARQUET AS SELECT * FROM ...".to_owned()
        }
        HiveRefusal::StorageHandler { .. } => {
            "copy the rows with Hive: CREATE EXTERNAL TABLE copy STORED AS PARQUET AS SELECT * FROM ...".to_owned()
        }
        HiveRefusal::Provider { .. } => {
            "leave the classes and properties out, and name the format: STORED AS CSV, JSON or PARQUET".to_owned()
        }
        HiveRefusal::View { .. } => "write its query here, over the tables that it reads".to_owned(),
        _ => return None,
    })
}
