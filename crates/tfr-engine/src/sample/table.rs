//! [`SampledTable`]: a random sample of the rows of another table.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_common::plan_err;

use super::exec::{SampleExec, Size};

/// A random sample of a table's rows. Filters and limits are not passed on to the table: they apply to the sample.
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
        // A single partition has the rows in the order of the table.
        let mut state = state.clone();
        state.config_mut().options_mut().execution.target_partitions = 1;
        let input = self.table.scan(&state, projection, &[], None).await?;
        Ok(Arc::new(SampleExec::new(input, self.size, self.seed)))
    }
}
