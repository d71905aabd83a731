//! Reads the schema of a footer in Thrift's compact protocol.
//!
//! The library decodes footers itself, but rejects schemas of some later or older writers. So the schema is read here
//! first, and may be corrected before the library reads it. Everything else in the footer is left to the library. For
//! malformed bytes the functions return `None`, and then the library reports the error.

/// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// The field of a page header with the checksum of the page.
const PAGE_CRC: i16 = 4;

/// Maximum nesting depth of values; footers need 7.
const MAX_DEPTH: usize = 32;

/// An element of the schema: a column, or a group with its number of children.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Element {
    pub(super) physical: Option<i32>,
    pub(super) length: Option<i32>,
    pub(super) repetition: Option<i32>,
    pub(super) name: Vec<u8>,
    pub(super) children: Option<i32>,
    pub(super) converted: Option<i32>,
    pub(super) scale: Option<i32>,
    pub(super) precision: Option<i32>,
    pub(super) id: Option<i32>,
    pub(super) logical: Option<Logical>,
}

/// A logical type: its number in the union, and its encoded parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Logical {
    pub(super) id: i16,
    parameters: Vec<u8>,
}

impl Logical {
    /// Creates a logical type without parameters.
    pub(super) fn plain(id: i16) -> Self {
        Self { id, parameters: vec![0] }
    }

    /// Returns the first parameter, if it is a byte: the bit width of an integer.
    pub(super) fn first_byte(&self) -> Option<u8> {
        let mut reader = CompactReader { bytes: &self.parameters };
        match reader.field(&mut 0)? {
            Some((1, BYTE)) => reader.byte(),
            _ => None,
        }
    }
}

/// Reads the schema elements of an encoded footer.
pub(super) fn schema(footer: &[u8]) -> Option<Vec<Element>> {
    let mut reader = CompactReader { bytes: footer };
    let mut last = 0;
    while let Some((id, kind)) = reader.field(&mut last)? {
        if (id, kind) != (2, LIST) {
            reader.skip(kind, 0)?;
            continue;
        }
        let (STRUCT, size) = reader.list()? else { return None };
        // Each element takes at least two bytes.
        if size > reader.bytes.len() {
            return None;
        }
        return (0..size).map(|_| reader.element()).collect();
    }
    None
}

/// Returns the length of the encoded page header at the start of `bytes`.
pub(super) fn header_length(bytes: &[u8]) -> Option<usize> {
    let mut reader = CompactReader { bytes };
    reader.skip(STRUCT, 0)?;
    Some(bytes.len() - reader.bytes.len())
}

/// The header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the header.
    pub(super) length: usize,
    /// Bytes of the stored page.
    pub(super) stored: u64,
    /// Bytes of the decompressed page.
    pub(super) decompressed: u64,
    /// The checksum of the stored page.
    pub(super) crc: Option<u32>,
}

/// Reads the header of the page that begins with `bytes`.
pub(super) fn page_header(bytes: &[u8]) -> Option<PageHeader> {
    let mut reader = CompactReader { bytes };
    let (mut stored, mut decompressed, mut crc) = (None, None, None);
    let mut last = 0;
    while let Some((id, kind)) = reader.field(&mut last)? {
        match (id, kind) {
            (2, I32) => decompressed = Some(reader.number()?),
            (3, I32) => stored = Some(reader.number()?),
            (PAGE_CRC, I32) => crc = Some(reader.number()?.cast_unsigned()),
            (_, kind) => reader.skip(kind, 0)?,
        }
    }
    Some(PageHeader {
        length: bytes.len() - reader.bytes.len(),
        stored: u64::try_from(stored?).ok()?,
        decompressed: u64::try_from(decompressed?).ok()?,
        crc,
    })
}

