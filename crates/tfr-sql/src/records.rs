//! `head` and `cat`: records as text, one after the other.

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

/// Bytes of text that are sent at once.
const TEXT_BLOCK: usize = 64 << 10;

/// Records that are read at once; a pipe that is slow to fill is not waited for longer than one read.
const RECORDS: usize = 1024;

/// Prints records, at most `limit`.
pub fn print(source: RecordSource, stores: &StoreArgs, limit: Option<u64>, mut work: Work<'_>) -> Result<ExitStatus> {
    let printer = work.printer.clone();
    let mut inputs = Vec::with_capacity(source.files.len());
    for path in &source.files {
        if path.as_os_str() == "-" {
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

/// What is read after the other.
enum Named {
    StandardInput,
    /// All that one pattern or path leads to.
    Files(Vec<Input>),
}

/// Records on their way to standard output.
struct RecordText<'a> {
    printer: &'a Printer,
    form: RecordForm,
    /// How many more records are wanted.
    left: u64,
    /// What has not been sent yet.
    text: Vec<u8>,
    /// Whether records are missing that should be there.
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

    /// Adds the records of one file. Those before damage are sent before the error is told.
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
            // Whoever feeds a pipe slowly wants to see what has come.
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

/// Sixteen bytes a line: where they stand, each in hexadecimal, and as text what is printable ASCII of them.
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
