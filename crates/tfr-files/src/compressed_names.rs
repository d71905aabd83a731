//! [`named_compression`]: the compression that a file's name specifies.

/// Returns the compression that the extension of a file's name specifies.
///
/// A compressed file has some bytes even if it contains nothing, so an empty file with such a name was cut off.
///
/// ```
/// use tfr_files::named_compression;
///
/// assert_eq!(named_compression("a.csv.gz"), Some("gzip"));
/// assert_eq!(named_compression("a.csv"), None);
/// ```
pub fn named_compression(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "gz" | "gzip" => "gzip",
        "bz2" => "bzip2",
        "xz" => "xz",
        "zst" | "zstd" => "Zstandard",
        "zlib" | "zz" | "deflate" => "zlib",
        _ => return None,
    })
}