/// Removes the checksum of the page header at the start of `bytes`, if it has one. The header keeps its length: the
/// number before it, the type of the page, takes more bytes than it needs.
pub(super) fn remove_crc(bytes: &mut [u8]) -> Option<()> {
    let mut reader = CompactReader { bytes };
    let mut last = 0;
    let Some((1, I32)) = reader.field(&mut last)? else { return None };
    reader.unsigned()?;
    let after_number = bytes.len() - reader.bytes.len();
    loop {
        let (before, start) = (last, bytes.len() - reader.bytes.len());
        let (id, kind) = reader.field(&mut last)??;
        reader.skip(kind, 0)?;
        if (id, kind) != (PAGE_CRC, I32) {
            continue;
        }
        let end = bytes.len() - reader.bytes.len();
        let next = *bytes.get(end)?;
        // The number of the next field is relative to the one before it, if it is not 0.
        let next = match next >> 4 {
            0 => next,
            delta => u8::try_from(i16::from(delta) + id - before).ok().filter(|delta| *delta < 16)? << 4 | next & 0x0f,
        };
        bytes[end] = next;
        bytes.copy_within(after_number..start, after_number + (end - start));
        // A byte with the highest bit set continues the number.
        bytes[after_number - 1] |= 0x80;
        let padding = &mut bytes[after_number..after_number + (end - start)];
        padding.fill(0x80);
        *padding.last_mut()? = 0;
        return Some(());
    }
}

/// Encodes a footer with this schema and without rows.
pub(super) fn footer_of(elements: &[Element]) -> Vec<u8> {
    let mut writer = Writer::default();
    let mut last = 0;
    writer.number(&mut last, 1, I32, 1);
    writer.field(&mut last, 2, LIST);
    writer.list(STRUCT, elements.len());
    elements.iter().for_each(|element| writer.element(element));
    writer.number(&mut last, 3, I64, 0);
    writer.field(&mut last, 4, LIST);
    writer.list(STRUCT, 0);
    writer.bytes.push(0);
    writer.bytes
}

/// The parts of a value to retain.
enum Retained {
    /// All of it.
    Whole,
    /// The fields of a struct with these numbers and types.
    Fields(&'static [(i16, u8, Retained)]),
    /// The elements of a list of structs.
    Items(&'static Retained),
}

const KEY_VALUE: Retained = Retained::Fields(&[(1, BINARY, Retained::Whole), (2, BINARY, Retained::Whole)]);

const COLUMN: Retained = Retained::Fields(&[
    (1, I32, Retained::Whole),
    (2, LIST, Retained::Whole),
    (3, LIST, Retained::Whole),
    (4, I32, Retained::Whole),
    (5, I64, Retained::Whole),
    (6, I64, Retained::Whole),
    (7, I64, Retained::Whole),
    (9, I64, Retained::Whole),
    (11, I64, Retained::Whole),
    (12, STRUCT, Retained::Whole),
]);

const CHUNK: Retained =
    Retained::Fields(&[(1, BINARY, Retained::Whole), (2, I64, Retained::Whole), (3, STRUCT, COLUMN)]);

const GROUP: Retained =
    Retained::Fields(&[(1, LIST, Retained::Items(&CHUNK)), (2, I64, Retained::Whole), (3, I64, Retained::Whole)]);

const FILE: Retained = Retained::Fields(&[
    (1, I32, Retained::Whole),
    (2, LIST, Retained::Whole),
    (3, I64, Retained::Whole),
    (4, LIST, Retained::Items(&GROUP)),
    (5, LIST, Retained::Items(&KEY_VALUE)),
    (6, BINARY, Retained::Whole),
    (7, LIST, Retained::Whole),
]);

/// Removes all fields of a footer that are not needed to read rows, or whose types differ from the format's.
///
/// Some writers used field numbers that the format later assigned to other fields. Others wrote values of another type.
/// Readers generated by Thrift skip such fields, but the library reports them as damage.
pub(super) fn essential(footer: &[u8]) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    CompactReader { bytes: footer }.copy(STRUCT, &FILE, &mut writer)?;
    Some(writer.bytes)
}

struct CompactReader<'a> {
    bytes: &'a [u8],
}

