//! [`Change`]: the difference between two versions of a file.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use object_store::ObjectMeta;
use object_store::path::Path;

/// How a file differs from its version in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It has another length.
    Size {
        /// The length when it was listed, in bytes.
        expected: u64,
        /// The length found, in bytes.
        found: u64,
    },
    /// It has another modification time.
    Modified,
    /// The store gives it another entity tag.
    Tag,
    /// The store reports that it no longer has the listed version.
    Superseded,
    /// It no longer exists.
    Removed,
}

impl Change {
    /// Compares the version that a store has sent with the listed one. Without two strong entity tags, the length and
    /// the modification time decide.
    pub fn between(listed: &ObjectMeta, found: &ObjectMeta) -> Option<Self> {
        if listed.size != found.size {
            return Some(Self::Size { expected: listed.size, found: found.size });
        }
        if let (Some(expected), Some(found)) = (strong_tag(listed), strong_tag(found)) {
            // Some services quote a tag in answers and not in listings.
            return (expected.trim_matches('"') != found.trim_matches('"')).then_some(Self::Tag);
        }
        let [expected, found] = [listed, found].map(|meta| meta.last_modified);
        // The client reports a missing time as that of the epoch.
        let is_missing = [expected, found].iter().any(|time| time.timestamp() == 0);
        // A web server reports whole seconds.
        let is_exact = [expected, found].iter().all(|time| time.timestamp_subsec_nanos() > 0);
        let is_same = expected == found || !is_exact && expected.timestamp() == found.timestamp();
        (!is_missing && !is_same).then_some(Self::Modified)
    }
}

/// Returns the entity tag if it is strong. Weak tags cannot be used in conditions (RFC 9110, section 13.1.1).
pub fn strong_tag(meta: &ObjectMeta) -> Option<&str> {
    meta.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"))
}

/// Returns the version of a local file, as the store of local files would.
pub fn local_meta(location: Path, metadata: &Metadata, modified: SystemTime) -> ObjectMeta {
    let since_epoch = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let e_tag = format!("{:x}-{:x}-{:x}", metadata.ino(), since_epoch.as_micros(), metadata.len());
    ObjectMeta { location, last_modified: modified.into(), size: metadata.len(), e_tag: Some(e_tag), version: None }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { expected, found } => write!(f, "expected the {expected} bytes of the listing, found {found}"),
            Self::Modified => f.write_str("its modification time is not that of the listing"),
            Self::Tag => f.write_str("its entity tag is not that of the listing"),
            Self::Superseded => f.write_str("the store no longer has the listed version"),
            Self::Removed => f.write_str("it no longer exists"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn meta(size: u64, milliseconds: u64, tag: Option<&str>) -> ObjectMeta {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
        let e_tag = tag.map(str::to_owned);
        ObjectMeta { location: Path::from("f"), last_modified: modified.into(), size, e_tag, version: None }
    }

    #[test]
    fn file_version_is_the_strong_tag_or_length_and_time() {
        let change = |listed, found| Change::between(&listed, &found);
        assert_eq!(change(meta(7, 5000, Some("\"a\"")), meta(7, 9000, Some("\"a\""))), None);
        assert_eq!(change(meta(7, 5000, Some("a")), meta(7, 5000, Some("\"a\""))), None, "a listing of Azure");
        assert_eq!(change(meta(7, 5000, Some("\"a\"")), meta(7, 5000, Some("\"b\""))), Some(Change::Tag));
        let size = Change::Size { expected: 7, found: 8 };
        assert_eq!(change(meta(7, 5000, Some("\"a\"")), meta(8, 5000, Some("\"a\""))), Some(size));
        for tags in [[None, None], [Some("W/\"a\""), Some("W/\"b\"")], [Some("\"a\""), None]] {
            assert_eq!(change(meta(7, 5123, tags[0]), meta(7, 5000, tags[1])), None, "the second is the same");
            assert_eq!(change(meta(7, 5000, tags[0]), meta(7, 6000, tags[1])), Some(Change::Modified));
            assert_eq!(change(meta(7, 5123, tags[0]), meta(7, 5124, tags[1])), Some(Change::Modified));
            assert_eq!(change(meta(7, 5000, tags[0]), meta(7, 0, tags[1])), None, "no time");
        }
    }
}
