//! Tests of the clauses of Hive.

use datafusion::sql::parser::CreateExternalTable;
use tfr_formats::{ErrorKind, HiveRefusal};

use super::*;

#[track_caller]
fn options(text: &str) -> Vec<String> {
    let statements = parse(text).unwrap();
    let tables = statements.iter().filter_map(|statement| match statement {
        Statement::CreateExternalTable(table) => Some(&table.options),
        _ => None,
    });
    tables.flatten().map(|(key, value)| format!("{key}={value}")).collect()
}

#[track_caller]
fn table(text: &str) -> CreateExternalTable {
    match parse(text).unwrap().pop_front() {
        Some(Statement::CreateExternalTable(table)) => table,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(text: &str) -> HiveRefusal {
    match parse(text) {
        Err(Error::HiveTable { error, .. }) => match error.kind() {
            ErrorKind::HiveTable(refusal) => refusal.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn clauses_become_options() {
    let text = r"
        CREATE EXTERNAL TABLE t (a INT, row INT) PARTITIONED BY (dt DATE)
        ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\'
            COLLECTION ITEMS TERMINATED BY ';' MAP KEYS TERMINATED BY ':' LINES TERMINATED BY '\n' NULL DEFINED AS ''
        STORED AS TEXTFILE OPTIONS (on_error 'null') LOCATION 'x';;
        create external table u row format delimited fields terminated by '\t' stored as textfile location 'y';
        SELECT row FROM t";
    let expected = [
        "on_error='null'",
        "collection.delim=';'",
        r"escape.delim='\'",
        "field.delim=','",
        "line.delim='\n'",
        "mapkey.delim=':'",
        "serialization.null.format=''",
        "schema='`a` int, `row` int'",
        "field.delim='\t'",
    ];
    assert_eq!(options(text), expected);
    assert_eq!(parse(text).unwrap().len(), 3);
}

#[test]
fn hive_ddl_columns_become_the_schema_option() {
    let text = r"
        CREATE EXTERNAL TABLE IF NOT EXISTS db.t (Id BIGINT COMMENT 'no ;', `Aß` MAP<STRING,ARRAY<INT>>, b BINARY, -- the last
            c VARCHAR(2))
        COMMENT_IS_NOT_TAKEN";
    assert!(parse(text).is_err());
    let text = text.replace("COMMENT_IS_NOT_TAKEN", "PARTITIONED BY (dt DATE) STORED AS TEXTFILE LOCATION 'x' TBLPROPERTIES (\"skip.header.line.count\"=\"1\", 'transient_lastDdlTime' = '5')");
    let schema = "schema='`id` bigint, `Aß` map<string,array<int>>, `b` binary, `c` varchar(2)'";
    assert_eq!(options(&text), ["skip.header.line.count='1'", schema]);
    // What Hive does not understand, or would not find in the file.
    for columns in ["(a INT NOT NULL)", "(\"A\" INT)", "(a INT[])", "(a INT, dt DATE)", ""] {
        let text = format!("CREATE EXTERNAL TABLE t {columns} STORED AS TEXTFILE PARTITIONED BY (dt) LOCATION 'x'");
        assert!(options(&text).is_empty(), "{columns}");
    }
    assert!(options("CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION 'x'").is_empty());
    let two = "CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION 'x'; CREATE EXTERNAL TABLE u (a INT) STORED AS TEXTFILE LOCATION 'x'; SELECT (1)";
    assert_eq!(options(two), ["schema='`a` int'"]);
    // Formats that have types of their own keep those of SQL as long as it has all of them.
    for (columns, expected) in [
        ("a INT, t TIMESTAMP", &[][..]),
        ("a INT, m MAP<INT,STRING>", &["schema='`a` int, `m` map<int,string>'"]),
        ("b BINARY", &["schema='`b` binary'"]),
        ("s STRUCT<x:INT>", &["schema='`s` struct<x:int>'"]),
    ] {
        for format in ["PARQUET", "ORC", "AVRO"] {
            let text = format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS {format} LOCATION 'x'");
            assert_eq!(options(&text), expected, "{text}");
        }
    }
}

#[test]
fn hive_show_create_table_is_parsed() {
    let text = r"CREATE EXTERNAL TABLE `w`(
          `id` int,
          `st` string)
        ROW FORMAT SERDE
          'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'
        WITH SERDEPROPERTIES (
          'escape.delim'='\\', 'field.delim'='\u0001', 'serialization.format'='\u0001', 'serialization.null.format'='NULL')
        STORED AS INPUTFORMAT
          'org.apache.hadoop.mapred.TextInputFormat'
        OUTPUTFORMAT
          'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'
        LOCATION 'data' TBLPROPERTIES ('bucketing_version'='2'); SELECT 1";
    let expected = [
        r"escape.delim='\'",
        "field.delim='\u{1}'",
        "serialization.null.format='NULL'",
        "schema='`id` int, `st` string'",
    ];
    assert_eq!(options(text), expected);
    assert_eq!(table(text).file_type, "TEXTFILE");
    let orc = "CREATE TABLE t (a INT) ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' WITH SERDEPROPERTIES \
        ('serialization.format'='1') STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat' OUTPUTFORMAT 'x' \
        LOCATION 'x'";
    assert_eq!(options(orc), ["by_position='true'", "timestamps='cut'", "schema='`a` int'"]);
    let class = "org.apache.hadoop.hive.ql.io.RCFileInputFormat".to_owned();
    let rc = orc.replace("org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", &class);
    assert_eq!(refused(&rc), HiveRefusal::InputFormat { class });
    let several = text.replace(r"\u0001", "||");
    assert!(matches!(refused(&several), HiveRefusal::Property { key, .. } if key == "field.delim"));
    assert!(parse(&several.replace("lazy.LazySimple", "MultiDelimit").replace("'escape.delim'='\\\\', ", "")).is_ok());
}

/// Clauses of Hive 4.0.1's own SHOW CREATE TABLE that do not concern readers, and texts with escapes.
#[test]
fn hive_show_create_table_may_have_escapes() {
    let text = r#"CREATE TABLE `sc1`(
  `a b` int COMMENT 'it\'s\; a "q" \\ x',
  `s` struct<`x`:int, `y`:map<int,string>>,
  `v` varchar(5))
COMMENT 'tables \'c\''
PARTITIONED BY (
  `p` int COMMENT 'pc',
  `q r` string)
CLUSTERED BY (
  `v`)
SORTED BY (
  `v` DESC)
INTO 4 BUCKETS
SKEWED BY (`v`)
  ON (('1'),('2'))
  STORED AS DIRECTORIES
ROW FORMAT SERDE
  'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'
WITH SERDEPROPERTIES (
  'collection.delim'='|',
  'escape.delim'='\\',
  'field.delim'='\;',
  'line.delim'='\n',
  'mapkey.delim'=':',
  'serialization.format'='\;',
  'serialization.null.format'='NU\'LL')
STORED AS INPUTFORMAT
  'org.apache.hadoop.mapred.TextInputFormat'
OUTPUTFORMAT
  'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'
LOCATION
  'file:/tmp/sc1'
TBLPROPERTIES (
  'bucketing_version'='2',
  'skip.header.line.count'='1',
  'transient_lastDdlTime'='1795941105',
  'x y'='it\'s')"#;
    let expected = [
        "collection.delim='|'",
        r"escape.delim='\'",
        "field.delim=';'",
        "line.delim='\n'",
        "mapkey.delim=':'",
        "serialization.null.format='NU''LL'",
        "skip.header.line.count='1'",
        "schema='`a b` int, `s` struct<`x`:int, `y`:map<int,string>>, `v` varchar(5)'",
        "partitions=' `p` int COMMENT ''pc'', `q r` string'",
    ];
    let found: Vec<String> = options(text).iter().map(|option| option.to_lowercase()).collect();
    assert_eq!(found, expected.map(str::to_lowercase));
    assert_eq!(table(text).table_partition_cols, ["\"p\"", "\"q r\""]);
}

#[test]
fn serdes_of_hive_become_options() {
    let text = r"CREATE EXTERNAL TABLE `sc6`(`a` int, `b` double) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'
        WITH SERDEPROPERTIES ('quoteChar'='\'', 'separatorChar'='\t') STORED AS INPUTFORMAT
        'org.apache.hadoop.mapred.TextInputFormat' OUTPUTFORMAT 'x' LOCATION 'x'";
    let expected =
        [r"quote_char='\x27'", r"separator_char='\x09'", "serde='opencsv'", "schema='`a` string, `b` string'"];
    assert_eq!(options(text), expected);
    let json = "CREATE EXTERNAL TABLE t (A INT) STORED AS JSONFILE LOCATION 'x'";
    assert_eq!(options(json), ["serde='json'", "schema='`a` int'"]);
    assert_eq!(table(json).file_type, "TEXTFILE");
    // Hive's default is a text file.
    let class =
        "CREATE EXTERNAL TABLE t (a INT) ROW FORMAT SERDE 'org.apache.hive.hcatalog.data.JsonSerDe' LOCATION 'x'";
    assert_eq!(options(class), ["serde='json'", "schema='`a` int'"]);
}

#[test]
fn lengths_of_columns_in_the_path_are_kept() {
    let text = "CREATE EXTERNAL TABLE t (a INT) PARTITIONED BY (P CHAR(3), `q r` DATE COMMENT 'x') STORED AS TEXTFILE LOCATION 'x'";
    let schema = "schema='`a` int'";
    assert_eq!(options(text), [schema, "partitions='p char(3), `q r` date comment ''x'''"]);
    assert_eq!(table(text).table_partition_cols, ["\"p\"", "\"q r\""]);
    // SQL has these types.
    let others = "CREATE EXTERNAL TABLE t (a INT) PARTITIONED BY (p INT, q STRING) STORED AS TEXTFILE LOCATION 'x'";
    assert_eq!(options(others), [schema]);
    assert_eq!(options(&others.replace("p INT, q STRING", "p, q")), [schema]);
}

#[test]
fn row_format_leaves_other_statements_unchanged() {
    assert!(options("SELECT 1 AS row").is_empty());
    assert!(parse("SELECT ROW FORMAT DELIMITED").is_err());
    let text = "CREATE EXTERNAL TABLE t STORED AS TEXTFILE LOCATION 'ROW FORMAT DELIMITED'";
    assert!(options(text).is_empty());
}

#[test]
fn row_format_rejects_unsupported_clauses() {
    let serde = "CREATE EXTERNAL TABLE t ROW FORMAT SERDE 'a.B' STORED AS TEXTFILE LOCATION 'x'";
    assert_eq!(refused(serde), HiveRefusal::Serde { class: "a.B".to_owned() });
    let several =
        "CREATE EXTERNAL TABLE t ROW FORMAT DELIMITED FIELDS TERMINATED BY '||' STORED AS TEXTFILE LOCATION 'x'";
    assert!(
        matches!(refused(several), HiveRefusal::Property { key, value, .. } if key == "field.delim" && value == "||")
    );
    for (key, value) in [("timestamp.formats", "yyyy/MM/dd"), ("serialization.last.column.takes.rest", "true")] {
        let text = format!(
            "CREATE EXTERNAL TABLE t (a INT) STORED AS TEXTFILE LOCATION 'x' TBLPROPERTIES ('a'='b', '{key}'='{value}')"
        );
        assert!(matches!(refused(&text), HiveRefusal::Property { key: found, .. } if found == key));
        assert!(parse(&text.replace(value, "false")).is_ok());
    }
    let stored_by = "CREATE EXTERNAL TABLE t (a INT) STORED BY 'a.HBaseStorageHandler' LOCATION 'x'";
    assert_eq!(refused(stored_by), HiveRefusal::StorageHandler { class: "a.HBaseStorageHandler".to_owned() });
    let acid = "CREATE EXTERNAL TABLE t (a INT) STORED AS ORC LOCATION 'x' TBLPROPERTIES ('transactional'='true')";
    assert_eq!(refused(acid), HiveRefusal::Transactional);
    assert_eq!(refused(&acid.replace("ORC", "TEXTFILE")), HiveRefusal::Transactional);
    let twice = "CREATE EXTERNAL TABLE t ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE \
        OPTIONS ('field.delim' ';') LOCATION 'x'";
    assert!(matches!(parse(twice), Err(Error::RowFormatTwice { key: "field.delim" })));
}
