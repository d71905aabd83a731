//! The table shown to users: `Display` of [`Mapping`].

use std::collections::HashMap;
use std::fmt;

use super::{ColumnMapping, LossClass, Mapping};
use crate::feature::{FeatureKind, FeatureMapping, FeaturePlace, FeatureRole, FeatureShape};

impl fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bytes => "bytes",
            Self::Float => "float",
            Self::Int64 => "int64",
        })
    }
}

impl fmt::Display for LossClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::Encoded => "encoded",
            Self::Narrowed => "narrowed",
        })
    }
}

/// The table that `--dry-run` prints: one line per feature, with the spec by which TensorFlow reads it.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Longer cells overflow their column.
        const WIDEST: usize = 255;
        const HEADINGS: [&str; 6] = ["column", "type", "feature", "class", "nulls", "read with"];
        let rows: Vec<[String; 6]> = self.columns.iter().flat_map(lines).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADINGS[column].len()]).max().unwrap_or_default().min(WIDEST)
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        let headings = HEADINGS.map(str::to_owned);
        for row in std::iter::once(&headings).chain(&rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                line += &format!("{cell:width$}  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn lines(column: &ColumnMapping) -> Vec<[String; 6]> {
    let class = match &column.form {
        Some(form) => format!("{}: {form}", column.class),
        None => column.class.to_string(),
    };
    let nulls = if column.nullable { column.nulls.to_string() } else { "-".to_owned() };
    let specs: HashMap<_, _> = column.parse_specs().into_iter().collect();
    let feature = |feature: &FeatureMapping| {
        let kind = match feature.shape {
            FeatureShape::Scalar => feature.kind.to_string(),
            FeatureShape::List => format!("{} list", feature.kind),
            FeatureShape::Fixed(len) => format!("{} list of {len}", feature.kind),
        };
        let kind = match feature.place() {
            FeaturePlace::Record => kind,
            FeaturePlace::Steps => format!("steps of {kind}"),
            FeaturePlace::Items => format!("{kind} of each example"),
        };
        // Ragged values are read under the name of the part that they belong to.
        let key = feature.name.strip_suffix("ragged_flat_values").and_then(|key| key.strip_suffix(&column.separator));
        let spec = specs.get(&feature.name).or_else(|| specs.get(key?)).map(ToString::to_string);
        if feature.role == FeatureRole::Record {
            return ("the record".to_owned(), "-".to_owned());
        }
        let named = if feature.name == column.column { kind } else { format!("{} {kind}", feature.name) };
        (named, spec.unwrap_or_default())
    };
    let mut features = column.features.iter().map(feature);
    let (first, spec) = features.next().unwrap_or_else(|| ("none".to_owned(), "-".to_owned()));
    let mut lines = vec![[column.column.clone(), column.data_type.to_string(), first, class, nulls, spec]];
    lines.extend(features.map(|(feature, spec)| ["".into(), "".into(), feature, "".into(), "".into(), spec]));
    lines
}
