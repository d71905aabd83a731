//! [`MessageTarget`]: where `--messages` writes.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// The option, as it is typed.
const FLAG: &str = "--messages";

/// The open descriptor or file that receives messages. Clones write to the same one.
#[derive(Clone, Debug)]
pub struct MessageTarget(Arc<Mutex<File>>);

impl MessageTarget {
    /// Opens `fd:N`, a descriptor that this process has inherited, or a file to append to.
    pub(super) fn open(target: &str) -> Result<Self, String> {
        let path = match target.strip_prefix("fd:") {
            Some(number) => {
                let number: u32 = number.parse().map_err(|_| "expected fd: and a number, as in fd:3".to_owned())?;
                PathBuf::from(format!("/dev/fd/{number}"))
            }
            None => PathBuf::from(target),
        };
        // Appended, because others may write to the same file.
        let file = OpenOptions::new().append(true).create(!target.starts_with("fd:")).open(path);
        file.map(|file| Self(Arc::new(Mutex::new(file)))).map_err(|error| format!("cannot be written: {error}"))
    }

    /// Returns the target in arguments that could not be parsed, if it can be opened.
    pub fn of_arguments(arguments: &[OsString]) -> Option<Self> {
        let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
        let target = loop {
            let argument = arguments.next()?;
            if argument == FLAG {
                break arguments.next()?;
            }
            if let Some(target) = argument.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) {
                break target;
            }
        };
        Self::open(target).ok()
    }

    /// Writes a message as one line.
    pub fn write(&self, message: &Value) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{message}\n").as_bytes())
    }
}
