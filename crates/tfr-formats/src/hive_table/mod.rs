//! [`HiveTable`]: the reader of a Hive table, by its classes and properties.
//!
//! `CREATE EXTERNAL TABLE` with Hive's clauses and the metastore describe a table alike: the class of its SerDe, that of
//! its input format, and properties. One table decides what they mean here. Each property has a meaning, has none for a
//! reader, or is refused by name.

mod classes;
mod properties;

use std::collections::BTreeMap;

use crate::error::{HiveRefusal, Result};
use crate::hive_text::HiveColumns;
use crate::input_format::InputFormat;
use crate::options::InputOptions;
use classes::Class;
use properties::{Meaning, PropertySource};

pub use classes::input_format_of;

/// How a Hive table, or a partition of one, is stored.
///
/// ```
/// use tfr_formats::{HiveTable, InputFormat};
///
/// let mut table = HiveTable::default();
/// table.serde = Some("org.apache.hadoop.hive.serde2.OpenCSVSerde".to_owned());
/// table.input_format = Some("org.apache.hadoop.mapred.TextInputFormat".to_owned());
/// table.serde_parameters.insert("separatorChar".to_owned(), ";".to_owned());
/// table.columns = vec![("id".to_owned(), "string".to_owned())];
/// let reader = table.reader()?;
/// assert_eq!(reader.format, InputFormat::HiveText);
/// let options = reader.input_options()?;
/// assert_eq!(options.hive_text.columns.map(|columns| columns.schema().fields().len()), Some(1));
/// # Ok::<(), tfr_formats::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HiveTable {
    /// The class of the SerDe: `ROW FORMAT SERDE`, `serializationLib` in the metastore.
    pub serde: Option<String>,
    /// The class of the input format: `STORED AS INPUTFORMAT`.
    pub input_format: Option<String>,
    /// The properties of the SerDe: `WITH SERDEPROPERTIES`.
    pub serde_parameters: BTreeMap<String, String>,
    /// The properties of the table: `TBLPROPERTIES`. They have precedence over those of the SerDe, as in Hive.
    pub parameters: BTreeMap<String, String>,
    /// The names and Hive types of the columns in the files. Columns of the path are not among them.
    pub columns: Vec<(String, String)>,
    /// The kind of the table in the metastore, such as `EXTERNAL_TABLE` or `VIRTUAL_VIEW`.
    pub table_type: Option<String>,
}

/// The reader of a Hive table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HiveReader {
    /// The format of the files.
    pub format: InputFormat,
    /// Options of the format by their keys, with values as [`InputOptions::set`] takes them.
    pub options: Vec<(&'static str, String)>,
    /// The location to open instead of that of the table: the metadata file of an Iceberg table.
    pub location: Option<String>,
    /// What the user should know, such as properties without a meaning here.
    pub warnings: Vec<String>,
}

impl HiveReader {
    /// Returns the options with which the files are opened.
    ///
    /// # Errors
    /// A value is not valid, such as the type of a column.
    pub fn input_options(&self) -> Result<InputOptions> {
        let mut options = InputOptions::default();
        options.format = Some(self.format);
        for (key, value) in &self.options {
            options.set(key, value)?;
        }
        Ok(options)
    }
}

impl HiveTable {
    /// Returns the reader of the table.
    ///
    /// # Errors
    /// [`HiveRefusal`]: rows would be missing or values wrong.
    pub fn reader(&self) -> Result<HiveReader> {
        if let Some(reader) = self.check_kind()? {
            return Ok(reader);
        }
        let class = Class::of(self.serde.as_deref(), self.input_format.as_deref())?;
        let mut reader = self.with_properties(class)?;
        match class {
            Class::OpenCsv => reader.options.push(("serde", "opencsv".to_owned())),
            Class::Json => reader.options.push(("serde", "json".to_owned())),
            // As Hive does. Files of Hive before version 2 have no names.
            Class::Orc if self.serde.is_some() && !self.columns.is_empty() => {
                reader.options.retain(|(key, _)| *key != "by_position");
                reader.options.push(("by_position", "true".to_owned()));
            }
            // The metastore has names in lower case only.
            Class::Parquet | Class::Avro if self.serde.is_some() => {
                reader.options.push(("names", "insensitive".to_owned()));
            }
            _ => {}
        }
        if matches!(class, Class::Orc | Class::Parquet) && self.serde.is_some() && !self.columns.is_empty() {
            // Hive's TIMESTAMP has nanoseconds and all years, ours one of both.
            reader.options.push(("timestamps", "cut".to_owned()));
        }
        if !self.columns.is_empty() {
            reader.options.push(("schema", self.schema(class, &mut reader.warnings)?));
        }
        Ok(reader)
    }

