//! Finds the files of a table in an object store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema};
use datafusion_common::ScalarValue;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tfr_stores::{FileNames, Location};

use crate::error::{Error, ErrorKind, Result};
use crate::findings::Findings;
use crate::listing::owner::OwnedFiles;
use crate::listing::partition::{self, PartitionColumns};
use crate::listing::search::find_files;
use crate::listing::table_format::Owner;
use crate::session::{door_of, engine_url};
use crate::table_files::{TableFiles, TableVersion};
use crate::unchanged::store::UnchangedFiles;

/// The files of a table, listed once and in a stable order.
///
/// A directory yields every file in it and below it, except files that are not data by convention:
///
/// - names that start with `_` or `.` (`_SUCCESS`, `_temporary/`, `.part-0.parquet.crc`)
/// - `.crc` files
/// - files of 0 bytes, unless their name is that of a [compressed](crate::named_compression) file
/// - [sidecars](tfrecord_shards::is_sidecar), which describe the records next to them: notes (`.md`, `.html`),
///   schemas, indexes such as `.idx`, and `features.json` and `dataset_info.json` of TensorFlow Datasets
///
/// Files that may contain rows are not sidecars by their extension alone: other `.csv` and `.json` files never, and
/// `.txt` files only in a directory with files named `.tfrecord`. A file that the location names explicitly is always
/// included.
#[derive(Clone)]
pub struct Listing {
    store_url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
    files: Arc<[ObjectMeta]>,
    partitions: PartitionColumns,
    names: FileNames,
    locations: Vec<String>,
    owners: Vec<Owner>,
    unfinished: Vec<String>,
    version: Option<TableVersion>,
}

impl Listing {
    /// Lists `locations`, which must be in one store, in their order. Files within one location are sorted by path.
    ///
    /// # Errors
    /// - A location does not exist, cannot be listed, or contains nothing to read.
    /// - Its files belong to a table of a [`TableFormat`](crate::TableFormat).
    /// - Its store is not registered with the session.
    /// - Two locations contain the same file.
    /// - The files are in directories with different partition keys.
    pub async fn list(session: &dyn Session, locations: &[Location]) -> Result<Self> {
        Self::list_with(session, locations, OwnedFiles::Refuse).await
    }

    /// Lists `locations` as [`Self::list`] does. `owned` specifies what to do about files of a table format.
    ///
    /// # Errors
    /// Same as [`Self::list`]; files of a table format are an error only with [`OwnedFiles::Refuse`].
    pub async fn list_with(session: &dyn Session, locations: &[Location], owned: OwnedFiles) -> Result<Self> {
        let (store_url, store) = store_of(session, locations)?;
        let door = door_of(session.config());
        let mut found = Vec::with_capacity(locations.len());
        let (mut owners, mut unfinished) = (Vec::new(), Vec::new());
        for location in locations {
            let mut found_files = find_files(store.as_ref(), &door, location, owned).await?;
            found_files.check_names(session)?;
            owners.append(&mut found_files.owners);
            unfinished.append(&mut found_files.unfinished);
            found.push((location, found_files.files()?));
        }
        Ok(Self { unfinished, ..Self::of_files(store_url, store, found)?.with_owners(owners) })
    }

    /// Creates a listing of `locations` without files, with these columns in the path.
    ///
    /// # Errors
    /// The store of the locations is not registered with the session.
    pub fn empty(session: &dyn Session, locations: &[Location], partitions: Option<&Schema>) -> Result<Self> {
        let (store_url, store) = store_of(session, locations)?;
        let listing = Self::of_files(store_url, store, Vec::new())?;
        let columns: &[_] = partitions.map_or(&[], |schema| schema.fields());
        let locations = locations.iter().map(Location::to_string).collect();
        Ok(Self { partitions: PartitionColumns::of_no_file(columns), locations, ..listing })
    }

    /// Creates a listing of `locations` whose files another process has listed, with these columns in the path.
    ///
    /// # Errors
    /// The store of the locations is not registered with the session.
    pub fn planned(session: &dyn Session, locations: &[Location], path_columns: &[FieldRef]) -> Result<Self> {
        let (store_url, store) = store_of(session, locations)?;
        let found = locations.iter().map(|location| (location, Vec::new())).collect();
        let listing = Self::of_files(store_url, store, found)?;
        Ok(Self { partitions: PartitionColumns::of_no_file(path_columns), ..listing })
    }

