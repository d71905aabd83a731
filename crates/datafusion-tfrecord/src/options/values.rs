//! Value parsers shared by several options. Their errors describe the expected value.

use std::num::{NonZeroU64, NonZeroUsize};

use bytesize::ByteSize;

/// Sets `field` to a parsed value.
pub fn set<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

/// Parses `true` or `false`.
pub fn boolean(value: &str) -> Result<bool, String> {
    one_of(value, &[("true", true), ("false", false)])
}

/// Parses a whole number, 1 or more.
pub fn count(value: &str) -> Result<NonZeroUsize, String> {
    value.trim().parse().map_err(|_| "a whole number, 1 or more".to_owned())
}

/// Parses a whole number of at least `least`, or `all`, which is returned as `None`.
pub fn number_or_all(value: &str, least: usize) -> Result<Option<usize>, String> {
    match value.trim() {
        "all" => Ok(None),
        number => match number.parse() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(format!("a whole number, {least} or more, or all")),
        },
    }
}

/// Parses a number of bytes, with or without a unit: `64MiB`, `1.5 GB`, `67108864`.
pub fn bytes(value: &str) -> Result<NonZeroU64, String> {
    let size: ByteSize = value.trim().parse().map_err(|_| "a size such as 512KiB, 128MiB or 4GB".to_owned())?;
    NonZeroU64::new(size.as_u64()).ok_or_else(|| "a size above zero".to_owned())
}

/// Parses one of several words, ignoring case.
pub fn one_of<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| value.trim().eq_ignore_ascii_case(name));
    found.map(|(_, choice)| *choice).ok_or_else(|| words(choices.iter().map(|(name, _)| name)))
}

/// Joins words for a message: `a, b or c`.
pub fn words<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    match all.into_iter().map(|word| word.to_string()).collect::<Vec<_>>().as_slice() {
        [only] => only.clone(),
        [before @ .., last] => format!("{} or {last}", before.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_or_are_bytes() {
        let size = |text| bytes(text).map(NonZeroU64::get);
        for (text, bytes) in
            [("128MiB", 128 << 20), ("1.5 KiB", 1536), ("4GB", 4_000_000_000), ("2 g", 2_000_000_000), (" 77 ", 77)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "0MiB", "-1", "12 parsecs", "MiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn option_values_check_the_minimum_and_ignore_case() {
        assert_eq!(
            (number_or_all("7", 1), number_or_all("all", 1), number_or_all("0", 0)),
            (Ok(Some(7)), Ok(None), Ok(Some(0)))
        );
        assert_eq!(number_or_all("0", 1), Err("a whole number, 1 or more, or all".to_owned()));
        assert_eq!((boolean("TRUE"), boolean("no")), (Ok(true), Err("true or false".to_owned())));
        assert_eq!(one_of("x", &[("a", 1), ("b", 2), ("c", 3)]), Err("a, b or c".to_owned()));
    }
}
