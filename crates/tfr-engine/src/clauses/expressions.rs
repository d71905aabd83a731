//! Expressions and types.

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, CaseWhen, CastFormat, CastKind, DataType, DictionaryField, ExactNumberInfo, Expr,
    ExtractSyntax, Interval, JsonPath, LambdaFunction, LambdaFunctionParameter, Map, MapEntry, StructField,
    TypedString,
};

use super::{Checked, functions, refused, rows, subscripts};

/// Checks an expression, except for the expressions in it, and rewrites it if it has an equivalent.
pub fn check(expr: &mut Expr, names: &mut rows::Names) -> Checked {
    rows::check(expr, names)?;
    match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(_, _)
        | Expr::IsNotDistinctFrom(_, _)
        | Expr::InList { expr: _, list: _, negated: _ }
        | Expr::InSubquery { expr: _, subquery: _, negated: _ }
        | Expr::Between { expr: _, negated: _, low: _, high: _ }
        | Expr::BinaryOp { left: _, op: _, right: _ }
        | Expr::SimilarTo { negated: _, expr: _, pattern: _, escape_char: _ }
        // SOME is ANY.
        | Expr::AnyOp { left: _, compare_op: _, right: _, is_some: _ }
        | Expr::AllOp { left: _, compare_op: _, right: _ }
        | Expr::UnaryOp { op: _, expr: _ }
        | Expr::AtTimeZone { timestamp: _, time_zone: _ }
        | Expr::Extract { field: _, syntax: ExtractSyntax::From | ExtractSyntax::Comma, expr: _ }
        | Expr::Ceil { expr: _, field: _ }
        | Expr::Floor { expr: _, field: _ }
        | Expr::Position { expr: _, r#in: _ }
        // Different spellings of one function.
        | Expr::Substring { expr: _, substring_from: _, substring_for: _, special: _, shorthand: _ }
        | Expr::Overlay { expr: _, overlay_what: _, overlay_from: _, overlay_for: _ }
        | Expr::Nested(_)
        | Expr::Value(_)
        | Expr::Exists { subquery: _, negated: _ }
        | Expr::Subquery(_)
        | Expr::GroupingSets(_)
        | Expr::Cube(_)
        | Expr::Rollup(_)
        | Expr::Tuple(_)
        | Expr::Named { expr: _, name: _ }
        | Expr::Wildcard(_)
        | Expr::QualifiedWildcard(_, _) => Ok(()),
        Expr::JsonAccess { value: _, path: JsonPath { path: _ } } => Ok(()),
        Expr::CompoundFieldAccess { root: _, access_chain } => access_chain.iter_mut().try_for_each(subscripts::check),
        Expr::Like { negated: _, any, expr: value, pattern, escape_char: _ }
        | Expr::ILike { negated: _, any, expr: value, pattern, escape_char: _ } => match any {
            true => refused(format!("LIKE ANY ({pattern})"), format!("write {value} LIKE 'a%' OR {value} LIKE 'b%'")),
            false => Ok(()),
        },
        Expr::RLike { negated, expr: value, pattern, regexp } => refused(
            format!("the operator {}", if *regexp { "REGEXP" } else { "RLIKE" }),
            format!("write {value} {} {pattern}", if *negated { "!~" } else { "~" }),
        ),
        Expr::Convert { is_try: _, expr: value, data_type: _, charset: _, target_before_value: _, styles: _ } => {
            refused("CONVERT", format!("write CAST({value} AS a type)"))
        }
        Expr::Cast { kind, expr: value, data_type, array, format } => {
            match kind {
                CastKind::Cast | CastKind::TryCast | CastKind::SafeCast | CastKind::DoubleColon => {}
            }
            if *array {
                return refused("CAST(... AS type ARRAY)", format!("write CAST({value} AS {data_type}[])"));
            }
            match format {
                None => check_type(data_type),
                Some(CastFormat::Value(_) | CastFormat::ValueAtTimeZone(_, _)) => refused(
                    "CAST with FORMAT",
                    format!("write to_timestamp({value}, '%Y-%m-%d'), or to_char for text"),
                ),
            }
        }
        Expr::TypedString(TypedString { data_type, value: _, uses_odbc_syntax: _ }) => check_type(data_type),
        Expr::Trim { trim_where: _, trim_what: _, expr: _, trim_characters } => {
            match trim_characters.as_ref().is_some_and(|characters| characters.len() > 1) {
                true => refused("trim with three arguments", "write trim(a, 'xy') with all characters in one text"),
                false => Ok(()),
            }
        }
        Expr::Function(function) => functions::check(function),
        Expr::Case { case_token: _, end_token: _, operand, conditions, else_result: _ } => {
            rows::case(operand, conditions)?;
            for CaseWhen { condition, result: _ } in conditions {
                rows::filter(condition, names)?;
            }
            Ok(())
        }
        Expr::Struct { values: _, fields } => match fields.first() {
            None => Ok(()),
            Some(StructField { field_name: _, field_type, options: _ }) => {
                refused(format!("STRUCT<{field_type}>(...)"), "write {a: 1, b: 2}, and cast the values")
            }
        },
        Expr::Dictionary(fields) => {
            for DictionaryField { key: _, value: _ } in fields {}
            Ok(())
        }
        Expr::Map(Map { entries }) => {
            for MapEntry { key: _, value: _ } in entries {}
            Ok(())
        }
        Expr::Array(Array { elem: _, named: _ }) => Ok(()),
        // The planner rejects the precisions and the second field.
        Expr::Interval(Interval {
            value: _,
            leading_field: _,
            leading_precision: _,
            last_field: _,
            fractional_seconds_precision: _,
        }) => Ok(()),
        Expr::Lambda(LambdaFunction { params, body: _, syntax: _ }) => {
            // The planner rejects types of parameters.
            for LambdaFunctionParameter { name: _, data_type: _ } in params.iter() {}
            Ok(())
        }
        Expr::IsNormalized { expr: value, form: _, negated: _ } => refused(format!("{value} IS NORMALIZED"), ""),
        Expr::InUnnest { expr: value, array_expr, negated } => refused(
            format!("{value} IN UNNEST({array_expr})"),
            format!("write {value} {} ({array_expr})", if *negated { "<> ALL" } else { "= ANY" }),
        ),
        Expr::Collate { expr: value, collation } => refused(
            format!("{value} COLLATE {collation}"),
            "leave it out: texts are compared by their characters' codes",
        ),
        Expr::Prefixed { prefix, value } => refused(format!("{prefix} {value}"), format!("write {value}")),
        Expr::MatchAgainst { columns: _, match_value, opt_search_modifier: _ } => {
            refused("MATCH ... AGAINST", format!("write LIKE or ~ {match_value}"))
        }
        Expr::OuterJoin(column) => refused(format!("{column} (+)"), "write LEFT JOIN ... ON"),
        Expr::Prior(value) => refused(format!("PRIOR {value}"), "write WITH RECURSIVE"),
        Expr::MemberOf(member) => refused(format!("{member}"), "write array_has(list, a)"),
    }
}

/// Checks a type. The planner reads every FLOAT as single precision, and ignores options of fields.
pub fn check_type(data_type: &mut DataType) -> Checked {
    /// The digits of a single-precision number, in bits.
    const SINGLE: u64 = 24;
    match data_type {
        DataType::Float(ExactNumberInfo::Precision(precision)) if *precision > SINGLE => {
            *data_type = DataType::Double(ExactNumberInfo::None);
            Ok(())
        }
        DataType::Float(ExactNumberInfo::PrecisionAndScale(..)) => {
            refused(format!("{data_type}"), "write DECIMAL with these numbers, FLOAT or DOUBLE")
        }
        DataType::Array(element) => match element {
            ArrayElemTypeDef::None => Ok(()),
            ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::Parenthesis(element) => check_type(element),
        },
        DataType::Struct(fields, _) => fields.iter_mut().try_for_each(|field| {
            let StructField { field_name: _, field_type, options } = field;
            match options {
                None => check_type(field_type),
                Some(_) => refused("OPTIONS of a field", "leave them out"),
            }
        }),
        _ => Ok(()),
    }
}
