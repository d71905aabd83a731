use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, Date32Array, Decimal128Array, DictionaryArray, DurationMillisecondArray,
    DurationSecondArray, Int8Array, Int64Array, ListArray, RecordBatch, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow_schema::{DataType, Field};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_common::{DataFusionError, Result};
use tfr_arrow::text::NoTextError;

fn context() -> SessionContext {
    of(crate::exact(SessionStateBuilder::new().with_default_features()))
}

/// A session with a table `t` whose rows with even `id` have text, and none of the others in any column.
fn of(builder: SessionStateBuilder) -> SessionContext {
    let times = Time64MicrosecondArray::from(vec![1_000_000, 4_294_967_296_000_000, 0, -1]);
    let item = Arc::new(Field::new("item", times.data_type().clone(), true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths([1; 4]), Arc::new(times.clone()), None);
    let durations = Arc::new(DurationMillisecondArray::from(vec![1, i64::MIN])) as ArrayRef;
    let of_durations = DictionaryArray::new(Int8Array::from(vec![0, 1, 0, 1]), durations);
    let decimals = Decimal128Array::from(vec![12345, 123_456, -1, -999_999]).with_precision_and_scale(5, 2).unwrap();
    let structs = StructArray::from(vec![(
        Arc::new(Field::new("x", decimals.data_type().clone(), true)),
        Arc::new(decimals.clone()) as ArrayRef,
    )]);
    let columns: [(&str, ArrayRef); 9] = [
        ("id", Arc::new(Int64Array::from(vec![0, 1, 2, 3]))),
        ("du", Arc::new(DurationSecondArray::from(vec![60, i64::MAX, -1, i64::MIN]))),
        ("di", Arc::new(of_durations)),
        ("ti", Arc::new(times)),
        ("da", Arc::new(Date32Array::from(vec![0, i32::MAX, -719_528, i32::MIN]))),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX, 1, i64::MIN]))),
        ("de", Arc::new(decimals)),
        ("li", Arc::new(list)),
        ("st", Arc::new(structs)),
    ];
    let context = SessionContext::new_with_state(builder.build());
    context
        .register_batch("t", RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).unwrap())
        .unwrap();
    context
}

async fn texts(query: &str) -> Result<Vec<Option<String>>> {
    let batches = context().sql(query).await?.collect().await?;
    let texts = batches.iter().map(|batch| cast(batch.column(0), &DataType::Utf8).unwrap());
    Ok(texts
        .flat_map(|texts| texts.as_string::<i32>().iter().map(|t| t.map(str::to_owned)).collect::<Vec<_>>())
        .collect())
}

fn no_text(error: &DataFusionError) -> Option<&NoTextError> {
    match error {
        DataFusionError::External(source) => source.downcast_ref(),
        DataFusionError::Context(_, source) => no_text(source),
        DataFusionError::Shared(source) => no_text(source),
        _ => None,
    }
}

const TEXTS: [(&str, &str); 15] = [
    ("du", "CAST(du AS VARCHAR)"),
    ("di", "CAST(di AS VARCHAR)"),
    ("ti", "CAST(ti AS VARCHAR)"),
    ("da", "CAST(da AS VARCHAR)"),
    ("ts", "CAST(ts AS VARCHAR)"),
    ("de", "CAST(de AS VARCHAR)"),
    ("ti", "ti || ''"),
    ("du", "concat('', du)"),
    ("de", "concat_ws('-', de)"),
    ("li", "CAST(li AS VARCHAR[])[1]"),
    ("li", "array_to_string(li, ',')"),
    ("st", "arrow_cast(st, 'Struct(\"x\": nullable Utf8)')['x']"),
    ("de", "arrow_cast(de, 'LargeUtf8')"),
    ("ti", "to_char(ti, '%H')"),
    ("du", "to_char(du, 'ISO8601')"),
];

#[tokio::test]
async fn values_without_text_are_refused() {
    for (column, text) in TEXTS {
        let error = texts(&format!("SELECT {text} FROM t")).await.unwrap_err();
        let found = no_text(&error).unwrap_or_else(|| panic!("{text}: {error}"));
        assert_eq!((found.column.as_str(), found.row), (column, 1), "{text}");
    }
}

