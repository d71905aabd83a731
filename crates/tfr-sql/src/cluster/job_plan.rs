//! [`JobPlan`]: what the workers of a job plan again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tfr_stores::Door;

use crate::error::{Error, Result};
use crate::tasks::plan_file::PlanFile;
use crate::tasks::stored_query::StoredQuery;

/// What the workers of a job plan again, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub enum JobPlan {
    /// The rows of a query, to be written.
    Write(Box<PlanFile>),
    /// The columns of a query whose distinct values are its vocabularies.
    Values(StoredQuery),
    /// The number of rows of a query.
    Count(StoredQuery),
}

impl JobPlan {
    /// Returns the query.
    pub fn query(&self) -> &StoredQuery {
        match self {
            Self::Write(plan) => &plan.query,
            Self::Values(query) | Self::Count(query) => query,
        }
    }

    /// Checks that the door allows the places that are written to.
    ///
    /// # Errors
    /// One of them is outside.
    pub fn check_places(&self, door: &Door) -> Result<()> {
        match self {
            Self::Write(plan) => plan.check_places(door),
            Self::Values(_) | Self::Count(_) => Ok(()),
        }
    }

    /// Returns the plan as JSON.
    ///
    /// # Errors
    /// The plan cannot be serialized, which is a bug.
    pub fn to_json(&self) -> Result<Arc<[u8]>> {
        let json =
            serde_json::to_vec(self).map_err(|source| Error::Start { what: "the job", source: source.into() })?;
        Ok(json.into())
    }

    /// Parses a plan that another process has sent.
    ///
    /// # Errors
    /// It is of another release.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|source| Error::Start { what: "the job", source: source.into() })
    }
}
