//! The function `now`, which the engine makes NULL after the year 2262.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::functions::datetime;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, exec_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The engine's function. Causes an error if nanoseconds cannot represent the time of the query.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Now {
    engines: Arc<ScalarUDF>,
}

impl Default for Now {
    fn default() -> Self {
        Self { engines: datetime::now(&ConfigOptions::default()) }
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn aliases(&self) -> &[String] {
        self.engines.aliases()
    }

    fn signature(&self) -> &Signature {
        self.engines.signature()
    }

    /// Returns the function in the time zone of the session.
    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(ScalarUDF::from(Self { engines: datetime::now(config) }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.engines.return_field_from_args(args)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engines.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.engines.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match info.query_execution_start_time() {
            Some(time) if time.timestamp_nanos_opt().is_none() => exec_err!(
                "now() is in nanoseconds, which end on 2262-04-11, and the clock says {time}: write the time as a literal"
            ),
            _ => self.engines.simplify(args, info),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engines.documentation()
    }
}

#[cfg(test)]
mod tests {
    use chrono::{TimeZone as _, Utc};

    use super::*;

    #[test]
    fn a_clock_after_nanoseconds_is_an_error() {
        let now = |year| {
            let time = Utc.with_ymd_and_hms(year, 1, 1, 0, 0, 0).single();
            let info = SimplifyContext::builder().with_query_execution_start_time(time).build();
            Now::default().simplify(Vec::new(), &info)
        };
        assert!(matches!(now(2262), Ok(ExprSimplifyResult::Simplified(Expr::Literal(time, _))) if !time.is_null()));
        assert!(now(2263).is_err_and(|error| error.to_string().contains("2263")));
    }
}
