//! [`Run`]: files that are read one after the other.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use datafusion_common::{Result, ScalarValue};
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::{FileExtensions, PartitionedFile};
use object_store::ObjectMeta;
use tfr_stores::FileNames;

use crate::Listing;

/// Index of the content column.
pub(super) const CONTENT: usize = 3;

/// How a file of a scan is read. Attached to the file as an extension.
#[derive(Debug)]
pub(crate) enum Place {
    /// The first file of a run; all files of the run are read with it.
    First(Arc<Run>),
    /// A later file of a run, which is read with the first one.
    Later,
}

/// Files that are read one after the other.
#[derive(Debug)]
pub(crate) enum Run {
    /// The files at these indices of a listing.
    Listed(Arc<Listing>, Vec<usize>),
    /// The files of a group that was planned elsewhere.
    Planned(Vec<PartitionedFile>),
}

impl Run {
    /// Creates a run of every file of a listing.
    pub(crate) fn all(listing: Arc<Listing>) -> Self {
        let files = (0..listing.files().len()).collect();
        Self::Listed(listing, files)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Listed(_, files) => files.len(),
            Self::Planned(files) => files.len(),
        }
    }

    pub(super) fn meta(&self, file: usize) -> &ObjectMeta {
        match self {
            Self::Listed(listing, files) => &listing.files()[files[file]],
            Self::Planned(files) => &files[file].object_meta,
        }
    }

    /// Returns the values of the columns in the path.
    fn of_path(&self, file: usize) -> &[ScalarValue] {
        match self {
            Self::Listed(listing, files) => listing.partitions().values(files[file]),
            Self::Planned(files) => &files[file].partition_values,
        }
    }

    /// Returns a column that is known without reading these files.
    pub(crate) fn column(&self, column: usize, files: Range<usize>, names: &FileNames) -> Result<ArrayRef> {
        let metas = files.clone().map(|file| self.meta(file));
        Ok(match column {
            0 => Arc::new(StringArray::from_iter_values(metas.map(|meta| names.name(&meta.location)))),
            1 => {
                let sizes = metas.map(|meta| i64::try_from(meta.size).unwrap_or(i64::MAX));
                Arc::new(Int64Array::from_iter_values(sizes))
            }
            2 => {
                let modified = metas.map(|meta| meta.last_modified.timestamp_micros());
                Arc::new(TimestampMicrosecondArray::from_iter_values(modified).with_timezone("UTC"))
            }
            column => ScalarValue::iter_to_array(files.map(|file| self.of_path(file)[column - CONTENT - 1].clone()))?,
        })
    }
}

/// Attaches to the files of each group that they are read as one run.
pub(crate) fn with_runs(groups: Vec<FileGroup>) -> Vec<FileGroup> {
    let with_run = |group: FileGroup| {
        let mut files = group.into_inner();
        files.iter_mut().for_each(|file| file.extensions = FileExtensions::new());
        let run = Arc::new(Run::Planned(files.clone()));
        let place = |index| if index == 0 { Place::First(Arc::clone(&run)) } else { Place::Later };
        FileGroup::new(files.into_iter().enumerate().map(|(index, file)| file.with_extension(place(index))).collect())
    };
    groups.into_iter().map(with_run).collect()
}