    /// Returns the reader of a table whose format the user has named. Its columns are left out.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    pub fn reader_as(&self, format: InputFormat) -> Result<HiveReader> {
        match self.check_kind()? {
            Some(reader) => Ok(reader),
            None => self.with_properties(Class::Named(format)),
        }
    }

    /// Refuses tables whose rows are not in the files of their directory. Returns the reader of tables of other formats.
    fn check_kind(&self) -> Result<Option<HiveReader>, HiveRefusal> {
        let property = |name: &str| {
            let found = self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
        };
        let is = |name: &str, value: &str| property(name).is_some_and(|found| found.eq_ignore_ascii_case(value));
        if let Some(kind) = self.table_type.as_deref()
            && (kind.eq_ignore_ascii_case("VIRTUAL_VIEW") || kind.eq_ignore_ascii_case("MATERIALIZED_VIEW"))
        {
            return Err(HiveRefusal::View { kind: kind.to_owned() });
        }
        let lake = |format, location| Some(HiveReader { format, options: Vec::new(), location, warnings: Vec::new() });
        let provider = property("spark.sql.sources.provider");
        let is_provider = |name: &str| provider.is_some_and(|provider| provider.eq_ignore_ascii_case(name));
        let metadata = property("metadata_location").map(str::to_owned);
        if is("table_type", "ICEBERG") || is_provider("iceberg") {
            return Ok(lake(InputFormat::Iceberg, metadata));
        }
        if is_provider("delta") {
            return Ok(lake(InputFormat::Delta, None));
        }
        if let Some(class) = property("storage_handler") {
            if class.ends_with(".HiveIcebergStorageHandler") {
                return Ok(lake(InputFormat::Iceberg, metadata));
            }
            return Err(HiveRefusal::StorageHandler { class: class.to_owned() });
        }
        if let Some(provider) = provider.filter(|name| !classes::is_hive_provider(name)) {
            return Err(HiveRefusal::Provider { provider: provider.to_owned() });
        }
        if is("transactional", "true") {
            return Err(HiveRefusal::Transactional);
        }
        Ok(None)
    }

    fn with_properties(&self, class: Class) -> Result<HiveReader> {
        let (mut options, mut ignored) = (Vec::new(), Vec::new());
        let of_table = self.parameters.iter().map(|property| (PropertySource::Table, property));
        let of_serde = self.serde_parameters.iter().filter(|(key, _)| !self.parameters.contains_key(*key));
        for (source, (key, value)) in of_serde.map(|property| (PropertySource::Serde, property)).chain(of_table) {
            match properties::meaning(class, source, key, value)? {
                Meaning::Option(key, value) => options.push((key, value)),
                Meaning::None => {}
                Meaning::Unknown => ignored.push(key.as_str()),
            }
        }
        properties::check_all(class, &mut options)?;
        let warnings = match ignored.as_slice() {
            [] => Vec::new(),
            keys => vec![format!("table properties without a meaning here are ignored: {}", keys.join(", "))],
        };
        Ok(HiveReader { format: class.format(), options, location: None, warnings })
    }

    /// Returns the columns as the option `schema` has them.
    fn schema(&self, class: Class, warnings: &mut Vec<String>) -> Result<String> {
        let is_text = |found: &str| found.trim().eq_ignore_ascii_case("string");
        let others = || self.columns.iter().filter(|(_, found)| !is_text(found)).map(|(name, _)| name.as_str());
        if class == Class::OpenCsv && others().next().is_some() {
            let names = others().collect::<Vec<_>>().join(", ");
            warnings.push(format!("all columns of OpenCSVSerde are STRING, as in Hive, whatever is declared: {names}"));
        }
        let columns = self.columns.iter().map(|(name, found)| {
            let found = if class == Class::OpenCsv { "string" } else { found };
            format!("`{}` {found}", name.replace('`', "``"))
        });
        let text = columns.collect::<Vec<_>>().join(", ");
        text.parse::<HiveColumns>()?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
