//! [`DeltaSnapshot`]: the state of a Delta table at one version, by its log.

use std::collections::BTreeMap;

use datafusion_common::Result;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::actions::{Action, Add, DeletionVector, Metadata, Protocol, Sidecar};
use super::checkpoint::{of_json, of_parquet};
use super::log_files::VersionFiles;
use crate::table::Place;

/// Files of a log that are fetched at a time.
const REQUESTS: usize = 16;

/// The newest version of the protocol for readers, which lists the features that a table needs.
const WITH_FEATURES: u32 = 3;

/// The feature of files with deletion vectors.
const VECTORS: &str = "deletionVectors";

/// The features that ask nothing of a reader, or what this reader does.
const FEATURES: &[&str] = &[
    "columnMapping",
    VECTORS,
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    // Columns of these types are refused, other columns of such tables are not.
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
];

/// A table at one version.
#[derive(Debug)]
pub(super) struct DeltaSnapshot {
    pub(super) version: u64,
    pub(super) metadata: Metadata,
    pub(super) protocol: Protocol,
    /// The files by their paths in the store.
    pub(super) files: BTreeMap<Path, Add>,
}

/// The actions of a log so far.
#[derive(Default)]
struct State {
    metadata: Option<Metadata>,
    protocol: Option<Protocol>,
    /// A file may be removed with one deletion vector and added with another.
    files: BTreeMap<(Path, Option<Identity>), Add>,
    seen: Seen,
}

/// What the files of a checkpoint have once, as far as it was seen.
#[derive(Default)]
struct Seen {
    protocols: usize,
    metadata: usize,
    /// The versions that the checkpoint records as its own.
    versions: Vec<u64>,
    /// A file that was added again.
    repeated: Option<Path>,
}

impl Seen {
    /// Checks that a checkpoint is of its version, and is the state of a table. The error is the defect.
    fn check_checkpoint(&self, place: &Place, files: &VersionFiles<'_>, has_sidecars: bool) -> Result<(), String> {
        if let Some(other) = self.versions.iter().find(|version| Some(**version) != files.checkpoint_version) {
            return Err(format!("it is a checkpoint of version {other}"));
        }
        for (found, what) in [(self.protocols, "protocol"), (self.metadata, "metaData")] {
            if found != 1 {
                return Err(format!("the checkpoint has {found} actions {what} instead of one"));
            }
        }
        match &self.repeated {
            Some(path) => Err(format!("the checkpoint adds the file {} twice", place.name(path))),
            None if has_sidecars && files.checkpoint.len() > 1 => {
                Err("the checkpoint has several parts, of which one names sidecars".to_owned())
            }
            None => Ok(()),
        }
    }
}

/// What identifies a deletion vector.
type Identity = (String, String, Option<u64>);

fn identity(vector: Option<&DeletionVector>) -> Option<Identity> {
    vector.map(|vector| (vector.storage_type.clone(), vector.path_or_inline_dv.clone(), vector.offset))
}

impl DeltaSnapshot {
    /// Reads the files of a version.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or the table has features that are not supported.
    pub(super) async fn read(place: &Place, files: &VersionFiles<'_>) -> Result<Self> {
        let mut state = State::default();
        let sidecars = state.add_all(place, files.checkpoint.to_vec()).await?;
        let has_sidecars = !sidecars.is_empty();
        let mut metas = Vec::with_capacity(sidecars.len());
        for sidecar in sidecars {
            let location = place.sidecar(&sidecar.path)?;
            let name = place.name(&location);
            let Some(meta) = place.head(&location).await? else {
                return Err(place.damaged(name, "a checkpoint names it, but there is no such file".to_owned()).into());
            };
            if meta.size != sidecar.size_in_bytes {
                let reason = format!("it has {} bytes, but a checkpoint records {}", meta.size, sidecar.size_in_bytes);
                return Err(place.damaged(name, reason).into());
            }
            metas.push(meta);
        }
        state.add_all(place, metas).await?;
        if let Some(first) = files.checkpoint.first() {
            let checked = state.seen.check_checkpoint(place, files, has_sidecars);
            checked.map_err(|reason| place.damaged(place.name(&first.location), reason))?;
        }
        state.add_all(place, files.commits.iter().map(|meta| (*meta).clone()).collect()).await?;
        let State { metadata, protocol, files: found, .. } = state;
        let lacks = |what| place.damaged(place.table(), format!("its log has no {what}"));
        let protocol = protocol.ok_or_else(|| lacks("protocol"))?;
        let metadata = metadata.ok_or_else(|| lacks("metadata"))?;
        check(&metadata, &protocol).map_err(|feature| place.unsupported(feature))?;
        let mut unique: BTreeMap<Path, Add> = BTreeMap::new();
        for ((path, _), add) in found {
            if unique.insert(path.clone(), add).is_some() {
                let reason = "the log has it with two deletion vectors".to_owned();
                return Err(place.damaged(place.name(&path), reason).into());
            }
        }
        let has_vectors = protocol.reader_features.iter().flatten().any(|feature| feature == VECTORS);
        if !has_vectors && unique.values().any(|add| add.deletion_vector.is_some()) {
            return Err(place
                .unsupported("a deletion vector, without that feature in its protocol,".to_owned())
                .into());
        }
        Ok(Self { version: files.version, metadata, protocol, files: unique })
    }
}

