//! Finds the metadata file of the newest version of a table in a directory.

use std::collections::BTreeMap;

use object_store::path::Path;

/// The file that names a version. It may be an old one.
pub(super) const HINT: &str = "version-hint.text";

/// The directory of the metadata files of a table.
pub(super) const METADATA: &str = "metadata";

/// What the name of a metadata file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataName {
    /// The version of a table whose directory is its catalog.
    Version(i32),
    /// A version in another form, such as `v003`, for which Iceberg does not look.
    OtherForm,
    /// A version that counts if a catalog names it.
    OfCatalog,
}

impl MetadataName {
    /// Parses `v3.metadata.json`, `v3.gz.metadata.json`, `00003-<uuid>.metadata.json` and the like. `None` for the names
    /// of other files.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let stem = name.strip_suffix(".metadata.json")?;
        let stem = stem.strip_suffix(".gz").unwrap_or(stem);
        match stem.strip_prefix('v') {
            Some(version) if is_number(version) => Some(match version.parse::<i32>() {
                Ok(number) if number.to_string() == version => Self::Version(number),
                _ => Self::OtherForm,
            }),
            Some(_) => None,
            None => {
                // A number and a UUID, or one of them.
                let (first, uuid) = stem.split_once('-').unwrap_or((stem, ""));
                (is_number(first) || is_uuid(stem) || is_uuid(uuid)).then_some(Self::OfCatalog)
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    let is_hex = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.len() == 5
        && groups.iter().zip([8, 4, 4, 4, 12]).all(|(group, length)| group.len() == length && is_hex(group))
}

/// Returns the metadata file of the newest version among the files of a directory. `hint` is the content of the
/// [`HINT`].
///
/// The first line of the hint is a number, with nothing around it but a sign. From that version on, the versions are
/// counted up as long as their files are there. Without such a hint the highest version counts. Iceberg's own reader
/// does the same (`HadoopTableOperations.findVersion`). The error is why none is the newest.
pub(super) fn newest(files: &[Path], hint: Option<&str>) -> Result<Path, String> {
    let mut versions: BTreeMap<i32, Vec<&Path>> = BTreeMap::new();
    for path in files {
        match path.filename().and_then(MetadataName::parse) {
            Some(MetadataName::Version(version)) => versions.entry(version).or_default().push(path),
            Some(MetadataName::OfCatalog) => {
                return Err("an Iceberg table of a catalog: name the metadata file that the catalog records, as in \
                     metadata/00003-....metadata.json; the newest file in the directory may be of a commit that failed"
                    .to_owned());
            }
            Some(MetadataName::OtherForm) | None => {}
        }
    }
    let first = hint.and_then(|hint| hint.split(['\n', '\r']).next());
    let hinted = first.and_then(|line| line.parse().ok());
    let newest = match hinted {
        Some(version) if !versions.contains_key(&version) => {
            return Err(format!("{METADATA}/{HINT} names version {version}, but there is no v{version}.metadata.json"));
        }
        Some(version) => {
            let mut newest = version;
            while let Some(next) = newest.checked_add(1).filter(|next| versions.contains_key(next)) {
                newest = next;
            }
            Some(newest)
        }
        None => versions.keys().next_back().copied(),
    };
    let files = newest.and_then(|newest| versions.get(&newest));
    // If a version is there with and without compression, the file without it counts.
    let file = files
        .and_then(|files| files.iter().min_by_key(|path| path.filename().is_some_and(|name| name.contains(".gz"))));
    file.map(|path| (*path).clone()).ok_or_else(|| format!("not an Iceberg table: {METADATA}/ has no metadata file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iceberg_metadata_names_have_versions_or_belong_to_catalogs() {
        use MetadataName::{OfCatalog, OtherForm, Version};
        for (name, expected) in [
            ("v3.metadata.json", Some(Version(3))),
            ("v12.gz.metadata.json", Some(Version(12))),
            ("v1.metadata.json.gz", Some(Version(1))),
            ("00003-2d80c8d3-7358-438a-849e-341fedb718a5.metadata.json", Some(OfCatalog)),
            ("00003-2d80c8d3-7358-438a-849e-341fedb718a5.gz.metadata.json", Some(OfCatalog)),
            ("eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json", Some(OfCatalog)),
            ("v003.metadata.json", Some(OtherForm)),
            ("v99999999999.metadata.json", Some(OtherForm)),
            ("v.metadata.json", None),
            ("video.metadata.json", None),
            ("x-1.metadata.json", None),
            ("v3.json", None),
        ] {
            assert_eq!(MetadataName::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn iceberg_hint_is_followed_on_to_the_newest_version() {
        let files =
            |versions: &[&str]| -> Vec<Path> { versions.iter().map(|name| format!("t/{name}").into()).collect() };
        let all = files(&["v1.metadata.json", "v2.gz.metadata.json", "v3.metadata.json", "v10.metadata.json"]);
        let found = |hint| newest(&all, hint).map(|path| path.filename().unwrap_or_default().to_owned());
        assert_eq!(found(Some("1\n")).as_deref(), Ok("v3.metadata.json"));
        assert_eq!(found(Some("10")).as_deref(), Ok("v10.metadata.json"));
        assert_eq!(found(None).as_deref(), Ok("v10.metadata.json"));
        // Iceberg itself lists, too, if it cannot read the hint.
        for unreadable in ["x", "", " 1", "1 ", "\n1", "99999999999"] {
            assert_eq!(found(Some(unreadable)).as_deref(), Ok("v10.metadata.json"), "{unreadable:?}");
        }
        for first in ["1\n10", "1\r\n10", "+1", "01"] {
            assert_eq!(found(Some(first)).as_deref(), Ok("v3.metadata.json"), "{first:?}");
        }
        let padded = files(&["v1.metadata.json", "v002.metadata.json"]);
        assert_eq!(newest(&padded, None).unwrap(), padded[0]);
        assert!(newest(&padded, Some("2")).unwrap_err().contains("there is no v2.metadata.json"));
        assert!(found(Some("7")).unwrap_err().contains("there is no v7.metadata.json"));
        let catalog = files(&["v1.metadata.json", "00002-eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json"]);
        assert!(newest(&catalog, Some("1")).unwrap_err().contains("a commit that failed"));
        newest(&files(&["snap-1.avro"]), None).unwrap_err();
        let twice = files(&["v2.gz.metadata.json", "v2.metadata.json"]);
        assert_eq!(newest(&twice, None).unwrap(), twice[1]);
    }
}
