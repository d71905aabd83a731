//! Nested columns, masks, sequences and raw records: `COPY` and reading round-trip.

use std::path::Path;
use std::sync::Arc;

use arrow_tfrecord::{MappingOptions, NullPolicy, RecordType};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{ReadOptions, TfRecordFormatFactory};
use tempfile::tempdir;

use super::support::{query_rows, rows, shown, shown_with};

/// Every shape of column, with nulls at every level.
const NESTED: &str = "SELECT * FROM (VALUES \
    (1, named_struct('x', 1, 'y', 2.5), [[1, 2], [3]], [named_struct('a', 1, 'b', 'u'), NULL], ['p', NULL], MAP {'k': 1}), \
    (2, NULL, [[]], [], NULL, NULL), \
    (3, named_struct('x', NULL, 'y', 1.5), NULL, NULL, [], MAP {}), \
    (4, named_struct('x', NULL, 'y', NULL), [[5], NULL], [named_struct('a', NULL, 'b', 'w')], ['q'], MAP {'l': NULL})\
    ) AS t(id, point, ragged, items, tags, counts)";

async fn copy(query: &str, out: &Path, options: &str) -> Result<SessionContext> {
    let mut state = SessionStateBuilder::new().with_default_features().build();
    state.register_file_format(Arc::new(TfRecordFormatFactory), true)?;
    let context = SessionContext::new_with_state(state);
    let copy = format!("COPY ({query}) TO '{}/' STORED AS TFRECORD OPTIONS ({options})", out.display());
    context.sql(&copy).await?.collect().await?;
    Ok(context)
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_columns_round_trip() -> Result<()> {
    let dir = tempdir()?;
    let exact = "'tfrecord.map' 'point/y: bits', 'tfrecord.null' 'mask'";
    for (name, options) in [
        ("example", exact.to_owned()),
        ("dots", "'tfrecord.map' 'point.y: bits', 'tfrecord.null' 'mask', 'tfrecord.separator' '.'".to_owned()),
        ("gzip", format!("{exact}, 'tfrecord.compression' 'gzip'")),
    ] {
        let out = dir.path().join(name);
        let context = copy(NESTED, &out, &options).await?;
        for query in [
            "SELECT * FROM r ORDER BY id",
            "SELECT id, point FROM r WHERE point['y'] > 2 ORDER BY id",
            "SELECT counts, ragged FROM r WHERE point IS NOT NULL AND id < 4 ORDER BY id",
            "SELECT tags FROM r WHERE cardinality(items) = 1",
        ] {
            let source = query_rows(&context, &query.replace("FROM r", &format!("FROM ({NESTED}) r"))).await?;
            let found = rows(&out, query).await?;
            assert_eq!(found.columns(), source.columns(), "{name}: {query}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sequence_examples_round_trip() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("set");
    let query = format!("SELECT id, ragged, items, tags FROM ({NESTED}) WHERE id < 4");
    let options = "'tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'tags', 'tfrecord.null' 'mask'";
    let context = copy(&query, &out, options).await?;
    let source = query_rows(&context, &format!("{query} ORDER BY id")).await?;
    assert_eq!(rows(&out, "SELECT * FROM r ORDER BY id").await?.columns(), source.columns());
    // Options are combined with the manifest.
    let mapping = Some(MappingOptions::default().with_record_type(RecordType::SequenceExample));
    let said = ReadOptions { mapping: mapping.clone(), ..ReadOptions::default() };
    let whole = shown(dir.path(), &out, "SELECT * FROM r ORDER BY id").await;
    assert_eq!(shown_with(dir.path(), &out, "SELECT * FROM r ORDER BY id", &said).await, whole);
    // In files outside of sets, features and feature lists are ordinary columns.
    let foreign = dir.path().join("foreign.tfrecord");
    std::fs::copy(out.join("part-00000-of-00001.tfrecord"), &foreign)?;
    let plain = shown(dir.path(), &foreign, "SELECT * FROM r ORDER BY id").await;
    assert_eq!(shown_with(dir.path(), &foreign, "SELECT * FROM r ORDER BY id", &said).await, plain);
    insta::assert_snapshot!(plain, @r"
    +----+---------+-----------------+---------+-----------------+---------------+---------------+----------------+------------------+-------+--------------+
    | id | items/a | items/a/is_null | items/b | items/b/is_null | items/is_null | ragged        | ragged/is_null | ragged/is_null_0 | tags  | tags/is_null |
    +----+---------+-----------------+---------+-----------------+---------------+---------------+----------------+------------------+-------+--------------+
    | 1  | [1, 0]  | [0, 1]          | [u, ]   | [0, 1]          | [0, 1]        | [[1, 2], [3]] | [[0, 0], [0]]  | [0, 0]           | [p, ] | [0, 1]       |
    | 2  | []      | []              | []      | []              | []            | [[]]          | [[]]           | [0]              |       |              |
    | 3  |         |                 |         |                 |               |               |                |                  | []    | []           |
    +----+---------+-----------------+---------+-----------------+---------------+---------------+----------------+------------------+-------+--------------+
    ");
    let schema = Some(source.schema());
    let mapping = mapping.map(|mapping| mapping.with_sequence("tags").with_nulls(NullPolicy::Mask));
    let declared = ReadOptions { schema, mapping, ..ReadOptions::default() };
    assert_eq!(shown_with(dir.path(), &foreign, "SELECT * FROM r ORDER BY id", &declared).await, whole);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_examples_round_trip() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("set");
    let query = "SELECT id, array_agg(named_struct('n', n, 'text', 'v' || n) ORDER BY n) AS items \
                 FROM (SELECT value % 7 AS id, value AS n FROM generate_series(1, 50)) GROUP BY id";
    let context = copy(query, &out, "'tfrecord.record_type' 'elwc', 'tfrecord.shards' '3'").await?;
    let source = query_rows(&context, &format!("{query} ORDER BY id")).await?;
    assert_eq!(rows(&out, "SELECT * FROM r ORDER BY id").await?.columns(), source.columns());
    // A filter on the items, and the context alone.
    let filtered = rows(&out, "SELECT id FROM r WHERE items[1]['n'] > 3 ORDER BY id").await?;
    assert_eq!(filtered.num_rows(), 4);
    insta::assert_snapshot!(shown(dir.path(), &out, "SELECT sum(id) AS ids, count(*) AS rows FROM r").await, @r"
    +-----+------+
    | ids | rows |
    +-----+------+
    | 21  | 7    |
    +-----+------+
    ");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_records_read_as_one_column() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("set");
    copy("VALUES ('one'), ('two')", &out, "'tfrecord.record_type' 'bytes'").await?;
    insta::assert_snapshot!(shown(dir.path(), &out, "SELECT * FROM r ORDER BY 1").await, @r##"
    +---------+
    | column1 |
    +---------+
    | one     |
    | two     |
    +---------+
    "##);
    let mapping = Some(MappingOptions::default().with_record_type(RecordType::Bytes));
    let raw = ReadOptions { mapping, ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &out, "SELECT * FROM r ORDER BY 1", &raw).await, @r##"
    +--------+
    | record |
    +--------+
    | 6f6e65 |
    | 74776f |
    +--------+
    "##);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn table_rejects_sets_with_different_null_masks() -> Result<()> {
    let dir = tempdir()?;
    let table = "SELECT 1 AS id, [1, 2] AS list";
    copy(table, &dir.path().join("day=1"), "'tfrecord.null' 'mask'").await?;
    copy(table, &dir.path().join("day=2"), "'tfrecord.map' 'list: null=drop'").await?;
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r").await, @r##"
    DIR/day=2: column "list" has another form than in DIR/day=1
    "##);
    // Differences that do not affect readers are ignored.
    copy(table, &dir.path().join("more/day=1"), "'tfrecord.null' 'error'").await?;
    copy(table, &dir.path().join("more/day=2"), "'tfrecord.map' 'list: null=drop'").await?;
    insta::assert_snapshot!(shown(dir.path(), dir.path().join("more"), "SELECT * FROM r ORDER BY day").await, @r##"
    +----+--------+-----+
    | id | list   | day |
    +----+--------+-----+
    | 1  | [1, 2] | 1   |
    | 1  | [1, 2] | 2   |
    +----+--------+-----+
    "##);
    Ok(())
}