impl State {
    /// Adds the actions of files, in order. Returns the sidecars that they name.
    async fn add_all(&mut self, place: &Place, files: Vec<ObjectMeta>) -> Result<Vec<Sidecar>> {
        let mut sidecars = Vec::new();
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let reads: Vec<BoxFuture<'_, _>> = files.into_iter().map(|meta| actions(place, meta).boxed()).collect();
        let mut reads = futures::stream::iter(reads).buffered(REQUESTS);
        while let Some(actions) = reads.try_next().await? {
            sidecars.append(&mut self.add(place, actions)?);
        }
        Ok(sidecars)
    }

    /// Adds the actions of one file.
    fn add(&mut self, place: &Place, actions: Vec<Action>) -> Result<Vec<Sidecar>> {
        let (mut adds, mut sidecars) = (Vec::new(), Vec::new());
        for action in actions {
            if let Some(remove) = action.remove {
                let path = place.resolve(&remove.path)?;
                self.files.remove(&(path, identity(remove.deletion_vector.as_ref())));
            }
            adds.extend(action.add);
            sidecars.extend(action.sidecar);
            self.seen.protocols += usize::from(action.protocol.is_some());
            self.seen.metadata += usize::from(action.meta_data.is_some());
            self.seen.versions.extend(action.checkpoint_metadata.map(|checkpoint| checkpoint.version));
            self.metadata = action.meta_data.or(self.metadata.take());
            self.protocol = action.protocol.or(self.protocol.take());
        }
        // A commit may remove a file and add it again, in any order.
        for add in adds {
            let key = (place.resolve(&add.path)?, identity(add.deletion_vector.as_ref()));
            let path = key.0.clone();
            if self.files.insert(key, add).is_some() {
                self.seen.repeated.get_or_insert(path);
            }
        }
        Ok(sidecars)
    }
}

/// Reads the actions of a file of the log.
pub(super) async fn actions(place: &Place, meta: ObjectMeta) -> Result<Vec<Action>> {
    let bytes = place.read(&meta.location, meta.size).await?;
    let actions = match meta.location.extension() {
        Some("parquet") => of_parquet(bytes),
        _ => of_json(&bytes),
    };
    let actions = actions.and_then(|actions| match more_than_one(&actions) {
        Some(action) => Err(format!("it contains more than one action {action}")),
        None => Ok(actions),
    });
    actions.map_err(|reason| place.damaged(place.name(&meta.location), reason).into())
}

/// Returns an action that a file of the log has several times, but may have once.
fn more_than_one(actions: &[Action]) -> Option<&'static str> {
    let is_repeated = |is_one: fn(&Action) -> bool| actions.iter().filter(|action| is_one(action)).nth(1).is_some();
    if is_repeated(|action| action.protocol.is_some()) {
        Some("protocol")
    } else if is_repeated(|action| action.meta_data.is_some()) {
        Some("metaData")
    } else {
        None
    }
}

/// Checks that this reader supports all that a table requires. The error names what it does not support.
fn check(metadata: &Metadata, protocol: &Protocol) -> Result<(), String> {
    let version = protocol.min_reader_version;
    match (&protocol.reader_features, version) {
        (None, 1 | 2) => {}
        (Some(features), WITH_FEATURES) => {
            if let Some(unknown) = features.iter().find(|feature| !FEATURES.contains(&feature.as_str())) {
                return Err(format!("the reader feature {unknown:?}"));
            }
        }
        (Some(_), 1 | 2) => return Err(format!("reader features, but version {version} of the protocol")),
        (None, WITH_FEATURES) => return Err(format!("version {version} of the protocol without reader features")),
        (_, version) => return Err(format!("version {version} of the protocol for readers")),
    }
    match metadata.format.provider.as_str() {
        "parquet" => Ok(()),
        other => Err(format!("files of the format {other:?}")),
    }
}