    /// Creates a listing of files that were found at these locations.
    pub fn of_files(
        store_url: ObjectStoreUrl,
        store: Arc<dyn ObjectStore>,
        found: Vec<(&Location, Vec<ObjectMeta>)>,
    ) -> Result<Self> {
        let keys = |location: &Location, meta: &ObjectMeta| partition::keys(location.prefix(), &meta.location);
        let keys: Vec<_> =
            found.iter().flat_map(|(location, files)| files.iter().map(move |meta| keys(location, meta))).collect();
        let listing = Self::without_partitions(store_url, store, found)?;
        let (files, names) = (&listing.files, &listing.names);
        let partitions = PartitionColumns::infer(&keys, |index| names.name(&files[index].location))?;
        Ok(listing.with_partitions(partitions))
    }

    /// Lists directories of partitions, which are in one store, in their order. `values` has the values of the columns
    /// `fields` for each of them; without columns, they are those of a table. A directory without files has no rows. A
    /// partition whose directory does not exist has none either, with a warning, or is an error in a session that is strict.
    ///
    /// # Errors
    /// Same as [`Self::list`], but for directories without files, and a partition key is not looked for in a path.
    pub async fn of_partitions(
        session: &dyn Session,
        locations: &[Location],
        fields: &[FieldRef],
        values: Vec<Vec<ScalarValue>>,
    ) -> Result<Self> {
        let (store_url, store) = store_of(session, locations)?;
        let door = door_of(session.config());
        let find = |location| find_files(store.as_ref(), &door, location, OwnedFiles::Refuse).boxed();
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let finds: Vec<BoxFuture<'_, _>> = locations.iter().map(find).collect();
        let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
        let all: Vec<_> = futures::stream::iter(finds).buffered(concurrency).collect().await;
        let is_strict = Findings::of(session.config()).is_some_and(|findings| findings.is_strict());
        let (mut found, mut of_files, mut unfinished) = (Vec::new(), Vec::new(), Vec::new());
        for ((location, files), values) in locations.iter().zip(all).zip(values) {
            let mut files = files?;
            files.check_names(session)?;
            unfinished.append(&mut files.unfinished);
            let metas = match files.files() {
                Ok(metas) => metas,
                Err(error) if matches!(error.kind(), ErrorKind::Empty { skipped, .. } if skipped.has_no_rows()) => {
                    Vec::new()
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound { .. }) && !is_strict && !fields.is_empty() =>
                {
                    log::warn!("{error}: the partition has no rows");
                    Vec::new()
                }
                Err(error) => return Err(error),
            };
            of_files.extend(std::iter::repeat_n(values, metas.len()));
            found.push((location, metas));
        }
        let listing = Self::without_partitions(store_url, store, found)?;
        let listing = listing.with_partitions(PartitionColumns::of_values(fields, of_files));
        Ok(Self { unfinished, ..listing })
    }

    /// Creates a listing of the files of a table at `location`.
    ///
    /// # Errors
    /// - The session's [`Door`](tfr_stores::Door) does not allow the location, or a file.
    /// - The store is not registered with the session.
    /// - The table has a file twice.
    pub fn of_table(session: &dyn Session, location: &Location, table: &TableFiles) -> Result<Self> {
        let (store_url, store) = store_of(session, std::slice::from_ref(location))?;
        let door = door_of(session.config());
        let metas: Vec<_> = table.files.iter().map(|file| file.meta.clone()).collect();
        for meta in &metas {
            door.check_key(store_url.as_ref(), &meta.location, &location.file_names().name(&meta.location))?;
        }
        let values = table.files.iter().map(|file| file.constants.clone()).collect();
        let listing = Self::without_partitions(store_url, store, vec![(location, metas)])?;
        let listing = listing.with_partitions(PartitionColumns::of_values(&table.constants, values));
        Ok(Self { version: table.version, ..listing })
    }

    /// Creates a listing of files that were found in directories of partitions, which are in one store. `values` has the
    /// values of the columns `fields` for each directory.
    ///
    /// # Errors
    /// The store of the directories is not registered with the session, or two of them have the same file.
    pub fn of_partition_files(
        session: &dyn Session,
        found: Vec<(&Location, Vec<ObjectMeta>)>,
        fields: &[FieldRef],
        values: Vec<Vec<ScalarValue>>,
    ) -> Result<Self> {
        let locations: Vec<_> = found.iter().map(|(location, _)| (*location).clone()).collect();
        let (store_url, store) = store_of(session, &locations)?;
        let of_files = found.iter().zip(values);
        let of_files = of_files.flat_map(|((_, files), values)| std::iter::repeat_n(values, files.len())).collect();
        let listing = Self::without_partitions(store_url, store, found)?;
        Ok(listing.with_partitions(PartitionColumns::of_values(fields, of_files)))
    }

