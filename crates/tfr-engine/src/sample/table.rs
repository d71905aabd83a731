//! [`SampledTable`]: a table with a random part of the rows of another.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_common::plan_err;

use super::exec::SampleExec;

/// How many rows a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Each row with the same probability: how many of the 2^64 hashes are selected, `None` for all.
    Share(Option<u64>),
    /// Exactly this number of rows, or all if there are fewer.
    Rows(usize),
}

impl Size {
    /// Each row with a probability of `percent` / 100.
    pub fn percent(percent: f64) -> Self {
        const HASHES: f64 = 18_446_744_073_709_551_616.0;
        let selected = percent / 100.0 * HASHES;
        Self::Share((selected < HASHES).then_some(selected as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(None) => write!(f, "all rows"),
            Self::Share(Some(selected)) => write!(f, "{} percent", *selected as f64 / u64::MAX as f64 * 100.0),
            Self::Rows(rows) => write!(f, "{rows} rows"),
        }
    }
}

/// A random part of the rows of a table. Conditions and limits are not passed on to the table: they apply to the sample.
#[derive(Debug)]
pub struct SampledTable {
    table: Arc<dyn TableProvider>,
    size: Size,
    seed: u64,
}

impl SampledTable {
    pub fn new(table: Arc<dyn TableProvider>, size: Size, seed: u64) -> Self {
        Self { table, size, seed }
    }
}

#[async_trait]
impl TableProvider for SampledTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return plan_err!("TABLESAMPLE needs a session of the engine's own type");
        };
        // One partition has the rows in the order of the table.
        let mut state = state.clone();
        state.config_mut().options_mut().execution.target_partitions = 1;
        let input = self.table.scan(&state, projection, &[], None).await?;
        Ok(Arc::new(SampleExec::new(input, self.size, self.seed)))
    }
}
