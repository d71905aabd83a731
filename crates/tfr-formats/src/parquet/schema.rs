//! [`CorrectedSchema`]: the schema of a file, corrected for the library.
//!
//! The library changes the values of some types, and rejects whole files because of one column. The annotations of such
//! columns are removed here, so that it returns their bytes. For each leaf the layout records how these are converted.
//! It also records unreadable columns with the reason.

use std::sync::Arc;

use arrow_schema::{DECIMAL256_MAX_PRECISION, Schema};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::types::SchemaDescriptor;

use super::thrift::{Element, Logical, footer_of};

/// Physical types.
const INT32: i32 = 1;
const INT64: i32 = 2;
const INT96: i32 = 3;
const BYTE_ARRAY: i32 = 6;
const FIXED: i32 = 7;

const REPEATED: i32 = 2;

/// Converted types.
mod converted {
    pub(super) const UTF8: i32 = 0;
    pub(super) const MAP: i32 = 1;
    pub(super) const MAP_KEY_VALUE: i32 = 2;
    pub(super) const LIST: i32 = 3;
    pub(super) const ENUM: i32 = 4;
    pub(super) const DECIMAL: i32 = 5;
    pub(super) const JSON: i32 = 19;
    pub(super) const BSON: i32 = 20;
    pub(super) const INTERVAL: i32 = 21;
    /// Used for columns of only nulls by parquet-cpp before 1.6. It is not part of the format.
    pub(super) const NULL: i32 = 24;
}

/// Logical types.
mod logical {
    pub(super) const STRING: i16 = 1;
    pub(super) const MAP: i16 = 2;
    pub(super) const LIST: i16 = 3;
    pub(super) const ENUM: i16 = 4;
    pub(super) const DECIMAL: i16 = 5;
    pub(super) const INTEGER: i16 = 10;
    pub(super) const UNKNOWN: i16 = 11;
    pub(super) const JSON: i16 = 12;
    pub(super) const VARIANT: i16 = 16;
    pub(super) const LAST: i16 = 18;
    /// BSON, GEOMETRY and GEOGRAPHY.
    pub(super) const BYTES: [i16; 3] = [13, 17, 18];
}

/// The bytes of an INT96 and of an INTERVAL.
pub(super) const WIDE: i32 = 12;

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 100;

/// How the values of a leaf, as the library returns them, are to be interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafKind {
    /// By their type.
    Plain,
    /// The 12 bytes of a timestamp.
    Int96,
    /// The 12 bytes of an interval.
    Interval,
    /// A decimal for which the library sees fewer digits than the file specifies.
    Decimal {
        /// The digits that the file specifies.
        precision: u8,
    },
}

/// A schema that the library accepts.
#[derive(Debug)]
pub(super) struct CorrectedSchema {
    pub(super) schema: Arc<SchemaDescriptor>,
    /// The content of each leaf.
    pub(super) leaves: Vec<LeafKind>,
    /// The unreadable columns by name, with the reasons.
    pub(super) unreadable: Vec<(String, String)>,
    /// The names of all columns in order, including those without leaves.
    pub(super) columns: Vec<String>,
    /// The names of columns of JSON.
    pub(super) json: Vec<String>,
}

impl CorrectedSchema {
    /// Creates the layout of a file with these elements. Texts in columns for which `as_bytes` returns true are bytes, and
    /// columns of bytes for which `as_text` returns true are text.
    ///
    /// # Errors
    /// The library's error for a schema that cannot be corrected.
    pub(super) fn new(
        elements: &[Element],
        as_bytes: impl Fn(&str) -> bool,
        as_text: impl Fn(&str) -> bool,
    ) -> Result<Self, ParquetError> {
        let malformed = || ParquetError::General("the schema in the footer is not a tree".to_owned());
        let (root, mut rest) = elements.split_first().ok_or_else(malformed)?;
        let mut columns = Vec::new();
        while !rest.is_empty() {
            let name = String::from_utf8_lossy(&rest[0].name).into_owned();
            let (as_bytes, as_text) = (as_bytes(&name), as_text(&name));
            let mut column = ColumnElements { name, as_bytes, as_text, ..Default::default() };
            column.add(&mut rest, None, 0).ok_or_else(malformed)?;
            if column.leaves.is_empty() {
                column.refuse("a group without columns");
            }
            columns.push(column);
        }
        let schema = match descriptor(root, &columns) {
            Ok(schema) => schema,
            Err(_) => {
                for column in &mut columns {
                    column.make_readable(root);
                }
                descriptor(root, &columns)?
            }
        };
        let refused = |column: &ColumnElements| Some((column.name.clone(), column.refusal.clone()?));
        Ok(Self {
            schema: Arc::new(schema),
            unreadable: columns.iter().filter_map(refused).collect(),
            leaves: columns.iter().flat_map(|column| column.leaves.iter().copied()).collect(),
            json: columns.iter().filter(|column| column.is_json).map(|column| column.name.clone()).collect(),
            columns: columns.into_iter().map(|column| column.name).collect(),
        })
    }
}

