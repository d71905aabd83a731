//! Filters on the keys of partitions, in the language of metastores.
//!
//! What a server leaves out is lost, so a filter goes to it only where it means the same there, and all of them are applied
//! again to the partitions that come back. Texts are compared for equality alone: the order of texts, and what `LIKE`
//! means, depend on the database of the metastore. `IN`, `NOT` and `IS NULL` are errors there.

use datafusion_common::ScalarValue;
use datafusion_expr::{BinaryExpr, Expr, Operator};

use super::catalog::HiveColumn;

/// Returns the filter of a metastore that keeps at least the partitions that pass all of these; `None` if it is that for
/// all partitions.
pub(super) fn of_all<'a>(filters: impl IntoIterator<Item = &'a Expr>, keys: &[HiveColumn]) -> Option<String> {
    let parts: Vec<_> = filters.into_iter().filter_map(|filter| of(filter, keys)).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

fn of(filter: &Expr, keys: &[HiveColumn]) -> Option<String> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => of_all([&**left, &**right], keys),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(format!("({} or {})", of(left, keys)?, of(right, keys)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(value, _)) => comparison(column.name(), *op, value, keys),
            (Expr::Literal(value, _), Expr::Column(column)) => comparison(column.name(), op.swap()?, value, keys),
            _ => None,
        },
        _ => None,
    }
}

fn comparison(name: &str, op: Operator, value: &ScalarValue, keys: &[HiveColumn]) -> Option<String> {
    let key = keys.iter().find(|key| key.name == name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | ' ');
    let (name, value) = match (key.hive_type.to_lowercase().as_str(), value) {
        (
            "string",
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)),
        ) if op == Operator::Eq && text.chars().all(is_plain) => (name, format!("\"{text}\"")),
        ("tinyint" | "smallint" | "int" | "bigint", value) if value.data_type().is_integer() && !value.is_null() => {
            (name, value.to_string())
        }
        ("date", ScalarValue::Date32(Some(_))) => (name, format!("\"{value}\"")),
        _ => return None,
    };
    // A name of other characters could be read as something else.
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name(name) {
        return None;
    }
    match op {
        Operator::Eq => Some(format!("{name}={value}")),
        Operator::Lt => Some(format!("{name}<{value}")),
        Operator::Gt => Some(format!("{name}>{value}")),
        Operator::LtEq => Some(format!("({name}<{value} or {name}={value})")),
        Operator::GtEq => Some(format!("({name}>{value} or {name}={value})")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{col, lit};

    use super::*;

    #[test]
    fn metastore_filters_have_what_servers_compare_alike() {
        let key = |(name, hive_type): (&str, &str)| HiveColumn { name: name.into(), hive_type: hive_type.into() };
        let keys = [("s", "string"), ("n", "int"), ("d", "date"), ("v", "varchar(3)")].map(key);
        let date = || lit(ScalarValue::Date32(Some(20_454)));
        for (filter, expected) in [
            (col("s").eq(lit("a b")), Some("s=\"a b\"")),
            (lit("a").eq(col("s")), Some("s=\"a\"")),
            (col("s").gt(lit("a")), None),
            (col("s").eq(lit("it's")), None),
            (col("s").eq(lit("ä")), None),
            (col("s").like(lit("a%")), None),
            (col("v").eq(lit("a")), None),
            (col("n").lt_eq(lit(5_i32)), Some("(n<5 or n=5)")),
            (lit(5_i64).lt(col("n")), Some("n>5")),
            (col("n").eq(lit(ScalarValue::Int32(None))), None),
            (col("n").not_eq(lit(5_i32)), None),
            (col("d").gt_eq(date()), Some("(d>\"2026-01-01\" or d=\"2026-01-01\")")),
            (col("d").eq(lit("2026-01-01")), None),
            (col("x").eq(lit(5_i32)), None),
            (col("n").eq(lit(1_i32)).or(col("s").eq(lit("a"))), Some("(n=1 or s=\"a\")")),
            (col("n").eq(lit(1_i32)).or(col("s").gt(lit("a"))), None),
            (col("n").eq(lit(1_i32)).and(col("s").gt(lit("a"))), Some("n=1")),
            (col("n").is_null(), None),
            (col("n").in_list(vec![lit(1_i32)], false), None),
        ] {
            assert_eq!(of_all([&filter], &keys).as_deref(), expected, "{filter}");
        }
        assert_eq!(of_all([&col("n").gt(lit(1_i32)), &col("s").eq(lit("a"))], &keys).unwrap(), "n>1 and s=\"a\"");
    }
}
