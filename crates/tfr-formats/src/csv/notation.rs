//! [`with_point`]: numbers with another decimal separator than a point, such as `1.234,56`.

use std::borrow::Cow;

use arrow_schema::DataType;

use super::infer::CellType;

/// Returns a cell as it is written with a decimal point, given its decimal separator. `None` if it is a number only
/// if the separator is a point.
///
/// If the separator is a comma, points may separate groups of three digits, and the other way round.
pub(super) fn with_point(cell: &str, decimal: u8) -> Option<Cow<'_, str>> {
    if decimal == b'.' {
        return Some(Cow::Borrowed(cell));
    }
    match number(cell, char::from(decimal)) {
        Some(number) => Some(Cow::Owned(number)),
        None if CellType::shape(cell) == CellType::Float64 && cell.contains('.') => None,
        None => Some(Cow::Borrowed(cell)),
    }
}

/// Returns a cell as Arrow casts it to a type. An empty text, which is no number, stands for a cell that is a number only
/// if the separator is a point.
pub(super) fn castable<'a>(cell: &'a str, data_type: &DataType, decimal: u8) -> Cow<'a, str> {
    match data_type.is_numeric() {
        true => with_point(cell, decimal).unwrap_or_default(),
        false => Cow::Borrowed(cell),
    }
}

/// Parses a number in groups or with a fraction; `None` for other cells.
fn number(cell: &str, decimal: char) -> Option<String> {
    let (sign, digits) = match cell.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", cell),
    };
    let (whole, rest) = digits.split_at(digits.find([decimal, 'e', 'E']).unwrap_or(digits.len()));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split('.');
    let first = groups.next().filter(|first| is_digits(first))?;
    let is_grouped = whole.len() > first.len();
    let has_groups = (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3 && is_digits(group));
    let is_number = (!is_grouped || has_groups) && !rest.chars().any(|character| character == '.');
    (is_number && (is_grouped || rest.starts_with(decimal)))
        .then(|| format!("{sign}{}{}", whole.replace('.', ""), rest.replacen(decimal, ".", 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_comma() {
        for (cell, expected) in [
            ("1,5", Some("1.5")),
            ("-0,25", Some("-0.25")),
            (",5", Some(".5")),
            ("1.234,56", Some("1234.56")),
            ("-1.234.567", Some("-1234567")),
            ("1,5e-3", Some("1.5e-3")),
            ("12", Some("12")),
            ("1e3", Some("1e3")),
            ("abc", Some("abc")),
            ("2024-01-31 00:00:00.5", Some("2024-01-31 00:00:00.5")),
            // Not numbers in this notation.
            ("1.5", None),
            ("1234.567", None),
            ("1.5e3", None),
            // Text.
            ("1,5,5", Some("1.5,5")),
            ("0.123", Some("0123")),
            ("1.23,4", Some("1.23,4")),
            ("10.20.30", Some("10.20.30")),
            ("1,234.5", Some("1,234.5")),
        ] {
            assert_eq!(with_point(cell, b',').as_deref(), expected, "{cell}");
            assert_eq!(with_point(cell, b'.').as_deref(), Some(cell));
        }
    }
}
