//! What tables attach to their files, as text that a plan keeps.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;

use super::guard::GuardedSource;
use super::hooks::ScanHooks;
use super::reader::{FileReader, ReaderSource};
use crate::files::run::{Place, with_runs};
use crate::files::source::FilesSource;

/// Who attaches something to the files of a source.
enum Attached<'a> {
    Reader(&'a dyn FileReader),
    Hooks(&'a dyn ScanHooks),
    /// That the files of a group are read together.
    Runs,
    Nothing,
}

impl<'a> Attached<'a> {
    fn of(source: &'a Arc<dyn FileSource>) -> Self {
        let guarded = source.downcast_ref::<GuardedSource>();
        if let Some(hooks) = guarded.and_then(GuardedSource::hooks) {
            return Self::Hooks(hooks.as_ref());
        }
        let inner = guarded.map_or(source, GuardedSource::inner);
        match inner.downcast_ref::<ReaderSource>() {
            Some(source) => Self::Reader(source.reader.as_ref()),
            None if inner.is::<FilesSource>() => Self::Runs,
            None => Self::Nothing,
        }
    }
}

/// Returns what the table of a source has attached to a file, as [`FileReader::known_text`].
pub(crate) fn known_text(source: &Arc<dyn FileSource>, file: &PartitionedFile) -> Option<String> {
    match Attached::of(source) {
        Attached::Reader(reader) => reader.known_text(file),
        Attached::Hooks(hooks) => hooks.known_text(file),
        // Which files are read together follows from the group.
        Attached::Runs => (file.extensions.len() == 1 && file.extensions.contains::<Place>()).then(String::new),
        Attached::Nothing => None,
    }
}

/// Attaches it again, as [`FileReader::with_known`].
///
/// # Errors
/// A text is not one of the format.
pub(crate) fn with_known(source: &Arc<dyn FileSource>, groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
    match Attached::of(source) {
        Attached::Reader(reader) => reader.with_known(groups),
        Attached::Hooks(hooks) => hooks.with_known(groups),
        Attached::Runs => Ok(with_runs(groups)),
        Attached::Nothing => Ok(groups),
    }
}
