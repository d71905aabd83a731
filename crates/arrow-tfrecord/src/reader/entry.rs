//! The entries of the maps that records are: names, features, and the steps of feature lists.

use std::ops::Range;

use super::wire::{WireResult, field};
use crate::feature::FeatureKind;

/// The name of the map entry that begins at `pos` and ends with `bytes`; the last one, and none is the empty one.
pub(super) fn entry_name(bytes: &[u8], mut pos: usize) -> WireResult<Range<usize>> {
    let mut name = pos..pos;
    while pos < bytes.len() {
        let field = field(bytes, pos)?;
        pos = field.end;
        name = field.message(1)?.unwrap_or(name);
    }
    Ok(name)
}

/// The value of the same entry: the kind of its feature, and the places of its list. A kind that comes after another
/// replaces it; one that comes again goes on with the list.
pub(super) fn entry_value(
    bytes: &[u8],
    mut pos: usize,
    parts: &mut Vec<Range<usize>>,
) -> WireResult<Option<FeatureKind>> {
    let mut kind = None;
    while pos < bytes.len() {
        let entry = field(bytes, pos)?;
        pos = entry.end;
        if let Some(feature) = entry.message(2)? {
            feature_value(&bytes[..feature.end], feature.start, &mut kind, parts)?;
        }
    }
    Ok(kind)
}

/// The same of a feature by itself, which may go on with one that came before.
pub(super) fn feature_value(
    bytes: &[u8],
    mut pos: usize,
    kind: &mut Option<FeatureKind>,
    parts: &mut Vec<Range<usize>>,
) -> WireResult<()> {
    while pos < bytes.len() {
        let list = field(bytes, pos)?;
        pos = list.end;
        let number = list.number;
        let found = match number {
            1 => FeatureKind::Bytes,
            2 => FeatureKind::Float,
            3 => FeatureKind::Int64,
            _ => continue,
        };
        let Some(part) = list.message(number)? else { continue };
        if *kind != Some(found) {
            parts.clear();
        }
        *kind = Some(found);
        parts.push(part);
    }
    Ok(())
}

/// The features in the map entry that begins at `pos` and ends with `bytes`.
pub(super) fn entry_steps(bytes: &[u8], mut pos: usize, steps: &mut Vec<Range<usize>>) -> WireResult<()> {
    while pos < bytes.len() {
        let entry = field(bytes, pos)?;
        pos = entry.end;
        let Some(list) = entry.message(2)? else { continue };
        let bytes = &bytes[..list.end];
        let mut pos = list.start;
        while pos < bytes.len() {
            let step = field(bytes, pos)?;
            pos = step.end;
            steps.extend(step.message(1)?);
        }
    }
    Ok(())
}
