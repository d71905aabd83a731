//! `now()`, `current_date` and `current_time` at a time of the session's, whenever a query is planned.
//!
//! The engine takes the time at which it makes a plan. A query that is planned again, after its rows were counted or in
//! another process, would ask for other rows than before. And it makes `now()` NULL after the year 2262, here an error.
//!
//! Upstream: ours (tasks plan what another process has planned). Held by `a_plan_keeps_its_time` in `tests/tests/it/tasks.rs`.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use chrono::{DateTime, Utc};
use datafusion::execution::{FunctionRegistry as _, SessionState};
use datafusion::functions::datetime;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, exec_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The function whose result has nanoseconds.
const NOW: &str = "now";

/// The functions that return the time of the query.
const FUNCTIONS: [&str; 3] = [NOW, "current_date", "current_time"];

/// Returns the functions to register in place of the engine's. They return the time of the plan.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    of_time(None).collect()
}

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
    for function in of_time(Some(time)) {
        // In the time zone of the session.
        let zoned = function.inner().with_updated_config(state.config_options());
        state.register_udf(zoned.map_or(function, Arc::new))?;
    }
    Ok(())
}

fn of_time(time: Option<DateTime<Utc>>) -> impl Iterator<Item = Arc<ScalarUDF>> {
    let engines = datetime::functions().into_iter().filter(|function| FUNCTIONS.contains(&function.name()));
    engines.map(move |inner| Arc::new(ScalarUDF::new_from_impl(OfTime { inner, time })))
}

/// One of the engine's functions, at a fixed time or that of the plan.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfTime {
    inner: Arc<ScalarUDF>,
    time: Option<DateTime<Utc>>,
}

impl ScalarUDFImpl for OfTime {
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
        let time = self.time.or(info.query_execution_start_time());
        if let Some(time) = time.filter(|time| self.name() == NOW && time.timestamp_nanos_opt().is_none()) {
            return exec_err!(
                "now() is in nanoseconds, which end on 2262-04-11, and the clock says {time}: write the time as a literal"
            );
        }
        let info = SimplifyContext::builder()
            .with_config_options(Arc::clone(info.config_options()))
            .with_schema(Arc::clone(info.schema()))
            .with_query_execution_start_time(time)
            .build();
        self.inner.simplify(args, &info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone as _;

    use super::*;

    #[test]
    fn a_clock_after_nanoseconds_is_an_error() {
        let now = of_time(None).find(|function| function.name() == NOW).expect("the engine has it");
        let at = |year| {
            let time = Utc.with_ymd_and_hms(year, 1, 1, 0, 0, 0).single();
            let info = SimplifyContext::builder().with_query_execution_start_time(time).build();
            now.simplify(Vec::new(), &info)
        };
        assert!(matches!(at(2262), Ok(ExprSimplifyResult::Simplified(Expr::Literal(time, _))) if !time.is_null()));
        assert!(at(2263).is_err_and(|error| error.to_string().contains("2263")));
    }
}
