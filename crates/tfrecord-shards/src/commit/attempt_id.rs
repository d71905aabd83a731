//! [`AttemptId`]: identifies one attempt of a task.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Identifies one attempt of a task that writes shards of a set. Two attempts of a task may run at the same time, and
/// never use the same files.
///
/// Ids sort by creation time (UUID version 7, RFC 9562).
///
/// ```
/// use tfrecord_shards::AttemptId;
///
/// let attempt = AttemptId::new();
/// assert_eq!(attempt.to_string().parse(), Ok(attempt));
/// assert!(attempt < AttemptId::new());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttemptId(Uuid);

impl AttemptId {
    /// Generates an id.
    #[expect(clippy::new_without_default, reason = "no two are equal, so none is the default")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// A text that is not the id of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of an attempt: expected the 32 hexadecimal digits of a UUID of version 7")]
pub struct ParseAttemptIdError(String);

impl FromStr for AttemptId {
    type Err = ParseAttemptIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = Uuid::try_parse(text).ok().filter(|id| id.get_version_num() == 7).map(Self);
        // Rejects the other notations of a UUID.
        id.filter(|id| id.to_string() == text).ok_or_else(|| ParseAttemptIdError(text.to_owned()))
    }
}

impl TryFrom<String> for AttemptId {
    type Error = ParseAttemptIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<AttemptId> for String {
    fn from(attempt: AttemptId) -> Self {
        attempt.to_string()
    }
}
