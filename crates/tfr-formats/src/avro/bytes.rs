//! [`Bytes`]: the binary encoding of Avro, from the start of a block to its end.

use super::schema::AvroType;

/// Maximum number of consecutive values that take no bytes.
const MAX_EMPTY_VALUES: u64 = 1 << 24;

/// Why a value cannot be read.
#[derive(Debug)]
pub(super) struct Fault {
    /// The path in the record, innermost name first.
    path: Vec<String>,
    reason: String,
}

pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { path: Vec::new(), reason: reason.into() }
    }

    /// Adds the column that contains the value to the path.
    pub(super) fn within(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }

    /// Describes the defect and its path.
    pub(super) fn describe(&self) -> String {
        let path: Vec<_> = self.path.iter().rev().map(String::as_str).collect();
        match path.is_empty() {
            true => self.reason.clone(),
            false => format!("column \"{}\": {}", path.join("."), self.reason),
        }
    }
}

/// The remaining bytes of a block.
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(block: &'a [u8]) -> Self {
        Self { rest: block }
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(Fault::new(format!("{len} bytes should follow, but {} do", self.rest.len())));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(Fault::new(format!("{N} bytes should follow, but {} do", self.rest.len())));
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn boolean(&mut self) -> Result<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(Fault::new(format!("byte {byte} for a boolean"))),
        }
    }

    /// Reads a zigzag varint: seven bits per byte, the lowest first, the sign in the lowest bit.
    pub(super) fn long(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Fault::new("a number of more than 64 bits"))
    }

    pub(super) fn int(&mut self) -> Result<i32> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Fault::new(format!("{value} for a number of 32 bits")))
    }

    /// Reads length-prefixed bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.long()?;
        match usize::try_from(len) {
            Ok(len) => self.take(len),
            Err(_) => Err(Fault::new(format!("a string of {len} bytes"))),
        }
    }

    /// Reads the index of a union's branch.
    pub(super) fn branch(&mut self, branches: usize) -> Result<usize> {
        let branch = self.long()?;
        usize::try_from(branch)
            .ok()
            .filter(|branch| *branch < branches)
            .ok_or_else(|| Fault::new(format!("branch {branch} of a union of {branches}")))
    }

    /// Reads the blocks of an array or map, whose elements take at least `min_len` bytes each.
    pub(super) fn blocks(&mut self, min_len: usize, mut element: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        loop {
            let count = self.long()?;
            if count < 0 {
                // The length of the block in bytes.
                self.long()?;
            }
            let count = count.unsigned_abs();
            if count == 0 {
                return Ok(());
            }
            let most = match min_len {
                0 => MAX_EMPTY_VALUES,
                min_len => (self.left() / min_len) as u64,
            };
            if count > most {
                return Err(Fault::new(format!("{count} elements in {} bytes", self.left())));
            }
            (0..count).try_for_each(|_| element(self))?;
        }
    }

    /// Skips a value.
    pub(super) fn skip(&mut self, data_type: &AvroType) -> Result<()> {
        match data_type {
            AvroType::Null => {}
            AvroType::Boolean => drop(self.boolean()?),
            AvroType::Int(_) | AvroType::Long(_) | AvroType::Enum(_) => drop(self.long()?),
            AvroType::Float => drop(self.take(4)?),
            AvroType::Double => drop(self.take(8)?),
            AvroType::Duration => drop(self.take(12)?),
            AvroType::Bytes | AvroType::String | AvroType::Decimal { size: None, .. } => drop(self.bytes()?),
            AvroType::Fixed(size) | AvroType::Decimal { size: Some(size), .. } => drop(self.take(*size)?),
            AvroType::Array(item) => self.blocks(item.min_len(), |bytes| bytes.skip(item))?,
            AvroType::Map(value) => self.blocks(value.min_len().saturating_add(1), |bytes| {
                bytes.bytes()?;
                bytes.skip(value)
            })?,
            AvroType::Record(fields) => {
                for field in fields {
                    self.skip(&field.data_type).map_err(|fault| fault.within(&field.name))?;
                }
            }
            AvroType::Union(branches) => {
                let branch = self.branch(branches.len())?;
                self.skip(&branches[branch])?;
            }
        }
        Ok(())
    }
}
