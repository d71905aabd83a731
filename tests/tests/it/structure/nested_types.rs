//! Nested types are handled by the functions of `tfr-arrow`, so that a layout of lists is not forgotten in one of many
//! places. Files that match on them themselves are listed here, and the list may only shrink.

use std::collections::BTreeMap;

use proc_macro2::TokenTree;
use tfr_tests::repository;

use super::{crates, is_punct};

/// Names that the sources give to Arrow's `DataType`.
pub(super) const ALIASES: [&str; 3] = ["DataType", "T", "D"];

const NESTED_TYPES: [&str; 9] =
    ["FixedSizeList", "LargeList", "LargeListView", "List", "ListView", "Map", "RunEndEncoded", "Struct", "Union"];

/// How often the files outside of `tfr-arrow` mention nested types. Most mentions make a type or choose a builder for
/// it, which takes a decision for each layout.
const KNOWN: &str = include_str!("nested_types.txt");

/// The mentions of nested types directly after a name of `DataType`: one, or those in the braces of an import.
pub(super) fn mentions(tokens: &[TokenTree]) -> usize {
    let is_nested =
        |token: &TokenTree| matches!(token, TokenTree::Ident(name) if NESTED_TYPES.iter().any(|nested| name == nested));
    match tokens {
        [first, second, TokenTree::Group(list), ..] if is_punct(first, ':') && is_punct(second, ':') => {
            list.stream().into_iter().filter(is_nested).count()
        }
        [first, second, name, ..] if is_punct(first, ':') && is_punct(second, ':') => usize::from(is_nested(name)),
        _ => 0,
    }
}

#[test]
fn nested_types_are_matched_in_one_crate() {
    let root = repository().join("crates");
    let mut found = BTreeMap::new();
    for (_, sources) in crates().into_iter().filter(|(name, _)| name != "tfr-arrow") {
        for source in sources.into_values().filter(|source| source.nested_types > 0) {
            let file = source.path.strip_prefix(&root).unwrap().display().to_string();
            found.insert(file, source.nested_types);
        }
    }
    let known: BTreeMap<String, usize> = KNOWN
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(count, file)| (file.to_owned(), count.parse().unwrap()))
        .collect();
    let more: Vec<_> =
        found.iter().filter(|(file, count)| **count > known.get(*file).copied().unwrap_or_default()).collect();
    assert!(more.is_empty(), "use the functions of tfr_arrow::nested instead: {more:?}");
    let lines: String = found.iter().map(|(file, count)| format!("{count} {file}\n")).collect();
    assert_eq!(KNOWN, lines, "write the smaller numbers into nested_types.txt");
}
