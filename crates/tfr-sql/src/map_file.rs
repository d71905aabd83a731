//! [`MapFile`]: the TOML mapping file of `--map-file`. `schemas/mapping-file.schema.json` describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use arrow_tfrecord::{Choice, ColumnRule, NullPolicy, NullRule, RecordType};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

use crate::error::{Error, Result};

/// The contents of a mapping file. Every key is optional.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MapFile {
    pub record_type: Option<RecordType>,
    pub null: Option<NullPolicy>,
    #[serde(deserialize_with = "separator")]
    pub separator: Option<String>,
    pub sequence: BTreeSet<String>,
    pub strict: bool,
    /// Entries by the name of a column, or of a part of one.
    pub columns: BTreeMap<String, ColumnEntry>,
}

/// The entry of one column: a rule in the syntax of `--map`, or a table.
#[derive(Debug, Default, PartialEq)]
pub struct ColumnEntry {
    pub rule: ColumnRule,
    /// The values, by rank.
    pub vocabulary: Option<Vec<String>>,
}

impl MapFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let before = text.get(..start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let found = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
            Error::MapFile { path: path.to_owned(), line, found, reason: error.message().to_owned() }
        })
    }
}

fn separator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match String::deserialize(deserializer)? {
        empty if empty.is_empty() => Err(de::Error::invalid_length(0, &"a character or more")),
        separator => Ok(Some(separator)),
    }
}

impl<'de> Deserialize<'de> for ColumnEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = ColumnEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule such as \"bits, null=mask\", or a table of map, null and vocabulary")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ColumnEntry, E> {
        Ok(ColumnEntry { rule: text.parse().map_err(E::custom)?, vocabulary: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ColumnEntry, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct EntryTable {
            map: Option<Choice>,
            null: Option<NullRule>,
            vocabulary: Option<Vec<String>>,
        }

        let EntryTable { map, null, vocabulary } = EntryTable::deserialize(MapAccessDeserializer::new(map))?;
        let mut rule = ColumnRule::default();
        // A vocabulary implies ranks.
        rule.choice = map.or(vocabulary.is_some().then_some(Choice::Index));
        rule.nulls = null;
        Ok(ColumnEntry { rule, vocabulary })
    }
}

#[cfg(test)]
mod tests;
