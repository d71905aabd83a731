//! `--emit`: what is to lie beside the shards.

use clap::Args;
use tfrecord_framing::Compression;
use tfrecord_sidecars::{Emit, SidecarKind};

use super::Misuse;

/// What is to lie beside the shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct EmitArgs {
    /// Write more beside the shards: tfds, tfmd, parse-fn, stats, index
    ///
    /// Names stand with commas between: tfds,index. tfds: dataset_info.json, features.json and label files, for
    /// tfds.builder_from_directory; a column with the map rule index is a class label. tfmd: schema.pbtxt, for TFX and TensorFlow
    /// Data Validation, with types, presence, shapes and domains as the rows have them. parse-fn: parse_example.py, a module that
    /// reads the shards with nothing but TensorFlow. stats: stats.pb for TensorFlow Data Validation, and the page stats.html.
    /// index: <shard>.idx, where each record is, for NVIDIA DALI and others.
    ///
    /// All of it is made in the pass that writes the shards, and appears with them. tfds and index want --compression none. A set
    /// that grows by --mode append is described afterwards: tfr-sql describe DIR.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    emit: Vec<SidecarKind>,
}

impl EmitArgs {
    /// What is to lie beside the shards.
    pub fn emit(&self) -> Emit {
        self.emit.iter().copied().collect()
    }

    pub(super) fn check(&self, compression: Compression, is_partitioned: bool) -> Result<(), Misuse> {
        let of_plain_files = [SidecarKind::Tfds, SidecarKind::Index];
        if let Some(kind) = self.emit.iter().find(|kind| of_plain_files.contains(kind))
            && compression != Compression::None
        {
            return Err(Misuse::conflict(format!(
                "--emit {kind} cannot be used with --compression {compression}: its readers take no compressed shards"
            )));
        }
        if is_partitioned && self.emit.contains(&SidecarKind::Tfds) {
            return Err(Misuse::conflict(
                "--emit tfds cannot be used with --partition-by: TensorFlow Datasets looks for shards in one directory",
            ));
        }
        Ok(())
    }
}
