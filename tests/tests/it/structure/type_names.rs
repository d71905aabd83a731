//! In one crate, the name of a type means one thing. The exceptions are listed here, and the list may only shrink.

use std::collections::BTreeMap;

use proc_macro2::Ident;

use super::crates;

/// Names of several types of a crate: those of a foreign specification, and of types that one module uses.
const KNOWN: &str = include_str!("type_names.txt");

/// Whether a type follows the word. A `type` in an item is an associated one.
pub(super) fn defines(word: &Ident, is_item: bool) -> bool {
    ["struct", "enum", "trait"].iter().any(|keyword| word == keyword) || is_item && word == "type"
}

#[test]
fn type_names_have_one_meaning_in_a_crate() {
    let mut found = String::new();
    for (krate, sources) in crates() {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for name in sources.into_values().flat_map(|source| source.types) {
            *counts.entry(name).or_default() += 1;
        }
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 1) {
            found += &format!("{krate} {name} {count}\n");
        }
    }
    let new: Vec<_> = found.lines().filter(|line| !KNOWN.lines().any(|known| known == *line)).collect();
    let gone: Vec<_> = KNOWN.lines().filter(|known| !found.lines().any(|line| line == *known)).collect();
    assert!(new.is_empty(), "give each type a name of its own: {new:?}; no longer so: {gone:?}");
    assert!(gone.is_empty(), "remove from type_names.txt: {gone:?}");
}