/// Rows that the query does not cast do not matter.
#[tokio::test]
async fn values_with_text_are_cast() {
    for (_, text) in TEXTS {
        let found = texts(&format!("SELECT {text} FROM t WHERE id % 2 = 0 ORDER BY id")).await.unwrap();
        assert!(found.len() == 2 && found.iter().all(Option::is_some), "{text}: {found:?}");
        let found = texts(&format!("SELECT CASE WHEN id % 2 = 0 THEN {text} END FROM t ORDER BY id")).await.unwrap();
        assert!(found.len() == 4 && found[0].is_some() && found[1].is_none(), "{text}: {found:?}");
    }
    assert_eq!(
        texts("SELECT CAST(de AS VARCHAR) FROM t WHERE id % 2 = 0 ORDER BY id").await.unwrap(),
        [Some("123.45".to_owned()), Some("-0.01".to_owned())]
    );
}

#[tokio::test]
async fn try_cast_to_text_is_null_for_values_without_text() {
    for column in ["du", "di", "ti", "da", "ts", "de"] {
        for text in [format!("TRY_CAST({column} AS VARCHAR)"), format!("arrow_try_cast({column}, 'Utf8')")] {
            let found = texts(&format!("SELECT {text} FROM t ORDER BY id")).await.unwrap();
            assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false], "{text}");
        }
    }
}

/// The check does not show in names, and works in grouping, sorting, subqueries, joins and views.
#[tokio::test]
async fn cast_check_keeps_column_names() {
    let (context, plain) = (context(), of(SessionStateBuilder::new().with_default_features()));
    let queries = [
        ("SELECT CAST(da AS VARCHAR), count(*) FROM t WHERE id % 2 = 0 GROUP BY CAST(da AS VARCHAR)", 2),
        ("SELECT CAST(da AS VARCHAR) FROM t WHERE id = 0 GROUP BY ROLLUP(CAST(da AS VARCHAR))", 2),
        ("SELECT da || '', concat(de, 'x') FROM t WHERE id = 0 ORDER BY da || ''", 1),
        ("SELECT * FROM v", 2),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t b WHERE CASE WHEN b.id = 0 THEN CAST(b.da AS VARCHAR) END = '1970-01-01')",
            4,
        ),
        ("SELECT a.id FROM t a JOIN t b ON CAST(a.id AS VARCHAR) = CAST(b.id AS VARCHAR) WHERE a.id = 0", 1),
        ("SELECT CAST(de AS VARCHAR) FROM t WHERE id = 0 UNION ALL SELECT CAST(id AS VARCHAR) FROM t WHERE id = 0", 2),
        ("SELECT max(CAST(ti AS VARCHAR)) OVER (PARTITION BY CAST(da AS VARCHAR)) FROM t WHERE id % 2 = 0", 2),
        ("SELECT row_number() OVER (ORDER BY CAST(da AS VARCHAR)) FROM t WHERE id % 2 = 0", 2),
        (
            "SELECT string_agg(CAST(de AS VARCHAR), ',' ORDER BY CAST(da AS VARCHAR)), id FROM t WHERE id = 0 GROUP BY id",
            1,
        ),
        ("SELECT count(*) FILTER (WHERE CAST(da AS VARCHAR) > '1') FROM t WHERE id = 0 HAVING count(*) > 0", 1),
        ("SELECT id FROM t WHERE id IN (SELECT CAST(CAST(b.id AS VARCHAR) AS INT) FROM t b)", 4),
        ("SELECT DISTINCT ON (CAST(da AS VARCHAR)) id FROM t WHERE id % 2 = 0", 2),
        ("SELECT array_agg(DISTINCT CAST(ts AS VARCHAR) ORDER BY CAST(ts AS VARCHAR)) FROM t WHERE id % 2 = 0", 1),
    ];
    for context in [&context, &plain] {
        let view = "CREATE VIEW v AS SELECT id, CAST(da AS VARCHAR) FROM t WHERE id % 2 = 0";
        context.sql(view).await.unwrap().collect().await.unwrap();
    }
    for (query, rows) in queries {
        let mut names = Vec::new();
        for context in [&context, &plain] {
            let batches = context.sql(query).await.unwrap().collect().await;
            let batches = batches.unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{query}");
            names.push(batches[0].schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>());
        }
        assert_eq!(names[0], names[1], "{query}");
    }
}