/// Returns the schema of these columns, if Arrow supports all of their types.
fn descriptor(root: &Element, columns: &[ColumnElements]) -> Result<SchemaDescriptor, ParquetError> {
    let elements = columns.iter().flat_map(|column| column.elements.iter().cloned());
    // Some writers gave the root a repetition or an annotation, which have no meaning there.
    let (name, children) = (root.name.clone(), i32::try_from(columns.len()).ok());
    let root = Element { name, children, ..Element::default() };
    let footer = footer_of(&std::iter::once(root).chain(elements).collect::<Vec<_>>());
    let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
    let schema = metadata.file_metadata().schema_descr();
    let _: Schema = parquet_to_arrow_schema(schema, None)?;
    Ok(schema.clone())
}

/// A column with its nested elements.
#[derive(Debug, Default)]
struct ColumnElements {
    name: String,
    as_bytes: bool,
    as_text: bool,
    is_json: bool,
    elements: Vec<Element>,
    leaves: Vec<LeafKind>,
    refusal: Option<String>,
}

impl ColumnElements {
    /// Consumes the next element and all below it.
    fn add(&mut self, rest: &mut &[Element], parent: Option<&Element>, depth: usize) -> Option<()> {
        let (element, after) = rest.split_first().filter(|_| depth < MAX_DEPTH)?;
        *rest = after;
        let children = element.children.unwrap_or_default();
        if element.physical.is_some() && children == 0 {
            let (element, leaf) = self.leaf(element.clone());
            self.elements.push(element);
            self.leaves.push(leaf);
            return Some(());
        }
        let group = self.group(element.clone(), parent);
        for _ in 0..children {
            self.add(rest, Some(&group), depth + 1)?;
        }
        Some(())
    }

    fn refuse(&mut self, reason: &str) {
        self.refusal.get_or_insert_with(|| reason.to_owned());
    }

    fn leaf(&mut self, mut element: Element) -> (Element, LeafKind) {
        drop_unknown(&mut element);
        let is_wide = element.physical == Some(FIXED) && element.length == Some(WIDE);
        match (element.converted, element.logical.as_ref().map(|logical| logical.id)) {
            _ if element.physical == Some(INT96) => {
                (element.physical, element.length) = (Some(FIXED), Some(WIDE));
                strip(&mut element);
                return (element, LeafKind::Int96);
            }
            // parquet-mr 1.12.0 also wrote the logical type UNKNOWN here.
            (Some(converted::INTERVAL), _) if is_wide => {
                strip(&mut element);
                return (element, LeafKind::Interval);
            }
            (Some(converted::NULL), None) => {
                strip(&mut element);
                element.logical = Some(Logical::plain(logical::UNKNOWN));
            }
            (_, Some(logical::INTEGER)) => {
                let width = element.logical.as_ref().and_then(Logical::first_byte).unwrap_or_default();
                if ![8, 16, 32, 64].contains(&width) {
                    self.refuse(&format!("an integer of {width} bits"));
                    strip(&mut element);
                }
            }
            (Some(converted::ENUM | converted::JSON), None) | (_, Some(logical::ENUM | logical::JSON))
                if element.physical == Some(BYTE_ARRAY) =>
            {
                // The library returns bytes of an ENUM, and does not check that JSON is UTF-8.
                let is_enum = element.converted == Some(converted::ENUM)
                    || element.logical.as_ref().is_some_and(|logical| logical.id == logical::ENUM);
                self.is_json = self.elements.is_empty() && !is_enum;
                annotate_text(&mut element);
            }
            _ => {}
        }
        let is_text = element.converted == Some(converted::UTF8)
            || element.logical.as_ref().is_some_and(|logical| logical.id == logical::STRING);
        if is_text && self.as_bytes {
            strip(&mut element);
        }
        self.refuse_unknown(&mut element);
        let leaf = self.decimal(&mut element);
        let is_top = self.elements.is_empty();
        if self.as_text && is_top && !self.as_bytes && self.refusal.is_none() && is_bytes(&element) {
            // Without it, the library would make texts of bytes that it has not checked.
            annotate_text(&mut element);
        }
        (element, leaf)
    }

