//! [`Form`]: what becomes of the rows of a query. They are printed, described, or written to shards or a table.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::WriteOptions;
use datafusion_tfrecord::write::{Rejects, WriteTarget, local_inputs};
use futures::StreamExt as _;

use crate::cli::{QueryArgs, ReportFormat, TableTarget, Target};
use crate::cluster::{self, Cluster, ClusterQuery};
use crate::dry_run::DryRun;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::mapping::{self, Vocabularies};
use crate::print::print;
use crate::printer::Printer;
use crate::query::Query;
use crate::recorded;
use crate::report::Report;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use crate::table::{RejectedTable, WriteTable};
use crate::tasks::{self, TaskPlanning};
use crate::write::{self, WriteShards};

/// A run of the main job.
pub struct Job<'a> {
    pub args: &'a QueryArgs,
    /// The arguments of the command, from the program name on.
    pub arguments: &'a [OsString],
    /// The SQL text.
    pub text: &'a str,
    pub limits: Limits,
    pub context: SessionContext,
    pub spill: &'a SpillDirectory,
    pub printer: &'a Printer,
    pub interrupt: &'a Interrupt,
    /// When the command started.
    pub started: Instant,
}

/// What becomes of the rows of a query.
#[async_trait(?Send)]
pub trait Form {
    /// Runs the query, if that is needed. Returns the report of what was written, if anything was; or the exit status
    /// after a signal.
    async fn run(&self, job: &Job<'_>, query: Query) -> Result<Result<Option<Report>, ExitStatus>>;
}

/// Returns the form that the command line asks for.
pub fn form(args: &QueryArgs, cluster: Option<Arc<dyn Cluster>>) -> Box<dyn Form + '_> {
    let output = &args.output;
    match (output.target(), &output.plan, cluster) {
        (target, ..) if output.dry_run => Box::new(Described(target)),
        (Some(Target::Shards(out)), Some(file), _) => Box::new(ToPlanFile { out, file }),
        (Some(Target::Shards(out)), None, Some(cluster)) => Box::new(OnCluster { out, cluster }),
        (Some(Target::Shards(out)), None, None) => Box::new(ToShards(out)),
        (Some(Target::Table(target)), ..) => Box::new(ToTable(target)),
        (None, ..) => Box::new(ToStdout),
    }
}

/// The rows are printed.
struct ToStdout;

#[async_trait(?Send)]
impl Form for ToStdout {
    async fn run(&self, job: &Job<'_>, query: Query) -> Result<Result<Option<Report>, ExitStatus>> {
        tokio::select! {
            printed = print(job.args.rows.format, &job.context, query, job.printer) => printed.map(|()| Ok(None)),
            status = job.interrupt.received() => Ok(Err(status)),
        }
    }
}

/// `--dry-run`: what would be written is printed.
struct Described<'a>(Option<&'a Target>);

#[async_trait(?Send)]
impl Form for Described<'_> {
    async fn run(&self, job: &Job<'_>, query: Query) -> Result<Result<Option<Report>, ExitStatus>> {
        let schema = query.physical.schema();
        let mapping = mapping::planned(mapping::options(&job.args.mapping, &schema)?, &schema);
        query.check_strict(mapping.strict)?;
        // The plan does not depend on the directory.
        let anywhere = WriteTarget::from(PathBuf::new());
        let out = match self.0 {
            Some(Target::Shards(out)) => Some(out),
            Some(Target::Table(_)) | None => None,
        };
        let mut options = write::options(job.args, job.limits, &query, out.unwrap_or(&anywhere), mapping);
        if out.is_some() {
            if let Some(rejects) = job.rejects(&options, &query)? {
                rejects.check()?;
                options.rejects = Some(job.rejecting(rejects));
            }
            tokio::select! {
                checked = write::check(&job.context, &query, options.clone()) => checked?,
                status = job.interrupt.received() => return Ok(Err(status)),
            }
        }
        let plan = DryRun::new(&options, &query, job.limits)?;
        let text = match job.args.rows.report {
            Some(ReportFormat::Json) => plan.report().to_json(),
            None => plan.to_string(),
        };
        job.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
        Ok(Ok(None))
    }
}

/// The rows are written to a table in another format.
struct ToTable<'a>(&'a TableTarget);

#[async_trait(?Send)]
impl Form for ToTable<'_> {
    async fn run(&self, job: &Job<'_>, query: Query) -> Result<Result<Option<Report>, ExitStatus>> {
        let &Job { limits, spill, printer, started, .. } = job;
        let mode = job.args.output.writing.options().mode;
        let write = WriteTable { target: self.0, mode, limits, spill, printer, started };
        Ok(write.run(&job.context, query, job.interrupt).await?.map(Some))
    }
}

/// The rows are written to shards.
struct ToShards<'a>(&'a WriteTarget);

#[async_trait(?Send)]
impl Form for ToShards<'_> {
    async fn run(&self, job: &Job<'_>, query: Query) -> Result<Result<Option<Report>, ExitStatus>> {
        match job.shards(self.0, &query, job.limits.partitions, job.collect(&query)).await? {
            Ok(write) => Ok(write.run(&job.context, query, job.interrupt).await?.map(Some)),
            Err(status) => Ok(Err(status)),
        }
    }
}

/// `--plan`: tasks of other processes write the rows to shards.
struct ToPlanFile<'a> {
    out: &'a WriteTarget,
    file: &'a Path,
}

