//! [`similar`]: finds the name that the user may have meant.

use datafusion_common::utils::datafusion_strsim::levenshtein;

/// Returns the most similar name, if one is similar enough.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|known| (levenshtein(&name, &known.to_lowercase()), known))
        .filter(|(distance, known)| distance * 2 <= name.chars().count().max(known.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Lists names for a message: the first few, and the number of further ones.
pub(crate) fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    const SHOWN: usize = 10;
    let names: Vec<_> = names.into_iter().collect();
    let shown: Vec<_> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
