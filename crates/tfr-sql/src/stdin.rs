//! [`StandardInput`]: a table on standard input.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use tfr_files::LocationText;
use tokio::task::spawn_blocking;

use crate::error::{Error, Result};
use crate::spill::SpillDirectory;

/// The location that means standard input. A file of this name is `./-`.
const NAME: &str = "-";

/// Copies standard input to a file. Formats are detected from the first bytes, some are read from the end, and a query
/// may read a table twice. The copy is made once, in the spill directory, before anything else reads it.
#[derive(Debug)]
pub struct StandardInput {
    copy: PathBuf,
    is_query: bool,
    is_copied: bool,
}

impl StandardInput {
    /// Creates the state before anything is read. `is_query`: the query text was read from standard input.
    pub fn new(spill: &SpillDirectory, is_query: bool) -> Self {
        Self { copy: spill.standard_input(), is_query, is_copied: false }
    }

    /// Returns the locations, with each `-` replaced by the copy.
    pub async fn stand_in(&mut self, locations: &[LocationText]) -> Result<Vec<LocationText>> {
        let mut found = Vec::with_capacity(locations.len());
        for location in locations {
            found.push(if location.with_secrets() == NAME { self.file().await?.into() } else { location.clone() });
        }
        Ok(found)
    }

    async fn file(&mut self) -> Result<String> {
        if self.is_query {
            return Err(Error::StandardInputTwice);
        }
        if !self.is_copied {
            let path = self.copy.clone();
            // On its own thread, because the writer of the pipe may be slow.
            let copied = spawn_blocking(move || io::copy(&mut io::stdin().lock(), &mut File::create_new(path)?)).await;
            let copied = copied.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
            let bytes = copied.map_err(|source| Error::SpoolInput { path: self.copy.clone(), source })?;
            log::info!("standard input: {bytes} bytes, kept in {} for the query", self.copy.display());
            self.is_copied = true;
        }
        let path = self.copy.to_str().map(str::to_owned);
        path.ok_or_else(|| Error::SpoolInput { path: self.copy.clone(), source: io::ErrorKind::InvalidFilename.into() })
    }
}
