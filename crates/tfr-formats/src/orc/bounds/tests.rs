use std::error::Error;

use arrow_schema::{DataType, Field, Schema};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{Expr, SessionConfig, SessionContext, cast, col, lit};
use datafusion_common::DFSchema;
use prost::Message;
use url::Url;

use super::super::proto::{
    ColumnEncoding, DateStatistics, Footer, IntegerStatistics, Metadata, PostScript, Stream, StringStatistics,
    StripeFooter, StripeInformation, Type, stream,
};
use super::super::tests::stored;
use super::super::types::TypeRules;
use super::*;
use crate::calendar::CalendarOption;
use crate::options::InputOptions;

type Outcome = Result<(), Box<dyn Error>>;

/// Builds a file of uncompressed stripes, from the values of its first column, if stored, and the statistics of each
/// column.
fn file(kinds: &[i32], writer_version: u32, stripes: &[(&[i64], Vec<ValueStatistics>)]) -> Vec<u8> {
    let mut bytes = b"ORC".to_vec();
    let mut infos = Vec::new();
    for (values, _) in stripes {
        let offset = bytes.len() as u64;
        if !values.is_empty() {
            // Literals of version 1: the negated count, then zigzag varints below 64.
            bytes.push((values.len() as u8).wrapping_neg());
            bytes.extend(values.iter().map(|value| (value << 1) as u8));
        }
        let data_length = bytes.len() as u64 - offset;
        let streams = vec![Stream { kind: stream::DATA, column: 1, length: data_length }];
        let columns = vec![ColumnEncoding::default(); kinds.len() + 1];
        let footer = StripeFooter { streams, columns, writer_timezone: None }.encode_to_vec();
        let (footer_length, number_of_rows) = (footer.len() as u64, values.len() as u64);
        bytes.extend(footer);
        infos.push(StripeInformation { offset, index_length: 0, data_length, footer_length, number_of_rows });
    }
    let of_root = |columns: &[ValueStatistics]| [&[ValueStatistics::default()], columns].concat();
    let stripe = |(_, columns): &(&[i64], Vec<ValueStatistics>)| StripeStatistics { columns: of_root(columns) };
    let metadata = Metadata { stripes: stripes.iter().map(stripe).collect() }.encode_to_vec();
    let subtypes: Vec<_> = (1..=kinds.len() as u32).collect();
    let field_names = subtypes.iter().map(|id| format!("c{id}")).collect();
    let root = Type { kind: kind::STRUCT, subtypes, field_names, ..Type::default() };
    let types = [root].into_iter().chain(kinds.iter().map(|kind| Type { kind: *kind, ..Type::default() }));
    let number_of_rows = Some(infos.iter().map(|info| info.number_of_rows).sum());
    let footer = Footer { stripes: infos, types: types.collect(), number_of_rows, ..Footer::default() };
    let footer = footer.encode_to_vec();
    let postscript = PostScript {
        footer_length: Some(footer.len() as u64),
        metadata_length: Some(metadata.len() as u64),
        writer_version: Some(writer_version),
        magic: Some("ORC".to_owned()),
        ..PostScript::default()
    };
    let postscript = postscript.encode_to_vec();
    let len = postscript.len() as u8;
    [bytes, metadata, footer, postscript, vec![len]].concat()
}

fn integers(minimum: i64, maximum: i64) -> ValueStatistics {
    let integers = Some(IntegerStatistics { minimum: Some(minimum), maximum: Some(maximum) });
    ValueStatistics { integers, ..ValueStatistics::default() }
}

fn dates(minimum: i32, maximum: i32) -> ValueStatistics {
    let dates = Some(DateStatistics { minimum: Some(minimum), maximum: Some(maximum) });
    ValueStatistics { dates, ..ValueStatistics::default() }
}

fn texts(minimum: &[u8], maximum: &[u8]) -> ValueStatistics {
    let strings = Some(StringStatistics { minimum: Some(minimum.to_vec()), maximum: Some(maximum.to_vec()) });
    ValueStatistics { strings, ..ValueStatistics::default() }
}

/// Returns which stripes of a file of one column may contain rows that pass.
async fn may_pass(
    (kind, data_type): (i32, DataType),
    writer_version: u32,
    stripes: Vec<ValueStatistics>,
    filter: Expr,
) -> Result<Vec<bool>, Box<dyn Error>> {
    let stripes: Vec<_> = stripes.into_iter().map(|bounds| (&[][..], vec![bounds])).collect();
    let (store, meta) = stored(file(&[kind], writer_version, &stripes)).await?;
    let tail = Tail::fetch(&store, &meta, "f.orc", TypeRules::default(), &CalendarOption::default()).await?;
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c1", data_type, true)]));
    let filter = SessionContext::new().create_physical_expr(filter, &DFSchema::try_from(Arc::clone(&schema))?)?;
    let names = ["c1".to_owned()];
    let bounds = StripeBounds::of(&tail, &names, &schema).ok_or("no bounds")?;
    Ok(bounds.may_pass(&filter))
}

