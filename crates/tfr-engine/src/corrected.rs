//! [`Corrected`]: a function of the engine whose results are corrected for some types of arguments.
//!
//! The planner of the engine calls some of its functions directly, without a look at those of the session.
//! [`CorrectedCalls`] replaces these calls.
//!
//! Upstream: ours (shared by other modules). Held by `tests/slt/lists.slt`: Lengths and positions are BIGINT.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature,
};

use crate::expressions::rewrite_types;

/// What differs from a function of the engine.
pub(crate) trait Correction: Debug + Send + Sync + 'static {
    /// Returns the types to coerce arguments to, or `None` for the engine's.
    fn coerce(&self, _engine: &ScalarUDF, _types: &[DataType]) -> Result<Option<Vec<DataType>>> {
        Ok(None)
    }

    /// Returns the type of the result for coerced arguments, or `None` for the engine's.
    fn return_type(&self, _engine: &ScalarUDF, _types: &[DataType]) -> Result<Option<DataType>> {
        Ok(None)
    }

    /// Computes the results.
    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue>;

    /// Whether the engine's simplifications of calls hold.
    fn simplifies_as_engine(&self) -> bool {
        false
    }
}

/// A function of the engine, by its name and with its documentation.
#[derive(Debug)]
pub(crate) struct Corrected {
    engine: Arc<ScalarUDF>,
    correction: &'static dyn Correction,
    signature: Signature,
}

impl Corrected {
    pub(crate) fn function(engine: Arc<ScalarUDF>, correction: &'static dyn Correction) -> Arc<ScalarUDF> {
        let of_engine = engine.signature();
        let signature = Signature {
            type_signature: TypeSignature::UserDefined,
            volatility: of_engine.volatility,
            parameter_names: of_engine.parameter_names.clone(),
        };
        Arc::new(ScalarUDF::new_from_impl(Self { engine, correction, signature }))
    }
}

impl PartialEq for Corrected {
    fn eq(&self, other: &Self) -> bool {
        self.engine == other.engine
    }
}

impl Eq for Corrected {}

impl Hash for Corrected {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.engine.hash(state);
    }
}

impl ScalarUDFImpl for Corrected {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn aliases(&self) -> &[String] {
        self.engine.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match self.correction.coerce(&self.engine, types)? {
            Some(coerced) => Ok(coerced),
            None => coerced_by(&self.engine, types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.correction.return_type(&self.engine, types)? {
            Some(corrected) => Ok(corrected),
            None => self.engine.return_type(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.correction.return_type(&self.engine, &types)? {
            Some(corrected) => Ok(Arc::new(Field::new(self.name(), corrected, true))),
            None => self.engine.return_field_from_args(args),
        }
    }

    fn is_strict(&self) -> bool {
        self.engine.is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.correction.simplifies_as_engine() {
            true => self.engine.simplify(args, info),
            false => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn short_circuits(&self) -> bool {
        self.engine.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.engine.conditional_arguments(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.correction.invoke(&self.engine, args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engine.documentation()
    }
}

/// Returns the types that a function coerces its arguments to.
pub(crate) fn coerced_by(function: &ScalarUDF, types: &[DataType]) -> Result<Vec<DataType>> {
    let fields: Vec<FieldRef> =
        types.iter().map(|data_type| Arc::new(Field::new("argument", data_type.clone(), true))).collect();
    let coerced = fields_with_udf(&fields, function)?;
    Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
}

/// Computes results from arrays of one length. Returns a scalar if all arguments are.
pub(crate) fn on_arrays(
    args: &[ColumnarValue],
    compute: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_scalar = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let result = compute(&ColumnarValue::values_to_arrays(args)?)?;
    Ok(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

/// Replaces calls of the engine's functions by their corrections.
#[derive(Debug)]
pub(crate) struct CorrectedCalls(HashMap<String, Arc<ScalarUDF>>);

impl CorrectedCalls {
    pub(crate) fn new(functions: impl IntoIterator<Item = Arc<ScalarUDF>>) -> Self {
        Self(functions.into_iter().map(|function| (function.name().to_owned(), function)).collect())
    }

    /// Returns the correction of a function, if it is the engine's. Users may register functions of the same names.
    fn of(&self, function: &ScalarUDF) -> Option<&Arc<ScalarUDF>> {
        let corrected = self.0.get(function.name())?;
        let engine = &corrected.inner().downcast_ref::<Corrected>()?.engine;
        (engine.as_ref() == function).then_some(corrected)
    }
}

impl AnalyzerRule for CorrectedCalls {
    fn name(&self) -> &str {
        "corrected_calls"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_types(plan, |expr, _| match expr {
            Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match self.of(&func) {
                Some(corrected) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(corrected), args }))
                }
                None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }),
            other => Ok(Transformed::no(other)),
        })
    }
}