#[async_trait(?Send)]
impl Form for ToPlanFile<'_> {
    async fn run(&self, job: &Job<'_>, query: Query) -> Result<Result<Option<Report>, ExitStatus>> {
        let &Job { arguments, text, limits, .. } = job;
        let write = match job.shards(self.out, &query, limits.partitions, job.collect(&query)).await? {
            Ok(write) => write,
            Err(status) => return Ok(Err(status)),
        };
        let planning = TaskPlanning { arguments, text, partitions: limits.partitions, write };
        Ok(tasks::plan(self.file, planning, &job.context, query, job.interrupt).await?.map(|()| None))
    }
}

/// `--cluster`: the workers of a cluster write the rows to shards.
struct OnCluster<'a> {
    out: &'a WriteTarget,
    cluster: Arc<dyn Cluster>,
}

#[async_trait(?Send)]
impl Form for OnCluster<'_> {
    async fn run(&self, job: &Job<'_>, mut query: Query) -> Result<Result<Option<Report>, ExitStatus>> {
        let (context, &Job { arguments, text, .. }) = (&job.context, job);
        let schema = query.physical.schema();
        // Before the query is planned again for the cluster.
        query.check_strict(mapping::options(&job.args.mapping, &schema)?.strict)?;
        let partitions = match job.args.resources.partitions {
            Some(partitions) => partitions,
            None => cluster::divide(context, &mut query).await?,
        };
        let on_cluster = ClusterQuery { cluster: self.cluster.as_ref(), context, arguments, text, partitions };
        let collect = async |vocabularies: &mut Vocabularies| on_cluster.collect_values(&query, vocabularies).await;
        match job.shards(self.out, &query, partitions, collect).await? {
            Ok(write) => Ok(on_cluster.write(write, query, job.interrupt).await?.map(Some)),
            Err(status) => Ok(Err(status)),
        }
    }
}

impl<'a> Job<'a> {
    /// Prepares to write the rows to shards at `out`. `collect` collects vocabularies that the mapping lacks. Returns the
    /// exit status instead after a signal.
    async fn shards(
        &self,
        out: &WriteTarget,
        query: &Query,
        partitions: NonZeroUsize,
        collect: impl AsyncFnOnce(&mut Vocabularies) -> Result<()>,
    ) -> Result<Result<WriteShards<'a>, ExitStatus>> {
        let recorded = self.args.rebuilt.as_ref().and_then(|rebuilt| rebuilt.mapping.clone());
        let mapping = match recorded {
            Some(mapping) => mapping,
            None => mapping::options(&self.args.mapping, &query.physical.schema())?,
        };
        query.check_strict(mapping.strict)?;
        let mapping = tokio::select! {
            mapping = mapping::with_vocabularies(mapping, query, self.printer, collect) => mapping?,
            status = self.interrupt.received() => return Ok(Err(status)),
        };
        session::findings(&self.context).set_strict(mapping.strict);
        let mut options = write::options(self.args, self.limits, query, out, mapping);
        let arguments = recorded::arguments(self.arguments, self.text, partitions);
        options.recorded.insert(recorded::ARGUMENTS.to_owned(), arguments);
        let rejects = self.rejects(&options, query)?;
        options.rejects = rejects.clone().map(|rejects| self.rejecting(rejects));
        Ok(Ok(WriteShards { options, rejects, printer: self.printer, started: self.started }))
    }

    /// Returns the table of rows that do not fit, if the user wants one.
    fn rejects(&self, options: &WriteOptions, query: &Query) -> Result<Option<Arc<RejectedTable>>> {
        let Some(WriteTarget::Local(directory)) = &self.args.output.rejects else { return Ok(None) };
        let inputs = local_inputs(&query.physical, &options.inputs);
        let of_set = (&query.physical.schema(), &options.out, inputs);
        let resources = (self.context.state(), self.limits, Arc::clone(self.spill.place()));
        Ok(Some(Arc::new(RejectedTable::new(directory, options.mode, of_set, resources)?)))
    }

    fn rejecting(&self, table: Arc<RejectedTable>) -> Rejects {
        Rejects { most: self.args.output.max_rejects.unwrap_or(0), table }
    }

    /// Collects vocabularies in this process.
    fn collect<'b>(&'b self, query: &'b Query) -> impl AsyncFnOnce(&mut Vocabularies) -> Result<()> + 'b {
        async move |vocabularies: &mut Vocabularies| match self.args.output.rejects {
            Some(_) => self.collect_fitting(query, vocabularies).await,
            None => mapping::collect(&self.context, query, vocabularies).await,
        }
    }

    /// Collects the vocabularies of the rows that fit. Every text is in its vocabulary, so that these are the rows that
    /// fit if the columns are texts.
    async fn collect_fitting(&self, query: &Query, vocabularies: &mut Vocabularies) -> Result<()> {
        let schema = query.physical.schema();
        let mut mapping = mapping::options(&self.args.mapping, &schema)?;
        mapping.choices.retain(|name, _| !vocabularies.names().contains(&name.as_str()));
        let Some(Target::Shards(out)) = self.args.output.target() else { return Ok(()) };
        let mut options = write::options(self.args, self.limits, query, out, mapping);
        options.rejects = self.rejects(&options, query)?.map(|rejects| self.rejecting(rejects));
        let mut batches = write::fitting(&self.context, query, &options).await?;
        while let Some(batch) = batches.next().await {
            vocabularies.observe_rows(&batch?)?;
        }
        Ok(())
    }
}
