//! [`MessageTarget`]: where `--messages` writes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;

use crate::interrupt::Interrupt;

/// The option, as it is typed.
const FLAG: &str = "--messages";

/// The interval at which a full pipe is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// The open descriptor or file that receives messages. Clones write to the same one.
#[derive(Clone, Debug)]
pub struct MessageTarget(Arc<MessageFile>);

#[derive(Debug)]
struct MessageFile {
    /// `None` after a message was cut short, because no other can follow on the same line.
    file: Mutex<Option<File>>,
    /// The signals of the run, once they are watched.
    interrupt: OnceLock<Interrupt>,
}

impl MessageTarget {
    /// Opens `fd:N`, a descriptor that this process has inherited, or a file to append to.
    pub(super) fn open(target: &str) -> Result<Self, String> {
        let file = match target.strip_prefix("fd:") {
            Some(number) => {
                let number: u32 = number.parse().map_err(|_| "expected fd: and a number, as in fd:3".to_owned())?;
                open_descriptor(number)?
            }
            None => open_file(Path::new(target)).map_err(|error| cannot_write(&error))?,
        };
        Ok(Self(Arc::new(MessageFile { file: Mutex::new(Some(file)), interrupt: OnceLock::new() })))
    }

    /// Returns the target in arguments that could not be parsed, if it can be opened.
    pub(crate) fn of_arguments(arguments: &[OsString]) -> Option<Self> {
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

    /// Stops waiting for a reader of the messages once `interrupt` asks the run to stop.
    pub(crate) fn stop_at(&self, interrupt: Interrupt) {
        // A run has one interrupt.
        let _ = self.0.interrupt.set(interrupt);
    }

    /// Writes a message as one line. Waits while a pipe is full, until the run is asked to stop.
    pub fn write(&self, message: &Value) -> io::Result<()> {
        let line = format!("{message}\n");
        let mut rest = line.as_bytes();
        let mut target = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = target.as_mut() else { return Ok(()) };
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.0.interrupt.get().is_some_and(|interrupt| interrupt.already().is_some()) {
                        if rest.len() < line.len() {
                            *target = None;
                        }
                        return Err(error);
                    }
                    thread::sleep(RETRY);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens an inherited descriptor. Linux opens what it refers to anew, with the access of this call and flags of its own.
/// Other systems duplicate it, and check the access.
fn open_descriptor(number: u32) -> Result<File, String> {
    match access(number) {
        Some(None) => return Err(format!("descriptor {number} is not open")),
        Some(Some(flags)) if !flags.intersects(OFlags::WRONLY | OFlags::RDWR) => {
            return Err(format!("descriptor {number} is not open for writing"));
        }
        _ => {}
    }
    // Appended, because others may write to the same file. Not waiting, because a pipe may have lost its readers.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().append(true).custom_flags(flags).open(format!("/dev/fd/{number}"));
    file.map_err(|error| cannot_write(&error))
}

/// Returns the flags of a descriptor, or `Some(None)` if it is not open. Returns `None` on a system without `/proc`.
fn access(number: u32) -> Option<Option<OFlags>> {
    let directory = Path::new("/proc/self/fdinfo");
    match fs::read_to_string(directory.join(number.to_string())) {
        Ok(text) => {
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
            let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
            Some(Some(OFlags::from_bits_retain(flags)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists() => Some(None),
        Err(_) => None,
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    // Not before, because a named pipe may have no reader yet.
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
    Ok(file)
}

fn cannot_write(error: &io::Error) -> String {
    format!("cannot be written: {error}")
}
