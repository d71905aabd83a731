//! Files that are replaced or modified between their listing and the end of the scan: all rows are of one version, or
//! the file is named as changed.

mod versions;
mod web;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use tfr_formats::TableSpec;
use url::Url;

use crate::support::{chain, session, texts};
use versions::{NAMES, PART, content};
use web::{Tags, Web};

/// The rows of the second version: as many as the first has, more or fewer.
const ROWS: usize = 6 * PART;
const OTHER_ROWS: [usize; 3] = [ROWS, ROWS + 170, ROWS - 170];

/// Bytes of a row: files of `ROWS` rows are read in several pieces, those of a few rows at once.
const LEN: usize = 2000;

/// How a local file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replaced {
    Renamed,
    InPlace,
}

impl Replaced {
    /// Replaces the file at `path`.
    fn replace(self, path: &Path, content: &[u8]) -> Result<()> {
        match self {
            Self::Renamed => {
                let other = path.with_extension("new");
                write(&other, content, Duration::from_nanos(1))?;
                fs::rename(other, path)?;
            }
            Self::InPlace => write(path, content, Duration::from_nanos(1))?,
        }
        Ok(())
    }
}

/// Writes a file that was modified at a fixed time, and so long after it.
fn write(path: &Path, content: &[u8], later: Duration) -> Result<()> {
    fs::write(path, content)?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000) + later;
    File::options().write(true).open(path)?.set_modified(time)?;
    Ok(())
}

fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(["t.tfrecord"])
}

/// Creates a session with small batches that divides files of any size.
fn small(partitions: usize) -> SessionContext {
    let ctx = session(partitions);
    let state = ctx.state_ref();
    let config = state.read().config().clone().with_batch_size(PART).with_repartition_file_min_size(0);
    *state.write().config_mut() = config;
    ctx
}

async fn planned(ctx: &SessionContext, location: &str, name: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let format = match name {
        "t.hive" => ",format=hive-text",
        _ => "",
    };
    let spec: TableSpec = format!("t=\"{location}\"{format}").parse()?;
    let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
    ctx.read_table(table)?.create_physical_plan().await
}

/// Requires that the rows are all those of one version, with so many rows by version, and returns it. An error must be
/// that the file has changed.
fn version(found: Result<Vec<RecordBatch>>, rows: [usize; 2], case: &str) -> Result<Option<u8>> {
    let batches = match found {
        Ok(batches) => batches,
        Err(error) => {
            let message = chain(&error);
            let name = case.split(' ').next().unwrap_or_default();
            let is_changed = message.contains(&format!("{name}: the file changed while it was read: "));
            assert!(is_changed && !message.contains("damaged"), "{case}: {message}");
            return Ok(None);
        }
    };
    let texts = texts(&batches)?;
    let firsts: BTreeSet<_> = texts.iter().map(|row| row[0].as_bytes()[0] - b'0').collect();
    assert_eq!(firsts.len(), 1, "{case}: rows of both versions");
    let version = firsts.into_iter().next().unwrap_or_default();
    assert_eq!(texts.len(), rows[usize::from(version) - 1], "{case}: rows of version {version}");
    Ok(Some(version))
}

/// Reads the file, which is replaced after `after` batches.
async fn replaced_after(
    path: &Path,
    name: &str,
    after: usize,
    replace: impl FnOnce() -> Result<()>,
) -> Result<Vec<RecordBatch>> {
    let ctx = small(1);
    let plan = planned(&ctx, &path.display().to_string(), name).await?;
    let mut batches = Vec::new();
    // Nothing is read before the first batch.
    let mut stream = plan.execute(0, ctx.task_ctx())?;
    for _ in 0..after {
        batches.extend(stream.next().await.transpose()?);
    }
    replace()?;
    batches.extend(stream.try_collect::<Vec<_>>().await?);
    Ok(batches)
}