#[tokio::test]
async fn stripes_are_pruned_by_trusted_bounds() -> Outcome {
    let int = || (kind::INT, DataType::Int32);
    let bounds = || vec![integers(0, 9), integers(10, 19), ValueStatistics::default()];
    for (filter, expected) in [
        (col("c1").gt(lit(9_i32)), [false, true, true]),
        (col("c1").eq(lit(5_i32)), [true, false, true]),
        (col("c1").between(lit(9_i32), lit(10_i32)), [true, true, true]),
        (col("c1").is_null(), [true, true, true]),
        ((col("c1") % lit(7_i32)).eq(lit(5_i32)), [true, true, true]),
    ] {
        assert_eq!(may_pass(int(), 6, bounds(), filter.clone()).await?, expected, "{filter}");
    }
    // The table's integer type is longer than the file's.
    let wide = (kind::INT, DataType::Int64);
    assert_eq!(may_pass(wide, 6, bounds(), col("c1").lt(lit(10_i64))).await?, [true, false, true]);

    // A writer's bounds of days before 1582 may be in either calendar.
    let date = || (kind::DATE, DataType::Date32);
    let day = |days: i32| cast(lit(days), DataType::Date32);
    let bounds = || vec![dates(-200_000, 0), dates(-200_000, -150_000), dates(1, 2)];
    assert_eq!(may_pass(date(), 6, bounds(), col("c1").gt(day(1))).await?, [false, true, true]);
    assert_eq!(may_pass(date(), 6, bounds(), col("c1").lt(day(-250_000))).await?, [true, true, false]);

    let text = |kind| (kind, DataType::Utf8);
    let bounds = || vec![texts(b"a", b"c"), texts(b"c", b"e"), texts(b"\xff", b"\xff")];
    let filter = || col("c1").eq(lit("d"));
    assert_eq!(may_pass(text(kind::STRING), 1, bounds(), filter()).await?, [false, true, true]);
    // Before HIVE-8732 they were wrong, and those of CHAR may have trailing spaces.
    assert_eq!(may_pass(text(kind::STRING), 0, bounds(), filter()).await?, [true, true, true]);
    assert_eq!(may_pass(text(kind::CHAR), 6, bounds(), filter()).await?, [true, true, true]);
    Ok(())
}

/// Returns a counter's value in a plan.
fn counted(plan: &dyn ExecutionPlan, name: &str) -> usize {
    let here = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |count| count.as_usize());
    here + plan.children().into_iter().map(|child| counted(child.as_ref(), name)).sum::<usize>()
}

#[tokio::test]
async fn stripes_without_matching_rows_are_not_fetched() -> Outcome {
    let values: Vec<Vec<i64>> = (0..5).map(|stripe| (stripe * 10..stripe * 10 + 10).collect()).collect();
    let bounds = values.iter().map(|values| (values.as_slice(), vec![integers(values[0], values[9])]));
    let (store, _) = stored(file(&[kind::LONG], 6, &bounds.collect::<Vec<_>>())).await?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1).with_batch_size(4));
    // A remote store, so that the next stripe is fetched ahead.
    context.register_object_store(&Url::parse("s3://bucket")?, store);
    let location = "s3://bucket/f.orc".into();
    let table = crate::open_locations(&context.state(), &[location], &InputOptions::default(), None).await?;
    context.register_table("t", table)?;
    for (query, rows, skipped) in [
        ("SELECT c1 FROM t", 0..50, 0),
        ("SELECT c1 FROM t WHERE c1 >= 30", 30..50, 3),
        ("SELECT c1 FROM t WHERE c1 = 17", 17..18, 4),
        ("SELECT c1 FROM t WHERE c1 > 50", 0..0, 5),
    ] {
        let plan = context.sql(query).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
        let found = batches.iter().flat_map(|batch| {
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>();
            column.into_iter().flat_map(|column| column.values().to_vec())
        });
        assert_eq!(found.collect::<Vec<_>>(), rows.collect::<Vec<i64>>(), "{query}");
        assert_eq!(counted(plan.as_ref(), "stripes_skipped"), skipped, "{query}");
    }
    Ok(())
}
