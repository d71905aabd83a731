//! Variance, standard deviation, covariance, correlation and linear regression, by the rules of PostgreSQL.
//!
//! * The engine subtracts the rows that leave a moving frame: see [`moving`](crate::moving).
//! * Its variance of one NaN or infinity was 0, and its correlation over NaN was NULL. Both are NaN.
//! * It converts integers and decimals to doubles first. Here their variance and standard deviation are computed from
//!   exact sums, and rounded at the end.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/numbers.slt`: Variance and correlation.

mod accumulators;
mod exact;
mod floats;

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_intercept_udaf, regr_r2_udaf, regr_slope_udaf, regr_sxx_udaf, regr_sxy_udaf,
    regr_syy_udaf,
};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion_common::{Result, plan_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::format_state_name;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, Signature, Volatility,
};
use tfr_arrow::nested::value_type;

use crate::moving::Moving;
use accumulators::{Distinct, Groups, Whole};
use exact::{ExactMoments, Scaled};
use floats::Moments;

/// Returns the aggregates to register in place of the engine's.
pub fn exact_moments() -> Vec<Arc<AggregateUDF>> {
    use Statistic::{
        AverageX, AverageY, Correlation, CovariancePop, CovarianceSamp, Intercept, R2, Slope, StddevPop, StddevSamp,
        Sxx, Sxy, Syy, VariancePop, VarianceSamp,
    };
    let aggregates = [
        (var_pop_udaf(), VariancePop),
        (var_samp_udaf(), VarianceSamp),
        (stddev_pop_udaf(), StddevPop),
        (stddev_udaf(), StddevSamp),
        (covar_pop_udaf(), CovariancePop),
        (covar_samp_udaf(), CovarianceSamp),
        (corr_udaf(), Correlation),
        (regr_slope_udaf(), Slope),
        (regr_intercept_udaf(), Intercept),
        (regr_r2_udaf(), R2),
        (regr_avgx_udaf(), AverageX),
        (regr_avgy_udaf(), AverageY),
        (regr_sxx_udaf(), Sxx),
        (regr_syy_udaf(), Syy),
        (regr_sxy_udaf(), Sxy),
    ];
    aggregates
        .into_iter()
        .map(|(inner, statistic)| {
            let signature = match statistic.is_of_one_column() {
                true => Signature::user_defined(Volatility::Immutable),
                false => inner.signature().clone(),
            };
            Arc::new(AggregateUDF::new_from_impl(ExactMoment { inner, statistic, signature }))
        })
        .collect()
}

/// What is computed. Regressions are of `y` by `x`, which are the first and the second argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    VariancePop,
    VarianceSamp,
    StddevPop,
    StddevSamp,
    CovariancePop,
    CovarianceSamp,
    Correlation,
    Slope,
    Intercept,
    R2,
    AverageX,
    AverageY,
    Sxx,
    Syy,
    Sxy,
}

impl Statistic {
    fn is_of_one_column(self) -> bool {
        matches!(self, Self::VariancePop | Self::VarianceSamp | Self::StddevPop | Self::StddevSamp)
    }
}

/// An aggregate with the name of one of the engine's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactMoment {
    inner: Arc<AggregateUDF>,
    statistic: Statistic,
    signature: Signature,
}

/// Returns the scale of integers and decimals, whose sums are exact.
fn exact_scale(data_type: &DataType) -> Option<i8> {
    match *data_type {
        DataType::Int64 | DataType::UInt64 => Some(0),
        DataType::Decimal128(_, scale) => Some(scale),
        _ => None,
    }
}

impl ExactMoment {
    /// Returns the scale of the argument, if its sums are exact.
    fn scale(fields: &[FieldRef]) -> Option<i8> {
        match fields {
            [field] => exact_scale(field.data_type()),
            _ => None,
        }
    }

    fn scaled(&self, scale: i8) -> Scaled {
        Scaled { statistic: self.statistic, scale }
    }
}

impl AggregateUDFImpl for ExactMoment {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The types of the aggregates of one column.
    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        fn summed(data_type: &DataType) -> Option<DataType> {
            Some(match *value_type(data_type) {
                DataType::Decimal32(precision, scale)
                | DataType::Decimal64(precision, scale)
                | DataType::Decimal128(precision, scale) => DataType::Decimal128(precision, scale),
                ref data_type if data_type.is_unsigned_integer() => DataType::UInt64,
                ref data_type if data_type.is_signed_integer() => DataType::Int64,
                ref data_type if data_type.is_numeric() || data_type.is_null() => DataType::Float64,
                _ => return None,
            })
        }
        match arg_types {
            [data_type] => match summed(data_type) {
                Some(summed) => Ok(vec![summed]),
                None => plan_err!("{} is for numbers, not {data_type}", self.name()),
            },
            _ => plan_err!("{} takes one argument, not {}", self.name(), arg_types.len()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |(name, data_type): (&str, DataType)| {
            Arc::new(Field::new(format_state_name(args.name, name), data_type, true))
        };
        let is_exact = Self::scale(args.input_fields).is_some();
        if args.is_distinct {
            let item = if is_exact { exact::STATE } else { DataType::Float64 };
            return Ok(vec![field(("values", DataType::new_list(item, true)))]);
        }
        Ok(match is_exact {
            true => ExactMoments::state_types().map(field).to_vec(),
            false => Moments::state_types().map(field).to_vec(),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && !self.statistic.is_of_one_column() {
            return plan_err!("{}(DISTINCT ...) is not supported: use a subquery with SELECT DISTINCT", self.name());
        }
        Ok(match (Self::scale(args.expr_fields), args.is_distinct) {
            (Some(scale), false) => Box::new(Whole::<ExactMoments>::new(self.scaled(scale))),
            (Some(scale), true) => Box::new(Distinct::<ExactMoments>::new(self.scaled(scale))),
            (None, false) => Box::new(Whole::<Moments>::new(self.statistic)),
            (None, true) => Box::new(Distinct::<Moments>::new(self.statistic)),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{}(DISTINCT ...) over a window whose frame moves is not supported", self.name());
        }
        Ok(match Self::scale(args.expr_fields) {
            Some(scale) => Box::new(Moving::<ExactMoments>::new(self.scaled(scale))),
            None => Box::new(Moving::<Moments>::new(self.statistic)),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match Self::scale(args.expr_fields) {
            Some(scale) => Box::new(Groups::<ExactMoments>::new(self.scaled(scale))),
            None => Box::new(Groups::<Moments>::new(self.statistic)),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
