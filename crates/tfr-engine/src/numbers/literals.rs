//! Number literals, as PostgreSQL reads them: a number with a point, or beyond 64 bits, is a decimal. A number with an
//! exponent is a double.
//!
//! The engine reads all of them as doubles, or all of them as decimals: `price = 1234567.89` found no row of a
//! `DECIMAL(9, 2)`, or `1e300` was refused. Its setting `parse_float_as_decimal` is on, and the dialect passes numbers
//! with an exponent to the engine's planner in a form that [`DoubleLiteral`] reads.
//!
//! Casts of literals are computed here from their digits. The engine computes them by a multiplication or a division
//! of doubles, which rounds.

use arrow::datatypes::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::sql::sqlparser::ast::{DateTimeField, Expr as SqlExpr, ExtractSyntax, Ident, Value};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::planner::PlannerResult;
use datafusion_expr::{Expr, lit};

/// The field of the `EXTRACT` that stands for a double. `EXTRACT` is the only expression that the engine's planner
/// leaves to us entirely.
const DOUBLE: &str = "double";

/// A number with an exponent in a statement.
#[derive(Debug, Clone, Copy)]
pub struct DoubleLiteral;

impl DoubleLiteral {
    /// Whether a number token has an exponent.
    pub(crate) fn is_double(digits: &str) -> bool {
        digits.contains(['e', 'E']) && !digits.starts_with("0x")
    }

    /// Returns the expression that stands for a number with an exponent.
    pub fn expression(digits: &str) -> SqlExpr {
        SqlExpr::Extract {
            field: DateTimeField::Custom(Ident::new(DOUBLE)),
            syntax: ExtractSyntax::From,
            expr: Box::new(SqlExpr::Value(Value::SingleQuotedString(digits.to_owned()).into())),
        }
    }

    /// Returns the number of an [`expression`](Self::expression).
    pub fn digits(expr: &SqlExpr) -> Option<&str> {
        match expr {
            SqlExpr::Extract { field: DateTimeField::Custom(field), expr, .. } if field.value == DOUBLE => {
                match expr.as_ref() {
                    SqlExpr::Value(value) => match &value.value {
                        Value::SingleQuotedString(digits) => Some(digits),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Plans the arguments of an [`expression`](Self::expression). Returns all other arguments.
    pub fn plan(args: Vec<Expr>) -> PlannerResult<Vec<Expr>> {
        let number = match args.as_slice() {
            [Expr::Literal(field, _), Expr::Literal(digits, _)] if field.try_as_str().flatten() == Some(DOUBLE) => {
                digits.try_as_str().flatten().and_then(|digits| digits.replace('_', "").parse::<f64>().ok())
            }
            _ => None,
        };
        match number {
            Some(number) => PlannerResult::Planned(lit(number)),
            None => PlannerResult::Original(args),
        }
    }
}

/// Returns the value of a literal, perhaps with a sign.
pub fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Negative(inner) => literal(inner)?.arithmetic_negate().ok(),
        _ => None,
    }
}

/// Casts a literal by its digits, if the engine would round it twice.
pub fn cast_by_digits(value: &ScalarValue, to: &DataType) -> Option<Result<ScalarValue>> {
    match to {
        DataType::Float64 => Some(Ok(ScalarValue::Float64(digits_of(value)?.parse().ok()))),
        DataType::Float32 => Some(Ok(ScalarValue::Float32(digits_of(value)?.parse().ok()))),
        to if to.is_decimal() => {
            let digits = match value {
                ScalarValue::Float64(Some(value)) if value.is_finite() => value.to_string(),
                ScalarValue::Float32(Some(value)) if value.is_finite() => value.to_string(),
                _ => return None,
            };
            Some(ScalarValue::Utf8(Some(digits)).cast_to(to))
        }
        _ => None,
    }
}

/// Casts a literal.
pub fn cast_exactly(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    cast_by_digits(value, to).unwrap_or_else(|| value.cast_to(to))
}

/// Reads a text as a number: a decimal with the digits of the text, or a double if it has an exponent or is not finite.
pub fn number_of_text(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_decimal = !(whole.is_empty() && fraction.is_empty())
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let (Ok(precision), Ok(scale)) = (u8::try_from(whole.len() + fraction.len()), i8::try_from(fraction.len())) else {
        return None;
    };
    match precision {
        _ if !is_decimal => text.parse().ok().map(|number| ScalarValue::Float64(Some(number))),
        _ if precision <= DECIMAL128_MAX_PRECISION => {
            ScalarValue::Utf8(Some(text.to_owned())).cast_to(&DataType::Decimal128(precision, scale)).ok()
        }
        _ if precision <= DECIMAL256_MAX_PRECISION => {
            ScalarValue::Utf8(Some(text.to_owned())).cast_to(&DataType::Decimal256(precision, scale)).ok()
        }
        _ => None,
    }
}

/// Returns the digits of a decimal.
fn digits_of(value: &ScalarValue) -> Option<String> {
    Some(match *value {
        ScalarValue::Decimal32(Some(value), precision, scale) => Decimal32Type::format_decimal(value, precision, scale),
        ScalarValue::Decimal64(Some(value), precision, scale) => Decimal64Type::format_decimal(value, precision, scale),
        ScalarValue::Decimal128(Some(value), precision, scale) => {
            Decimal128Type::format_decimal(value, precision, scale)
        }
        ScalarValue::Decimal256(Some(value), precision, scale) => {
            Decimal256Type::format_decimal(value, precision, scale)
        }
        _ => return None,
    })
}