    /// Lowers the precision of a decimal to the maximum of its physical type. The library rejects a higher one,
    /// although writers have always left that to readers.
    fn decimal(&mut self, element: &mut Element) -> LeafKind {
        let is_decimal = element.converted == Some(converted::DECIMAL)
            || element.logical.as_ref().is_some_and(|found| found.id == logical::DECIMAL);
        let Some(precision) = element.precision.filter(|_| is_decimal) else { return LeafKind::Plain };
        element.scale.get_or_insert(0);
        let most = match (element.physical, element.length) {
            (Some(INT32), _) => 9,
            (Some(INT64), _) => 18,
            // The greatest number of digits for which every value fits the bytes.
            (Some(FIXED), Some(length @ 1..=32)) => (f64::from(8 * length - 1) * std::f64::consts::LOG10_2) as i32,
            _ => return LeafKind::Plain,
        };
        match u8::try_from(precision).ok().filter(|precision| *precision <= DECIMAL256_MAX_PRECISION) {
            Some(wanted) if precision > most && element.scale.is_some_and(|scale| (0..=most).contains(&scale)) => {
                (element.precision, element.logical) = (Some(most), None);
                element.converted = Some(converted::DECIMAL);
                LeafKind::Decimal { precision: wanted }
            }
            _ => LeafKind::Plain,
        }
    }

    /// Rejects a column with an annotation that the format does not define.
    fn refuse_unknown(&mut self, element: &mut Element) {
        if let Some(found) = element.converted.filter(|found| !(0..=converted::INTERVAL).contains(found)) {
            self.refuse(&format!("converted type {found}"));
            strip(element);
        }
    }

    /// Adds a group, with an additional level around a map that is repeated as a list's element. Returns the original
    /// group.
    fn group(&mut self, mut element: Element, parent: Option<&Element>) -> Element {
        drop_unknown(&mut element);
        self.refuse_unknown(&mut element);
        let id = |element: &Element| element.logical.as_ref().map(|logical| logical.id);
        if id(&element) == Some(logical::VARIANT) {
            // Its parts are an encoding, whose values are not those of the column.
            self.refuse("a VARIANT");
            strip(&mut element);
        }
        let is_list = |parent: &Element| parent.converted == Some(converted::LIST) || id(parent) == Some(logical::LIST);
        let is_map = matches!(element.converted, Some(converted::MAP | converted::MAP_KEY_VALUE))
            || id(&element) == Some(logical::MAP);
        let original = element.clone();
        if is_map && element.repetition == Some(REPEATED) && parent.is_some_and(is_list) {
            let (repetition, children) = (Some(REPEATED), Some(1));
            self.elements.push(Element { repetition, name: b"list".to_vec(), children, ..Element::default() });
            element.repetition = Some(0);
        }
        self.elements.push(element);
        original
    }

    /// Removes all annotations if the library does not support the column's type.
    fn make_readable(&mut self, root: &Element) {
        let Err(error) = descriptor(root, std::slice::from_ref(self)) else { return };
        let reason = error.to_string();
        let reason = reason.trim_start_matches("Parquet error: ").trim_start_matches("Arrow: ");
        self.refuse(&format!("its type ({reason})"));
        self.elements.iter_mut().for_each(strip);
    }
}

/// Whether the values of a leaf are bytes in Arrow, of any length.
fn is_bytes(element: &Element) -> bool {
    element.physical == Some(BYTE_ARRAY)
        && element.converted.is_none_or(|found| found == converted::BSON)
        && element.logical.as_ref().is_none_or(|found| logical::BYTES.contains(&found.id))
}

/// Annotates an element as text.
fn annotate_text(element: &mut Element) {
    strip(element);
    element.converted = Some(converted::UTF8);
    element.logical = Some(Logical::plain(logical::STRING));
}

/// Removes the annotations of an element.
fn strip(element: &mut Element) {
    (element.converted, element.logical, element.scale, element.precision) = (None, None, None, None);
}

/// Removes a logical type that was added to the format later: the older annotation determines the type.
fn drop_unknown(element: &mut Element) {
    let is_known = |logical: &Logical| (1..=logical::LAST).contains(&logical.id);
    if element.logical.as_ref().is_some_and(|logical| !is_known(logical)) {
        element.logical = None;
    }
}
