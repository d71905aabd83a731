//! What a shard set is: its manifest, names, groups and schema.

pub(crate) mod append;
pub(crate) mod difference;
pub(crate) mod form;
pub(crate) mod format_version;
pub(crate) mod group;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod scalar;
pub(crate) mod schema;
pub(crate) mod sidecar;

/// The file that tells what a set holds.
pub const MANIFEST_NAME: &str = "_manifest.json";

/// The empty file that a whole set has, by the custom of Hadoop and Spark.
pub const SUCCESS_NAME: &str = "_SUCCESS";
