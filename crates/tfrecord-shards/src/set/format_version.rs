//! [`FormatVersion`]: the version of a manifest's format.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format version that this release writes.
pub const FORMAT_VERSION: FormatVersion = FormatVersion { major: 1, minor: 6 };

/// Version of the manifest's format: `1.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FormatVersion {
    /// Changes when an older reader would misread the manifest.
    pub major: u32,
    /// Changes when fields are added.
    pub minor: u32,
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<FormatVersion> for String {
    fn from(version: FormatVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for FormatVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parse = || {
            let (major, minor) = text.split_once('.')?;
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        };
        parse().ok_or_else(|| format!("{text:?} is not a format version: expected something like \"{FORMAT_VERSION}\""))
    }
}
