//! Map entries of records: names, features, and the steps of feature lists.

use std::ops::Range;

use super::wire::{WireResult, field};
use crate::feature::FeatureKind;

/// The name of the map entry from `pos` to the end of `bytes`. The last of several names counts; a missing name is
/// empty.
pub(super) fn entry_name(bytes: &[u8], mut pos: usize) -> WireResult<Range<usize>> {
    let mut name = pos..pos;
    while pos < bytes.len() {
        let field = field(bytes, pos)?;
        pos = field.end;
        name = field.message(1)?.unwrap_or(name);
    }
    Ok(name)
}

/// The value of such an entry: the kind of its feature, and the ranges of its list. A later, different kind replaces
/// the list; the same kind again extends it.
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

/// The kind and list ranges of a bare feature, which may extend an earlier one.
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

/// The features in the map entry from `pos` to the end of `bytes`.
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
