//! Publishes a shard set or a table atomically: readers find all of it or nothing. Contains the decisions
//! ([`Publication`](publication::Publication) for directories, [`objects`] for object stores), the local file system,
//! staging directories, and leftovers of killed runs. Tasks in other processes join a run in a
//! [`StagingArea`](staging_area::StagingArea).

pub(crate) mod attempt_id;
pub(crate) mod destination;
pub(crate) mod directory_scan;
pub(crate) mod lease;
pub(crate) mod leftovers;
pub(crate) mod local;
pub mod objects;
pub(crate) mod publication;
pub(crate) mod put_sidecars;
pub(crate) mod report;
pub(crate) mod save_mode;
pub(crate) mod settling;
pub(crate) mod shard_file;
pub(crate) mod shared_staging;
pub(crate) mod staging;
pub(crate) mod staging_area;
pub(crate) mod staging_names;
pub(crate) mod step;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod uncached;

pub use publication::{Leftover, SetState, StagedShard, StagedUpload, check_prefix};
pub use save_mode::SaveMode;
