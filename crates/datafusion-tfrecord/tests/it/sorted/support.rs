//! Sessions with little memory, and the contents of a set on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{SplitOptions, TfRecordCommitExec, TfRecordWriteExec};
use tfrecord_shards::MANIFEST_NAME;

use super::super::support::{Pace, Partitions, session};

/// Creates a session with table `t` and this many bytes of memory.
pub(super) fn small_session(partitions: &Partitions, pace: Pace, memory: usize) -> Result<SessionContext> {
    let state = session(partitions, pace)?.state();
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(memory))).build_arc()?;
    let builder = datafusion::execution::SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime);
    Ok(SessionContext::new_with_state(builder.build()))
}

/// Returns a metric of a plan's write node.
pub(super) fn counted(plan: &Arc<TfRecordCommitExec>, name: &str) -> usize {
    fn find(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<usize> {
        if plan.is::<TfRecordWriteExec>() {
            return Some(plan.metrics()?.sum(|metric| metric.value().name() == name)?.as_usize());
        }
        plan.children().into_iter().find_map(|child| find(child, name))
    }
    find(&(Arc::clone(plan) as _), name).unwrap_or(0)
}

/// Returns every file under a directory but the manifest, by its relative path, with its bytes.
pub(super) fn tree(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else if entry.file_name() != MANIFEST_NAME {
                let path = entry.path();
                let name = path.strip_prefix(dir).expect("below").to_string_lossy().into_owned();
                files.insert(name, fs::read(path)?);
            }
        }
    }
    Ok(files)
}

pub(super) fn splits(splits: &str, by: &[&str]) -> Option<SplitOptions> {
    let by = by.iter().map(|column| (*column).to_owned()).collect();
    Some(SplitOptions::Hash { splits: splits.parse().expect("splits"), by })
}