    fn without_partitions(
        store_url: ObjectStoreUrl,
        store: Arc<dyn ObjectStore>,
        found: Vec<(&Location, Vec<ObjectMeta>)>,
    ) -> Result<Self> {
        let names = found.first().map(|(location, _)| location.file_names().clone()).unwrap_or_default();
        let locations = found.iter().map(|(location, _)| location.to_string()).collect();
        let mut files = Vec::new();
        let mut named_by: HashMap<Path, &Location> = HashMap::new();
        for (location, found) in found {
            for meta in found {
                if let Some(first) = named_by.insert(meta.location.clone(), location) {
                    let (first, second) = (first.to_string(), location.to_string());
                    return Err(ErrorKind::FileTwice { file: names.name(&meta.location), first, second }.into());
                }
                files.push(meta);
            }
        }
        let files: Arc<[ObjectMeta]> = files.into();
        let store = Arc::new(UnchangedFiles::new(store, &store_url, names.clone(), Arc::clone(&files)));
        let partitions = PartitionColumns::default();
        Ok(Self {
            store_url,
            store,
            files,
            partitions,
            names,
            locations,
            owners: Vec::new(),
            unfinished: Vec::new(),
            version: None,
        })
    }

    /// Sets the version of the table that the files belong to.
    pub fn with_version(self, version: Option<TableVersion>) -> Self {
        Self { version, ..self }
    }

    /// Sets the tables that the files belong to.
    pub fn with_owners(mut self, owners: Vec<Owner>) -> Self {
        for owner in owners {
            if !self.owners.contains(&owner) {
                self.owners.push(owner);
            }
        }
        self
    }

    /// Replaces the partition columns.
    pub fn with_partitions(self, partitions: PartitionColumns) -> Self {
        Self { partitions, ..self }
    }

    /// Gives the partition columns the names in `names` from which theirs differ only by case, as in Hive.
    pub fn with_partition_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.partitions = self.partitions.with_names(names);
        self
    }

    /// Sets the types of the partition columns that `declared` contains. Its other columns are ignored.
    ///
    /// # Errors
    /// A directory's value does not have its column's type, or a path cannot represent the type.
    pub fn with_partition_types(mut self, declared: &Schema) -> Result<Self> {
        let (files, names) = (&self.files, &self.names);
        self.partitions = self.partitions.with_types(declared, |index| names.name(&files[index].location))?;
        Ok(self)
    }

    /// Returns the files, in the order in which a table reads them.
    pub fn files(&self) -> &[ObjectMeta] {
        &self.files
    }

    /// Returns the names of the files for messages, in the same order.
    pub fn file_names(&self) -> impl Iterator<Item = String> + '_ {
        self.files.iter().map(|file| self.names.name(&file.location))
    }

    /// Returns how files are named in messages.
    pub fn names(&self) -> &FileNames {
        &self.names
    }

    /// Returns the store that contains the files. It returns them only as they were listed.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the URL under which the store is registered with the session.
    pub fn store_url(&self) -> &ObjectStoreUrl {
        &self.store_url
    }

    /// Returns the locations as the user wrote them.
    pub fn locations(&self) -> &[String] {
        &self.locations
    }

    /// The version of the table, if its files are those of a table format.
    pub fn version(&self) -> Option<TableVersion> {
        self.version
    }

    /// Returns the tables that files belong to, if the listing was made with [`OwnedFiles::Report`].
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Returns the directories that a job of Hadoop or Spark has not finished, as messages name them: they contain
    /// `_temporary` and no `_SUCCESS`.
    pub fn unfinished(&self) -> &[String] {
        &self.unfinished
    }

    /// Returns the columns that `key=value` directories add to every row.
    pub fn partitions(&self) -> &PartitionColumns {
        &self.partitions
    }
}

/// The URL of the store may contain secrets.
impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<_> = self.file_names().collect();
        f.debug_struct("Listing").field("locations", &self.locations).field("files", &files).finish_non_exhaustive()
    }
}

/// Returns the store that contains all of `locations`, which the session's [`Door`](tfr_stores::Door) must allow.
pub fn store_of(session: &dyn Session, locations: &[Location]) -> Result<(ObjectStoreUrl, Arc<dyn ObjectStore>)> {
    let unusable = |location: String, reason: String| -> Error {
        tfr_stores::Error::from(tfr_stores::ErrorKind::Location { location, reason }).into()
    };
    let first = locations.first().ok_or_else(|| unusable(String::new(), "no location given".to_owned()))?;
    let store_url = first.object_store();
    if let Some(other) = locations.iter().find(|location| location.object_store() != store_url) {
        return Err(unusable(other.to_string(), format!("it is in another store than {first}")));
    }
    let door = door_of(session.config());
    locations.iter().try_for_each(|location| door.check_location(location))?;
    let failed = |source| ErrorKind::Store { location: first.to_string(), source };
    let store = session.runtime_env().object_store(store_url).map_err(failed)?;
    Ok((engine_url(store_url).map_err(failed)?, store))
}
