//! `now()`, `current_date` and `current_time` at a time of the session's, whenever a query is planned.
//!
//! The engine takes the time at which it makes a plan. A query that is planned again, after its rows were counted or in
//! another process, would ask for other rows than before.
//!
//! Upstream: ours (tasks plan what another process has planned). Held by `a_plan_keeps_its_time` in `tests/tests/it/tasks.rs`.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use chrono::{DateTime, Utc};
use datafusion::execution::{FunctionRegistry as _, SessionState};
use datafusion_common::Result;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The functions that return the time of the query.
const FUNCTIONS: [&str; 3] = ["now", "current_date", "current_time"];

/// Makes `time` the time of all queries of a session.
///
/// ```
/// # use datafusion::execution::SessionStateBuilder;
/// # use datafusion::prelude::SessionContext;
/// # #[tokio::main]
/// # async fn main() -> datafusion::error::Result<()> {
/// let builder = SessionStateBuilder::new().with_default_features();
/// let mut state = tfr_engine::exact(builder).build();
/// tfr_engine::at_time(&mut state, "2026-11-28T09:30:00Z".parse().expect("a time"))?;
/// let context = SessionContext::new_with_state(state);
/// let today = context.sql("SELECT CAST(current_date AS VARCHAR) AS today").await?.to_string().await?;
/// assert!(today.contains("2026-11-28"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The session does not accept functions.
pub fn at_time(state: &mut SessionState, time: DateTime<Utc>) -> Result<()> {
    for name in FUNCTIONS {
        if let Some(inner) = state.scalar_functions().get(name).cloned() {
            state.register_udf(Arc::new(ScalarUDF::new_from_impl(AtTime { inner, time })))?;
        }
    }
    Ok(())
}

/// One of the engine's functions, at a fixed time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AtTime {
    inner: Arc<ScalarUDF>,
    time: DateTime<Utc>,
}

impl ScalarUDFImpl for AtTime {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self { inner, time: self.time }))
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let config = Arc::clone(info.config_options());
        let info = SimplifyContext::builder()
            .with_config_options(config)
            .with_schema(Arc::clone(info.schema()))
            .with_query_execution_start_time(Some(self.time))
            .build();
        self.inner.simplify(args, &info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
