//! [`StandardInput`]: a table that is piped in.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use tfr_files::LocationText;
use tokio::task::spawn_blocking;

use crate::error::{Error, Result};
use crate::spill::SpillDirectory;

/// How a location names standard input. A file of this name is `./-`.
const NAME: &str = "-";

/// Standard input as a file: formats are told from the first bytes, some are read from the end, and a query may read a
/// table twice. So it is copied, once and where the query spills to, before anything looks at it.
#[derive(Debug)]
pub struct StandardInput {
    copy: PathBuf,
    is_query: bool,
    is_copied: bool,
}

impl StandardInput {
    /// Nothing is read yet. `is_query`: the text of the query came from there.
    pub fn new(spill: &SpillDirectory, is_query: bool) -> Self {
        Self { copy: spill.standard_input(), is_query, is_copied: false }
    }

    /// The locations, with the file in the place of each `-`.
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
            // On a thread of its own, since whoever writes may take long.
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
