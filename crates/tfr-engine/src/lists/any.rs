//! [`AnyItem`]: `x < ANY(list)` and other comparisons with the items of a list.
//!
//! The engine compares with the least or greatest item, and so ignores NULL: `1 < ANY([0, NULL])` was false. It is
//! unknown. The parser rewrites `x < ALL(list)` to `NOT x >= ANY(list)`.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow_schema::DataType;
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::functions_nested::make_array::MakeArray;
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::expr::InList;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::rows::{ListRows, comparator};
use crate::comparable::values::may_be_misread;
use crate::corrected::coerced_by;
use crate::numbers;

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Comparison {
    const ALL: [Self; 6] = [Self::Eq, Self::NotEq, Self::Lt, Self::LtEq, Self::Gt, Self::GtEq];

    /// Returns the comparison that is true where this one is false.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Eq => Self::NotEq,
            Self::NotEq => Self::Eq,
            Self::Lt => Self::GtEq,
            Self::LtEq => Self::Gt,
            Self::Gt => Self::LtEq,
            Self::GtEq => Self::Lt,
        }
    }

    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => order.is_eq(),
            Self::NotEq => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::LtEq => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::GtEq => order.is_ge(),
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
        }
    }
}

/// Whether a value compares with any item of a list. Unknown if it does not and the value or an item is NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnyItem {
    comparison: Comparison,
    signature: Signature,
}

impl AnyItem {
    pub(super) fn functions() -> [Arc<ScalarUDF>; 6] {
        Comparison::ALL.map(|comparison| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Self { comparison, signature }))
        })
    }

    /// Returns the name of the function in plans.
    pub(crate) fn name_of(comparison: Comparison) -> &'static str {
        match comparison {
            Comparison::Eq => "equals_any",
            Comparison::NotEq => "differs_from_any",
            Comparison::Lt => "is_less_than_any",
            Comparison::LtEq => "is_at_most_any",
            Comparison::Gt => "is_greater_than_any",
            Comparison::GtEq => "is_at_least_any",
        }
    }
}

impl ScalarUDFImpl for AnyItem {
    fn name(&self) -> &str {
        Self::name_of(self.comparison)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value, list] => {
                Ok(format!("{} {} ANY({})", value.schema_name(), self.comparison.symbol(), list.schema_name()))
            }
            _ => exec_err!("{} takes a value and a list", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [value, list] if is_list(list) => {
                if let Some((value, list)) = numbers::element_and_list(value, list) {
                    return Ok(vec![value, list]);
                }
                let mut coerced = coerced_by(&array_has_udf(), &[list.clone(), value.clone()])?;
                coerced.reverse();
                Ok(coerced)
            }
            // The engine would replace an error by its own. `return_type` reports it.
            _ => Ok(types.to_vec()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, list] if is_list(list) => Ok(DataType::Boolean),
            [_, list] => plan_err!(
                "ANY and ALL take a list or a subquery, found {list}; write x {} y for one value",
                self.comparison.symbol()
            ),
            _ => plan_err!("ANY and ALL compare a value with a list"),
        }
    }

    /// Searches in a constant list are `x IN (...)`, which filters of files use.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [value, list] = args.as_slice() else { return Ok(ExprSimplifyResult::Original(args)) };
        let is_plain =
            info.get_data_type(value).is_ok_and(|data_type| !may_be_misread(&data_type) && !data_type.is_nested());
        if self.comparison != Comparison::Eq || !is_plain {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let items = match list {
            Expr::Literal(list @ (ScalarValue::List(_) | ScalarValue::LargeList(_)), _) if !list.is_null() => {
                let items = ScalarValue::convert_array_to_scalar_vec(&list.to_array()?)?;
                items.into_iter().flatten().flatten().map(|item| Expr::Literal(item, None)).collect()
            }
            Expr::ScalarFunction(call) if call.func.inner().is::<MakeArray>() => call.args.clone(),
            _ => return Ok(ExprSimplifyResult::Original(args)),
        };
        let expr = Box::new(value.clone());
        Ok(ExprSimplifyResult::Simplified(Expr::InList(InList { expr, list: items, negated: false })))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, list] = args.args.as_slice() else { return exec_err!("{} takes two arguments", self.name()) };
        evaluate(self.comparison, value, list, args.number_rows)
    }
}

fn is_list(data_type: &DataType) -> bool {
    data_type.is_null() || data_type.is_list()
}

/// Compares a value with the items of a list in each row.
pub(super) fn evaluate(
    comparison: Comparison,
    value: &ColumnarValue,
    list: &ColumnarValue,
    rows: usize,
) -> Result<ColumnarValue> {
    let Some(lists) = ListRows::of(list)? else { return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None))) };
    let (values, is_constant) = match value {
        ColumnarValue::Array(values) => (Arc::clone(values), false),
        ColumnarValue::Scalar(value) => (value.to_array()?, true),
    };
    let is_scalar = is_constant && matches!(list, ColumnarValue::Scalar(_));
    let rows = if is_scalar { 1 } else { rows };
    let value_nulls = values.logical_nulls();
    let compare = comparator(lists.items(), &values)?;
    let result: BooleanArray = (0..rows)
        .map(|row| {
            let items = lists.range(row)?;
            let value = if is_constant { 0 } else { row };
            let is_unknown = value_nulls.as_ref().is_some_and(|nulls| nulls.is_null(value));
            let mut has_unknown = is_unknown && !items.is_empty();
            for item in items {
                if is_unknown || lists.is_null_item(item) {
                    has_unknown = true;
                } else if comparison.holds(compare(item, value).reverse()) {
                    return Some(true);
                }
            }
            (!has_unknown).then_some(false)
        })
        .collect();
    Ok(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(Arc::new(result)),
    })
}
