//! Hints for damaged files and files that are not TFRecord files.

use tfrecord_framing::array_record::Defect;
use tfrecord_framing::{Error, ErrorKind, Position};

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::LengthCrc { len: 0, found: 0, .. } => {
            Some("these are zero bytes: padding, or a part of the file that was never written")
        }
        ErrorKind::LengthCrc { position: Position { byte: 0, .. }, .. } => Some(
            "this may not be a TFRecord file: query a table of another format, as in FROM 'events.csv'; or the file is \
             compressed, and its compression was not specified",
        ),
        ErrorKind::LengthCrc { .. } | ErrorKind::DataCrc { .. } => {
            Some("the file was damaged after it was written: fetch or write it again")
        }
        ErrorKind::Truncated { .. } => Some("the file was copied in part, or its writer did not finish"),
        ErrorKind::Compression { position: Position { byte: 0, .. }, .. } => {
            Some("the file may have another compression than the one named, or none")
        }
        ErrorKind::WrongContainer { .. } => {
            Some("specify the compression or the format found, or leave it out to have it detected")
        }
        ErrorKind::ArrayRecord { source, .. } => Some(match source.defect {
            Defect::NoPostscript | Defect::Truncated { .. } => {
                "the file was copied in part, or its writer did not finish: 'tfr-sql salvage FILE --out DIR' copies the \
                 records of its whole chunks"
            }
            Defect::Transposed => "write the file without the option transpose, or copy its records with array_record",
            _ => {
                "the file was damaged after it was written: fetch or write it again; 'tfr-sql salvage FILE --out DIR' \
                 copies the records of its intact chunks"
            }
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
