//! A [`Mapping`] as the table that a user sees.

use std::fmt;

use super::{ColumnMapping, FeatureKind, FeatureShape, LossClass, Mapping};
use crate::options::NullPolicy;

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

/// The table that `--dry-run` prints: a line for each column, and how TensorFlow reads it back.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEADINGS: [&str; 6] = ["column", "type", "feature", "class", "nulls", "read with"];
        let rows: Vec<[String; 6]> = self.columns.iter().map(cells).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADINGS[column].len()]).max().unwrap_or_default()
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

fn cells(column: &ColumnMapping) -> [String; 6] {
    let features: Vec<_> = column
        .features
        .iter()
        .map(|feature| match feature.shape {
            FeatureShape::Scalar => feature.kind.to_string(),
            FeatureShape::List => format!("{} list", feature.kind),
            FeatureShape::Fixed(len) => format!("{} list of {len}", feature.kind),
        })
        .collect();
    let feature = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    let class = match &column.form {
        Some(form) => format!("{}: {form}", column.class),
        None => column.class.to_string(),
    };
    let nulls = if column.nullable { column.nulls.to_string() } else { "-".to_owned() };
    let parse = column.parse_spec().unwrap_or_else(|| "-".to_owned());
    [column.column.clone(), column.data_type.to_string(), feature, class, nulls, parse]
}

impl ColumnMapping {
    /// The entry of a `tf.io.parse_example` feature spec that reads the column's feature, as Python.
    fn parse_spec(&self) -> Option<String> {
        let feature = self.features.first()?;
        let dtype = match feature.kind {
            FeatureKind::Bytes => "tf.string",
            FeatureKind::Float => "tf.float32",
            FeatureKind::Int64 => "tf.int64",
        };
        let may_be_absent = self.nullable && self.nulls == NullPolicy::Absent;
        Some(match feature.shape {
            FeatureShape::Scalar if !may_be_absent => format!("tf.io.FixedLenFeature([], {dtype})"),
            FeatureShape::Fixed(len) if !may_be_absent => format!("tf.io.FixedLenFeature([{len}], {dtype})"),
            FeatureShape::Scalar => format!("tf.io.VarLenFeature({dtype})"),
            FeatureShape::List | FeatureShape::Fixed(_) => format!("tf.io.RaggedFeature({dtype})"),
        })
    }
}
