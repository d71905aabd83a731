//! Tools that read whole files and sets: `verify`, `salvage`, `reshard`, `index`, `count_records`.

pub(crate) mod count_records;
pub(crate) mod frames;
pub(crate) mod index;
pub(crate) mod inputs;
pub(crate) mod progress;
pub(crate) mod rewrite;
pub(crate) mod saved_dataset;
pub(crate) mod stored;
pub(crate) mod verify;