impl<'a> CompactReader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn number(&mut self) -> Option<i32> {
        i32::try_from(self.signed()?).ok()
    }

    fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.unsigned()?).ok()?;
        self.take(length)
    }

    /// Reads the number and the type of the next field, or the end of the struct.
    fn field(&mut self, last: &mut i16) -> Option<Option<(i16, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let id = match head >> 4 {
            0 => i16::try_from(self.signed()?).ok()?,
            delta => last.checked_add(i16::from(delta))?,
        };
        *last = id;
        Some(Some((id, head & 0x0f)))
    }

    fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => usize::try_from(self.unsigned()?).ok()?,
            size => usize::from(size),
        };
        Some((head & 0x0f, size))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.unsigned()?),
            DOUBLE => drop(self.take(8)?),
            BINARY => drop(self.binary()?),
            UUID => drop(self.take(16)?),
            LIST | SET => {
                let (of, size) = self.list()?;
                for _ in 0..size {
                    self.skip_element(of, depth + 1)?;
                }
            }
            MAP => {
                let size = self.unsigned()?;
                if size > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..size {
                        self.skip_element(kinds >> 4, depth + 1)?;
                        self.skip_element(kinds & 0x0f, depth + 1)?;
                    }
                }
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn copy(&mut self, kind: u8, shape: &Retained, writer: &mut Writer) -> Option<()> {
        match (shape, kind) {
            (Retained::Fields(fields), STRUCT) => {
                let (mut last, mut written) = (0, 0);
                while let Some((id, kind)) = self.field(&mut last)? {
                    match fields.iter().find(|(known, expected, _)| (*known, *expected) == (id, kind)) {
                        Some((_, _, shape)) => {
                            writer.field(&mut written, id, kind);
                            self.copy(kind, shape, writer)?;
                        }
                        None => self.skip(kind, 0)?,
                    }
                }
                writer.bytes.push(0);
            }
            (Retained::Items(shape), LIST) => {
                let (STRUCT, size) = self.list()? else { return None };
                writer.list(STRUCT, size);
                for _ in 0..size {
                    self.copy(STRUCT, shape, writer)?;
                }
            }
            _ => {
                let before = self.bytes;
                self.skip(kind, 0)?;
                writer.bytes.extend_from_slice(&before[..before.len() - self.bytes.len()]);
            }
        }
        Some(())
    }

    /// Inside lists a boolean takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => self.byte().map(drop),
            kind => self.skip(kind, depth),
        }
    }

    fn element(&mut self) -> Option<Element> {
        let mut element = Element::default();
        let mut last = 0;
        while let Some((id, kind)) = self.field(&mut last)? {
            match (id, kind) {
                (1, I32) => element.physical = Some(self.number()?),
                (2, I32) => element.length = Some(self.number()?),
                (3, I32) => element.repetition = Some(self.number()?),
                (4, BINARY) => element.name = self.binary()?.to_vec(),
                (5, I32) => element.children = Some(self.number()?),
                (6, I32) => element.converted = Some(self.number()?),
                (7, I32) => element.scale = Some(self.number()?),
                (8, I32) => element.precision = Some(self.number()?),
                (9, I32) => element.id = Some(self.number()?),
                (10, STRUCT) => element.logical = self.logical()?,
                (_, kind) => self.skip(kind, 0)?,
            }
        }
        Some(element)
    }

    /// Reads the member of the union; the inner `None` if it has no struct member.
    fn logical(&mut self) -> Option<Option<Logical>> {
        let mut found = None;
        let mut last = 0;
        while let Some((id, kind)) = self.field(&mut last)? {
            let before = self.bytes;
            self.skip(kind, 0)?;
            if kind == STRUCT {
                found = Some(Logical { id, parameters: before[..before.len() - self.bytes.len()].to_vec() });
            }
        }
        Some(found)
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    fn field(&mut self, last: &mut i16, id: i16, kind: u8) {
        match id - *last {
            delta @ 1..=15 => self.bytes.push((delta as u8) << 4 | kind),
            _ => {
                self.bytes.push(kind);
                self.signed(id.into());
            }
        }
        *last = id;
    }

    fn number(&mut self, last: &mut i16, id: i16, kind: u8, value: i64) {
        self.field(last, id, kind);
        self.signed(value);
    }

    fn numbers(&mut self, last: &mut i16, fields: &[(i16, Option<i32>)]) {
        for (id, value) in fields.iter().filter_map(|(id, value)| Some((*id, (*value)?))) {
            self.number(last, id, I32, value.into());
        }
    }

    fn binary(&mut self, value: &[u8]) {
        self.unsigned(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    fn list(&mut self, kind: u8, size: usize) {
        match size {
            0..15 => self.bytes.push((size as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                self.unsigned(size as u64);
            }
        }
    }

    fn element(&mut self, element: &Element) {
        let mut last = 0;
        self.numbers(&mut last, &[(1, element.physical), (2, element.length), (3, element.repetition)]);
        self.field(&mut last, 4, BINARY);
        self.binary(&element.name);
        let decimal = [(7, element.scale), (8, element.precision), (9, element.id)];
        self.numbers(&mut last, &[(5, element.children), (6, element.converted)]);
        self.numbers(&mut last, &decimal);
        if let Some(logical) = &element.logical {
            self.field(&mut last, 10, STRUCT);
            self.field(&mut 0, logical.id, STRUCT);
            self.bytes.extend_from_slice(&logical.parameters);
            self.bytes.push(0);
        }
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parquet_schema_round_trips() {
        let elements = vec![
            Element { name: b"root".to_vec(), children: Some(2), ..Element::default() },
            Element {
                physical: Some(7),
                length: Some(12),
                repetition: Some(1),
                name: b"interval".to_vec(),
                converted: Some(21),
                id: Some(-5),
                logical: Some(Logical::plain(300)),
                ..Element::default()
            },
            Element {
                physical: Some(2),
                repetition: Some(0),
                name: b"decimal".to_vec(),
                scale: Some(3),
                precision: Some(18),
                ..Element::default()
            },
        ];
        let footer = footer_of(&elements);
        assert_eq!(schema(&footer), Some(elements.clone()));
        for length in 0..footer.len() - 6 {
            assert_eq!(schema(&footer[..length]), None, "cut after {length} bytes");
        }
        let many = vec![elements[0].clone(); 300];
        assert_eq!(schema(&footer_of(&many)).map(|found| found.len()), Some(300));
    }

    #[test]
    fn a_checksum_is_removed_in_place() {
        // Type 2, 300 and 200 bytes, a checksum, and a struct with one number.
        let header = |crc: Option<i32>| {
            let mut writer = Writer::default();
            let mut last = 0;
            writer.number(&mut last, 1, I32, 2);
            writer.number(&mut last, 2, I32, 300);
            writer.number(&mut last, 3, I32, 200);
            if let Some(crc) = crc {
                writer.number(&mut last, PAGE_CRC, I32, crc.into());
            }
            writer.field(&mut last, 7, STRUCT);
            writer.number(&mut 0, 1, I32, 5);
            writer.bytes.extend([0, 0, b'x', b'y']);
            writer.bytes
        };
        for crc in [0, 5, -1, i32::MIN, 123_456_789] {
            let mut bytes = header(Some(crc));
            let found = page_header(&bytes).unwrap();
            assert_eq!(found.crc, Some(crc.cast_unsigned()));
            assert_eq!(remove_crc(&mut bytes), Some(()));
            assert_eq!(page_header(&bytes), Some(PageHeader { crc: None, ..found }));
            assert!(bytes.ends_with(b"xy"));
        }
        let mut bytes = header(None);
        assert_eq!(remove_crc(&mut bytes), None);
        assert_eq!(bytes, header(None));
    }

    #[test]
    fn lengths_are_not_trusted() {
        for bytes in [&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0x19, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x7f]] {
            assert_eq!(schema(bytes), None);
        }
        assert_eq!(header_length(&[0xff; 40]), None);
    }
}
