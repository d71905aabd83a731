//! `head` and `cat`: print records as text.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use std::slice;

use tfrecord_framing::{Position, RecordReader, Records};
use tfrecord_shards::{ErrorKind, FindingKind, Input, files};
use tfrecord_sidecars::{json_line, textproto};

use crate::cli::{RecordForm, RecordSource, StoreArgs};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::printer::Printer;
use crate::tool::Work;

/// Bytes of text that are sent at a time.
const TEXT_BLOCK: usize = 64 << 10;

/// Records that are read at a time. For a slow pipe, at most one read is waited for.
const RECORDS: usize = 1024;

/// Prints up to `limit` records.
pub fn print(source: RecordSource, stores: &StoreArgs, limit: Option<u64>, mut work: Work<'_>) -> Result<ExitStatus> {
    let printer = work.printer.clone();
    let mut inputs = Vec::with_capacity(source.files.len());
    for path in &source.files {
        if path.as_os_str() == "-" {
            work.door.check_standard_input()?;
            inputs.push(Named::StandardInput);
            continue;
        }
        match inputs::open(slice::from_ref(path), stores, &mut work)? {
            Ok(found) => inputs.push(Named::Files(found)),
            Err(status) => return Ok(status),
        }
    }
    let printed = work.until_signal(move || {
        let mut text = RecordText {
            printer: &printer,
            form: source.form,
            left: limit.unwrap_or(u64::MAX),
            text: Vec::new(),
            incomplete: false,
        };
        for input in &inputs {
            if text.left == 0 {
                break;
            }
            text.add_named(input)?;
        }
        Ok(if text.incomplete { ExitStatus::Failed } else { ExitStatus::Done })
    })?;
    Ok(printed.unwrap_or_else(|status| status))
}

/// An input argument.
enum Named {
    StandardInput,
    /// All files that one pattern or path names.
    Files(Vec<Input>),
}

/// Converts records to text and sends it to standard output.
struct RecordText<'a> {
    printer: &'a Printer,
    form: RecordForm,
    /// The number of records still to print.
    left: u64,
    /// Text that has not been sent yet.
    text: Vec<u8>,
    /// Whether records are missing because of damage.
    incomplete: bool,
}

impl RecordText<'_> {
    fn add_named(&mut self, named: &Named) -> Result<()> {
        match named {
            Named::StandardInput => self.add(io::stdin().lock(), Path::new("standard input")),
            Named::Files(inputs) => inputs.iter().try_for_each(|input| self.add_input(input)),
        }
    }

    fn add_input(&mut self, input: &Input) -> Result<()> {
        let (files, findings) = files(slice::from_ref(input))?;
        for finding in findings {
            // Records of another version of the set must not be mixed with those of this one.
            if matches!(finding.kind, FindingKind::Length { .. } | FindingKind::ChangedManifest { .. }) {
                return Err(tfrecord_shards::Error::from(ErrorKind::NotWhole(finding)).into());
            }
            self.incomplete |= matches!(finding.kind, FindingKind::MissingShard | FindingKind::Unreadable(_));
            self.printer.warning(finding);
        }
        if files.is_empty() {
            return Err(tfrecord_shards::Error::from(ErrorKind::NoFiles { path: input.path().to_owned() }).into());
        }
        for file in files {
            if self.left == 0 {
                break;
            }
            let opened = input.open(&file).map_err(|source| Error::Read { path: file.clone(), source })?;
            self.add(opened, &file)?;
        }
        Ok(())
    }

    /// Adds the records of one file. Records before a defect are sent before the error is reported.
    fn add(&mut self, input: impl Read, path: &Path) -> Result<()> {
        let mut reader = RecordReader::detect(input);
        let mut records = Records::new();
        while self.left > 0 {
            records.clear();
            let limit = usize::try_from(self.left).unwrap_or(usize::MAX).min(RECORDS);
            let read = reader.read_records(limit, &mut records);
            for (record, &position) in records.iter().zip(records.positions()) {
                if let Err(error) = self.add_record(record, position, path) {
                    self.send()?;
                    return Err(Error::Record { path: path.to_owned(), position, error });
                }
                if self.text.len() >= TEXT_BLOCK {
                    self.send()?;
                }
            }
            self.left -= records.len() as u64;
            // The writer of a slow pipe expects to see its records soon.
            self.send()?;
            match read {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(Error::Records { path: path.to_owned(), error }),
            }
        }
        Ok(())
    }

    fn add_record(&mut self, record: &[u8], position: Position, path: &Path) -> Result<(), tfrecord_sidecars::Error> {
        let text = match self.form {
            RecordForm::Json => json_line(record)? + "\n",
            RecordForm::Textproto => format!("# {}: {position}\n{}", path.display(), textproto(record)?),
            RecordForm::Hex => {
                format!("# {}: {position}, {} bytes\n{}", path.display(), record.len(), hex_dump(record))
            }
        };
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if !self.text.is_empty() {
            self.printer.data(&self.text).map_err(Error::Stdout)?;
            self.text.clear();
        }
        Ok(())
    }
}

/// Formats sixteen bytes a line: the offset, each byte in hexadecimal, and the printable ASCII characters.
fn hex_dump(bytes: &[u8]) -> String {
    const ACROSS: usize = 16;
    let mut text = String::with_capacity(bytes.len().div_ceil(ACROSS) * 78);
    for (line, bytes) in bytes.chunks(ACROSS).enumerate() {
        // Writing into a string does not fail.
        let _ = write!(text, "{:08x} ", line * ACROSS);
        for i in 0..ACROSS {
            if i % 8 == 0 {
                text.push(' ');
            }
            let _ = match bytes.get(i) {
                Some(byte) => write!(text, "{byte:02x} "),
                None => write!(text, "   "),
            };
        }
        text.push_str(" |");
        text.extend(bytes.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        }));
        text.push_str("|\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::hex_dump;

    #[test]
    fn a_dump_has_sixteen_bytes_a_line() {
        let bytes: Vec<_> = (b'a'..=b'r').chain([0, 0xff]).collect();
        assert_eq!(
            hex_dump(&bytes),
            "00000000  61 62 63 64 65 66 67 68  69 6a 6b 6c 6d 6e 6f 70  |abcdefghijklmnop|\n\
             00000010  71 72 00 ff                                       |qr..|\n"
        );
    }
}
