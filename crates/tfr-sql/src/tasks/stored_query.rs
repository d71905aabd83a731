//! [`StoredQuery`]: what another process must know to plan a query as this one has.

use std::env;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use clap::error::ErrorKind as UsageKind;
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};
use tfr_stores::{Door, redacted};

use super::planned_rows::Rows;
use super::rows_digest::RowsDigest;
use crate::access;
use crate::cli::{Cli, HiveArgs, QueryArgs};
use crate::error::{Result, TaskError};

/// A query, as another process of the same release can plan it again, and its plan to compare that with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredQuery {
    /// The directory that relative paths refer to.
    directory: PathBuf,
    /// The arguments of the command, without the program name.
    arguments: Vec<String>,
    /// What the environment of the process that planned allowed, if it did not allow everything.
    allow: Option<Vec<String>>,
    /// The SQL text.
    sql: String,
    /// The time of the query, which `now()` returns.
    time: DateTime<Utc>,
    partitions: NonZeroUsize,
    /// The rows to write or to examine.
    rows: ExpectedRows,
}

/// The plan of the rows that another process must have.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExpectedRows {
    /// In full: a file has room for it, and errors can name both states of an input.
    Whole(Rows),
    /// A digest: every task of a cluster carries it.
    Digest(RowsDigest),
}

impl StoredQuery {
    /// Describes a query: the arguments of the command, its text and time, the number of partitions, and its rows.
    ///
    /// # Errors
    /// The query contains a password, or an argument is not Unicode.
    pub fn new(
        arguments: &[OsString],
        sql: &str,
        time: DateTime<Utc>,
        partitions: NonZeroUsize,
        rows: ExpectedRows,
    ) -> Result<Self> {
        let secret = |text: &str| redacted(text) != text;
        let text = |argument: &OsString| match argument.to_str() {
            Some(text) if secret(text) => Err(TaskError::NotStored { what: redacted(text).into_owned() }),
            Some(text) => Ok(text.to_owned()),
            None => Err(TaskError::NotStored { what: argument.display().to_string() }),
        };
        let mut arguments = arguments.iter().skip(1).map(text).collect::<Result<Vec<_>, _>>()?;
        // Tasks may have another environment.
        if let Some(addresses) = HiveArgs::of_environment() {
            arguments.insert(0, format!("--hive-metastore={addresses}"));
        }
        if secret(sql) {
            return Err(TaskError::NotStored { what: "a URL with a user, a password or a query".to_owned() }.into());
        }
        let here = |source| TaskError::Directory { path: PathBuf::from("."), source };
        let directory = env::current_dir().map_err(here)?;
        let allow = access::environment()?;
        Ok(Self { directory, arguments, allow, sql: sql.to_owned(), time, partitions, rows })
    }

    /// Checks that a plan has the rows of this one. With `is_planned`, the files of scans that are replayed are not compared.
    pub fn check_rows(&self, plan: &Arc<dyn ExecutionPlan>, is_planned: bool) -> Result<()> {
        let found = Rows::of(plan, is_planned)?;
        match &self.rows {
            ExpectedRows::Whole(rows) => rows.check(&found)?,
            ExpectedRows::Digest(digest) => digest.check(&found)?,
        }
        Ok(())
    }

    /// Returns the number of tasks.
    pub fn tasks(&self) -> u32 {
        match &self.rows {
            ExpectedRows::Whole(rows) => rows.tasks,
            ExpectedRows::Digest(digest) => digest.tasks(),
        }
    }

    /// Returns the time of the query.
    pub fn time(&self) -> DateTime<Utc> {
        self.time
    }

    /// Returns the number of partitions of the query.
    pub fn partitions(&self) -> NonZeroUsize {
        self.partitions
    }

    /// Changes to the directory of the query, and returns its arguments and its text, and what it was allowed to open.
    pub fn arguments_there(&self) -> Result<(QueryArgs, String, Door)> {
        let of_directory = |source| TaskError::Directory { path: self.directory.clone(), source };
        env::set_current_dir(&self.directory).map_err(of_directory)?;
        self.arguments()
    }

    /// Like [`arguments_there`](Self::arguments_there), but the directory need not exist here: only relative paths need
    /// it.
    pub fn arguments_anywhere(&self) -> Result<(QueryArgs, String, Door)> {
        let _missing = env::set_current_dir(&self.directory);
        self.arguments()
    }

    fn arguments(&self) -> Result<(QueryArgs, String, Door)> {
        let arguments = ["tfr-sql"].into_iter().chain(self.arguments.iter().map(String::as_str)).map(OsString::from);
        let cli = Cli::parse(arguments.collect(), None).map_err(|error| {
            let what = match error.kind() {
                UsageKind::DisplayHelp | UsageKind::DisplayVersion => "help".to_owned(),
                _ => error.to_string(),
            };
            TaskError::NotStored { what }
        })?;
        let of_environment = access::door_to(self.allow.as_deref().unwrap_or_default())?;
        let door = access::door_to(&cli.allow.entries)?.and(&of_environment);
        Ok((cli.query, self.sql.clone(), door))
    }
}
