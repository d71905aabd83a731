//! The parts of a shard set: its manifest, names, groups and schema.

pub(crate) mod append;
pub(crate) mod difference;
pub(crate) mod file_names;
pub(crate) mod form;
pub(crate) mod format_version;
pub(crate) mod group;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod parts;
pub(crate) mod scalar;
pub(crate) mod schema;
pub(crate) mod sidecar;

/// Name of the file that describes a set.
pub const MANIFEST_NAME: &str = "_manifest.json";

/// Name of the empty file that marks a complete set, a convention of Hadoop and Spark.
pub const SUCCESS_NAME: &str = "_SUCCESS";
