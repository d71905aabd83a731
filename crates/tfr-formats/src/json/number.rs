//! The grammar of numbers (RFC 8259, section 6).

/// Returns the length in bytes of the number at the start; `None` if there is none.
pub(super) fn number_len(bytes: &[u8]) -> Option<usize> {
    let digits = |at: usize| bytes.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count();
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    let start = usize::from(is(0, b"-"));
    let whole = digits(start);
    if whole == 0 || (whole > 1 && is(start, b"0")) {
        return None;
    }
    let mut len = start + whole;
    if is(len, b".") {
        let fraction = digits(len + 1);
        if fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    }
    if is(len, b"eE") {
        let sign = usize::from(is(len + 1, b"+-"));
        let exponent = digits(len + 1 + sign);
        if exponent == 0 {
            return None;
        }
        len += 1 + sign + exponent;
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_number_ends_where_the_grammar_does() {
        for (text, expected) in [
            ("0", Some(1)),
            ("-0.0e-0 ", Some(7)),
            ("1234567890123456789012]", Some(22)),
            ("1E5}", Some(3)),
            ("1-2", Some(1)),
            ("1.2.3", Some(3)),
            ("01", None),
            ("-", None),
            ("1.", None),
            ("1e", None),
            ("1e+", None),
            (".5", None),
            ("+1", None),
            ("", None),
        ] {
            assert_eq!(number_len(text.as_bytes()), expected, "{text}");
        }
    }
}
