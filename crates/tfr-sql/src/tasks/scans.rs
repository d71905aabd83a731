//! The scans of a plan whose files another process has listed and read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};
use datafusion::prelude::SessionContext;
use futures::{StreamExt as _, TryStreamExt as _};
use tfr_files::planned::{self, PlannedScans};
use tfr_stores::Change;

use super::partitions::BY_PARTITION;
use super::plan_file::PlanFile;
use super::planned_rows::{file_name, state};
use crate::error::{Error, Result, TaskError};

/// Partitions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partitions {
    All,
    One(usize),
    None,
}

/// Returns a plan whose replayed scans read the files of the plan file: those of the partition `task`, or of all. Files
/// of other partitions are not read, and not compared with their planned states.
///
/// # Errors
/// A file has changed since the tasks were planned, or the plan file is damaged.
pub async fn with_files_of(
    plan: &Arc<dyn ExecutionPlan>,
    task: Option<u32>,
    (file, scans): (&PlanFile, &PlannedScans),
    context: &SessionContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wanted = task.map_or(Partitions::All, |task| Partitions::One(task as usize));
    let mut listed: BTreeMap<ObjectStoreUrl, Vec<ObjectMeta>> = BTreeMap::new();
    let plan = replaced(plan, wanted, &mut |number, config, wanted| {
        let groups = scans.groups(number).collect::<Vec<_>>();
        if groups.len() != config.file_groups.len() {
            let (expected, found) = (groups.len().to_string(), config.file_groups.len().to_string());
            return Err(TaskError::Plan { expected, found }.into());
        }
        let group = |(partition, index): (usize, usize)| -> Result<FileGroup> {
            let is_wanted = wanted == Partitions::All || wanted == Partitions::One(partition);
            if !is_wanted {
                return Ok(FileGroup::default());
            }
            Ok(planned::decode_group(&file.group(index)?, config.file_source().table_schema())?)
        };
        let groups = groups.into_iter().enumerate().map(group).collect::<Result<Vec<_>>>()?;
        let metas = groups.iter().flat_map(FileGroup::iter).map(|file| file.object_meta.clone());
        listed.entry(config.object_store_url.clone()).or_default().extend(metas);
        Ok(planned::with_files(config, groups)?)
    })?;
    let concurrency = context.state().config_options().execution.meta_fetch_concurrency.get();
    for (url, metas) in listed {
        let store = context.runtime_env().object_store(&url)?;
        let mut names = BTreeSet::new();
        let once = metas.into_iter().filter(|meta| names.insert(meta.location.clone())).collect::<Vec<_>>();
        let checks = once.into_iter().map(|planned| {
            let store = Arc::clone(&store);
            async move { Ok::<_, Error>((head(store.as_ref(), &planned.location).await?, planned)) }
        });
        let mut checks = futures::stream::iter(checks).buffered(concurrency);
        while let Some((found, planned)) = checks.try_next().await? {
            if !found.as_ref().is_some_and(|found| is_same(&url, &planned, found)) {
                let found = found.map_or_else(|| "no such file".to_owned(), |found| state(&url, &found));
                let (file, expected) = (file_name(&url, &planned), state(&url, &planned));
                return Err(TaskError::Input { file, expected, found }.into());
            }
        }
    }
    Ok(plan)
}

/// Whether a file is in its planned state.
fn is_same(store: &ObjectStoreUrl, planned: &ObjectMeta, found: &ObjectMeta) -> bool {
    match *store == ObjectStoreUrl::local_filesystem() {
        // The tag of a local file contains its inode, which differs between copies, and between mounts.
        true => (planned.size, planned.last_modified) == (found.size, found.last_modified),
        false => Change::between(planned, found).is_none(),
    }
}

async fn head(store: &dyn ObjectStore, path: &Path) -> Result<Option<ObjectMeta>> {
    match store.head(path).await {
        Ok(meta) => Ok(Some(meta)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(datafusion::error::DataFusionError::from(error).into()),
    }
}

/// Replaces the scans of a plan that are recorded or replayed. `replace` gets the number of each, and the partitions of it
/// that the `wanted` partitions of the plan need.
fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    wanted: Partitions,
    replace: &mut impl FnMut(usize, &FileScanConfig, Partitions) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some((number, config)) = planned::scan_of(plan) {
        return replace(number, config, wanted);
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(Arc::clone(plan));
    }
    let mut first = 0;
    let mut replaced_children = Vec::with_capacity(children.len());
    for (index, child) in children.into_iter().enumerate() {
        let partitions = child.output_partitioning().partition_count();
        let wanted = of_child(plan, wanted, index, first..first + partitions);
        first += partitions;
        replaced_children.push(replaced(child, wanted, replace)?);
    }
    Ok(replace_children_if_necessary(Arc::clone(plan), replaced_children)?)
}

/// Returns the partitions of an operator's input that some of its own need. `place` are the numbers of the input's
/// partitions among those of all inputs.
fn of_child(
    plan: &Arc<dyn ExecutionPlan>,
    wanted: Partitions,
    index: usize,
    place: std::ops::Range<usize>,
) -> Partitions {
    let Partitions::One(partition) = wanted else { return wanted };
    let joins = plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.downcast_ref::<HashJoinExec>().is_some_and(|join| *join.partition_mode() == PartitionMode::CollectLeft);
    if plan.is::<UnionExec>() {
        let is_here = place.contains(&partition);
        return if is_here { Partitions::One(partition - place.start) } else { Partitions::None };
    }
    // A single partition is computed as a whole.
    let is_single = plan.output_partitioning().partition_count() == 1;
    match !is_single && ((joins && index == 1) || BY_PARTITION.contains(&plan.name())) {
        true => wanted,
        false => Partitions::All,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    fn rows(partitions: usize) -> Arc<dyn ExecutionPlan> {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
        Arc::new(EmptyExec::new(Arc::new(schema)).with_partitions(partitions))
    }

    #[test]
    fn task_reads_the_partitions_that_its_own_needs() {
        use Partitions::{All, None, One};

        let union = UnionExec::try_new(vec![rows(2), rows(3)]).unwrap();
        assert_eq!([of_child(&union, One(1), 0, 0..2), of_child(&union, One(1), 1, 2..5)], [One(1), None]);
        assert_eq!([of_child(&union, One(4), 0, 0..2), of_child(&union, One(4), 1, 2..5)], [None, One(2)]);
        assert_eq!(of_child(&union, All, 0, 0..2), All);
        let single: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(rows(3)));
        assert_eq!(of_child(&single, One(0), 0, 0..3), All);
        let join: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(single, rows(3)));
        assert_eq!([of_child(&join, One(2), 0, 0..1), of_child(&join, One(2), 1, 1..4)], [All, One(2)]);
        assert_eq!(of_child(&join, None, 0, 0..1), None);
    }
}