#[tokio::test]
async fn local_files_are_read_in_one_version() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for name in names() {
        let path = dir.path().join(name);
        let first = content(name, 1, ROWS, LEN)?;
        for rows in OTHER_ROWS {
            let second = content(name, 2, rows, LEN)?;
            assert_eq!(rows == ROWS, first.len() == second.len(), "{name}");
            for replaced in [Replaced::Renamed, Replaced::InPlace] {
                for after in [0, 1, 2, ROWS / PART] {
                    write(&path, &first, Duration::ZERO)?;
                    let case = format!("{name} {replaced:?} by {rows} rows after {after} batches");
                    let found = replaced_after(&path, name, after, || replaced.replace(&path, &second)).await;
                    let version = version(found, [ROWS, rows], &case)?;
                    match (after, replaced) {
                        (0, _) => assert_eq!(version, None, "{case}"),
                        // The file is open.
                        (_, Replaced::Renamed) => assert_eq!(version, Some(1), "{case}"),
                        (_, Replaced::InPlace) => assert_ne!(version, Some(2), "{case}"),
                    }
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn parts_of_local_files_are_of_one_version() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for name in names() {
        let path = dir.path().join(name);
        let (first, second) = (content(name, 1, ROWS, LEN)?, content(name, 2, ROWS, LEN)?);
        for replaced in [Replaced::Renamed, Replaced::InPlace] {
            write(&path, &first, Duration::ZERO)?;
            let ctx = small(3);
            let plan = planned(&ctx, &path.display().to_string(), name).await?;
            let found = async {
                let mut batches = Vec::new();
                let mut replace = Some(|| replaced.replace(&path, &second));
                for partition in 0..plan.properties().output_partitioning().partition_count() {
                    let mut stream = plan.execute(partition, ctx.task_ctx())?;
                    batches.extend(stream.next().await.transpose()?);
                    replace.take().map(|replace| replace()).transpose()?;
                    batches.extend(stream.try_collect::<Vec<_>>().await?);
                }
                Ok(batches)
            };
            let version = version(found.await, [ROWS, ROWS], &format!("{name} {replaced:?} in parts"))?;
            assert_ne!(version, Some(2), "{name}");
        }
    }
    Ok(())
}

/// Every answer of a server is compared, whatever it knows about versions. Small files are fetched as a whole.
#[tokio::test]
async fn files_of_a_server_are_read_in_one_version() -> Result<()> {
    let url = Url::parse("http://host/").expect("a URL");
    for name in names() {
        for (rows_of_first, other_rows) in [(ROWS, OTHER_ROWS), (20, [20, 27, 13])] {
            let first = content(name, 1, rows_of_first, LEN)?;
            for rows in other_rows {
                let second = content(name, 2, rows, LEN)?;
                let tags = [(Tags::Strong, false), (Tags::Strong, true), (Tags::Weak, true), (Tags::Time, false)];
                // Only the same length needs tags or times.
                for (tags, honours) in tags.into_iter().take(if rows == rows_of_first { 4 } else { 1 }) {
                    for replaced_at in 0.. {
                        let web = Web::new(tags, honours, [first.clone(), second.clone()], replaced_at);
                        let ctx = small(1);
                        ctx.register_object_store(&url, Arc::clone(&web) as _);
                        let found = async {
                            let plan = planned(&ctx, &format!("http://host/{name}"), name).await?;
                            plan.execute(0, ctx.task_ctx())?.try_collect::<Vec<_>>().await
                        };
                        // The listing is of the second version, too.
                        let all_of_second = replaced_at == 0;
                        let case = format!("{name} {tags:?} {honours} by {rows} rows at request {replaced_at}");
                        let version = version(found.await, [rows_of_first, rows], &case)?;
                        let was_replaced = web.gets() > replaced_at;
                        let expected = match was_replaced {
                            true if all_of_second => Some(2),
                            // Listed once more, when its format was known.
                            true if name == "t.tfrecord" && replaced_at == 1 => Some(2),
                            true => None,
                            false => Some(1),
                        };
                        assert_eq!(version, expected, "{case} of {}", web.gets());
                        if !was_replaced {
                            break;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
