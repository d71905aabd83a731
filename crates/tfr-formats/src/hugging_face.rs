//! Directories of Hugging Face data sets: which of their Arrow files have the rows.
//!
//! | directory | files with rows |
//! |---|---|
//! | `Dataset.save_to_disk` | those that `state.json` lists |
//! | `DatasetDict.save_to_disk` | the same, in a directory for each split that `dataset_dict.json` lists |
//! | a cache of `load_dataset` | `NAME-SPLIT.arrow`, `NAME-SPLIT-00000-of-00002.arrow`, for the splits in `dataset_info.json` |
//!
//! Other files there, such as `cache-*.arrow`, have rows of data sets that were derived from this one.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Field;
use datafusion_common::{DataFusionError, Result};
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde::de::IgnoredAny;
use serde_json::Value;
use tfr_arrow::labels;
use tfr_files::{Listing, door_of, files_of_directory, store_of};
use tfr_stores::{Door, Location};

use crate::error::{Error, TableError};

/// Lists the splits of a `DatasetDict`.
const DICT: &str = "dataset_dict.json";

/// Lists the files of a `Dataset`.
const STATE: &str = "state.json";

/// Describes the features, and the splits of a cache.
const INFO: &str = "dataset_info.json";

/// Returns the files of a data set, if the location is the directory of one, of the split or of all.
///
/// # Errors
/// - A file that describes the data set is damaged, or lists a file that does not exist.
/// - The data set does not have the split.
pub(crate) async fn files(
    session: &dyn Session,
    locations: &[Location],
    found: &Listing,
    split: Option<&str>,
) -> Result<Option<Listing>> {
    let [location] = locations else { return Ok(None) };
    let has_streams = found.files().iter().any(|file| file.location.as_ref().ends_with(".arrow"));
    let is_file = found.files().iter().any(|file| file.location == *location.key());
    if location.is_pattern() || is_file || !has_streams {
        return Ok(None);
    }
    let (store_url, store) = store_of(session, locations)?;
    let door = door_of(session.config());
    let directory = Directory { store: Arc::clone(&store), door, location, found: found.files() };
    let Some(files) = directory.files(split).await? else { return Ok(None) };
    let listing = Listing::of_files(store_url, store, vec![(location, files)])?;
    Ok(Some(listing.with_owners(found.owners().to_vec())))
}

/// A directory that may be a data set.
struct Directory<'a> {
    store: Arc<dyn ObjectStore>,
    door: Door,
    location: &'a Location,
    /// The files in it and below it.
    found: &'a [ObjectMeta],
}

impl Directory<'_> {
    async fn files(&self, split: Option<&str>) -> Result<Option<Vec<ObjectMeta>>> {
        let root = self.location.key();
        let descriptions = self.descriptions(root).await;
        if let Some(dict) = self.json(&descriptions, DICT).await? {
            let listed = dict.get("splits").and_then(Value::as_array);
            let known: Option<Vec<_>> = listed.and_then(|names| names.iter().map(Value::as_str).collect());
            let known = known.ok_or_else(|| {
                self.damaged(&root.clone().join(DICT), "\"splits\" is not a list of names".to_owned())
            })?;
            let mut files = Vec::new();
            for name in self.chosen(&known, split)? {
                let directory = root.clone().join(name);
                let descriptions = self.descriptions(&directory).await;
                let Some((listed, _)) = self.state(&directory, &descriptions).await? else {
                    let reason = format!("it lists the split {name}, which has no {STATE}");
                    return Err(self.damaged(&root.clone().join(DICT), reason));
                };
                files.extend(listed);
            }
            return Ok(Some(files));
        }
        if let Some((files, known)) = self.state(root, &descriptions).await? {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            return match split {
                Some(_) => self.chosen(&known, split).map(|_| Some(files)),
                None => Ok(Some(files)),
            };
        }
        let info = self.json(&descriptions, INFO).await?;
        let splits = info.as_ref().and_then(|info| info.get("splits")?.as_object());
        let Some(splits) = splits else { return Ok(None) };
        let known: Vec<_> = splits.keys().map(String::as_str).collect();
        let all = known.iter().flat_map(|name| self.cached(name)).collect::<Vec<_>>();
        if all.is_empty() {
            return Ok(None);
        }
        for file in self.found.iter().filter(|file| !all.contains(file)) {
            let name = file.location.filename().unwrap_or_default();
            if name.ends_with(".arrow") && !name.starts_with("cache-") {
                let name = self.location.file_names().name(&file.location);
                log::warn!("{name}: not read, because it is of no split in {INFO}");
            }
        }
        let chosen = self.chosen(&known, split)?;
        Ok(Some(chosen.into_iter().flat_map(|name| self.cached(name)).cloned().collect()))
    }

    /// Returns the split if it exists, or all splits.
    fn chosen<'a>(&self, known: &[&'a str], split: Option<&str>) -> Result<Vec<&'a str>> {
        let Some(split) = split else { return Ok(known.to_vec()) };
        match known.iter().find(|name| **name == split) {
            Some(name) => Ok(vec![name]),
            None => {
                let splits = match known {
                    [] => "it has no splits".to_owned(),
                    known => format!("the splits are {}", known.join(", ")),
                };
                let problem = format!("no split {split:?}; {splits}");
                Err(Error::from(TableError::unusable(self.location.to_string(), problem)).into())
            }
        }
    }

    /// Returns the files that a `state.json` lists, and the name of its split if it has one.
    async fn state(
        &self,
        directory: &Path,
        descriptions: &[ObjectMeta],
    ) -> Result<Option<(Vec<ObjectMeta>, Option<String>)>> {
        let path = directory.clone().join(STATE);
        let Some(state) = self.json(descriptions, STATE).await? else { return Ok(None) };
        let Some(listed) = state.get("_data_files").and_then(Value::as_array) else { return Ok(None) };
        let is_selection = |key: &str| state.get(key).and_then(Value::as_array).is_some_and(|files| !files.is_empty());
        if ["_indices_data_files", "_indices_files"].into_iter().any(is_selection) {
            let reason = "its rows are a selection by indices; save it again with save_to_disk of a newer version";
            return Err(self.damaged(&path, reason.to_owned()));
        }
        let mut files = Vec::with_capacity(listed.len());
        for file in listed {
            let name = file.get("filename").and_then(Value::as_str).unwrap_or_default();
            let file = directory.clone().join(name);
            match self.found.iter().find(|found| found.location == file) {
                Some(found) => files.push(found.clone()),
                None => return Err(self.damaged(&path, format!("it lists the file {name:?}, which does not exist"))),
            }
        }
        Ok(Some((files, state.get("_split").and_then(Value::as_str).map(str::to_owned))))
    }

    /// Returns the files of a split in a cache.
    fn cached(&self, split: &str) -> impl Iterator<Item = &ObjectMeta> {
        let root = self.location.key();
        self.found.iter().filter(move |file| {
            let name = file.location.filename().and_then(|name| name.strip_suffix(".arrow"));
            let is_here = file.location.parent().as_ref() == Some(root);
            is_here && name.is_some_and(|name| !name.starts_with("cache-") && split_of(name) == Some(split))
        })
    }

    /// Returns the files that may describe a data set. A directory that cannot be listed has none: its files were listed
    /// otherwise, and are read as they are.
    async fn descriptions(&self, directory: &Path) -> Vec<ObjectMeta> {
        let files = files_of_directory(self.store.as_ref(), &self.door, self.location, directory).await;
        let mut files = files.unwrap_or_else(|error| {
            log::debug!("{}: {error}", self.location.file_names().name(directory));
            Vec::new()
        });
        files.retain(|file| file.location.filename().is_some_and(|name| [DICT, STATE, INFO].contains(&name)));
        files
    }

    /// Reads a file, if it is one of those that may describe a data set.
    async fn json(&self, descriptions: &[ObjectMeta], name: &str) -> Result<Option<Value>> {
        let Some(file) = descriptions.iter().find(|file| file.location.filename() == Some(name)) else {
            return Ok(None);
        };
        let path = &file.location;
        let read = async { self.store.get(path).await?.bytes().await };
        let text = read.await.map_err(|error| self.damaged(path, error.to_string()))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| self.damaged(path, error.to_string()))
    }

    fn damaged(&self, path: &Path, reason: String) -> DataFusionError {
        let problem = format!("cannot read the data set: {reason}");
        Error::from(TableError::unusable(self.location.file_names().name(path), problem)).into()
    }
}

/// Returns the split in the name of a cached file without its ending: `squad-train`, `squad-train-00000-of-00002`.
fn split_of(name: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unnumbered = || {
        let (rest, total) = name.rsplit_once("-of-")?;
        let (rest, index) = rest.rsplit_once('-')?;
        (is_number(total) && is_number(index)).then_some(rest)
    };
    Some(unnumbered().unwrap_or(name).rsplit_once('-')?.1)
}

/// The key of the metadata of a schema that has the features as JSON.
const FEATURES: &str = "huggingface";

/// Warns of the metadata of a schema that should have the features and is damaged, so that columns lack the names of
/// their labels.
pub(crate) fn warn_of_damage(metadata: &HashMap<String, String>, file: &str) {
    let error = metadata.get(FEATURES).and_then(|text| serde_json::from_str::<IgnoredAny>(text).err());
    if let Some(error) = error {
        log::warn!("{file}: its metadata \"{FEATURES}\" is damaged, so that names of labels are missing: {error}");
    }
}

/// Adds the names of labels in the metadata of a schema to its columns of `ClassLabel`, and of lists of these.
pub(crate) fn with_labels(fields: Vec<Field>, metadata: &HashMap<String, String>) -> Vec<Field> {
    let info = metadata.get(FEATURES).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(features) = info.as_ref().and_then(|info| info.pointer("/info/features")) else { return fields };
    let labelled = |field: Field| {
        let Some(mut feature) = features.get(field.name()) else { return field };
        while let Some(element) = feature.get("feature") {
            feature = element;
        }
        let is_labels = feature.get("_type").and_then(Value::as_str) == Some("ClassLabel");
        let names = feature.get("names").and_then(Value::as_array).filter(|_| is_labels);
        // A name that was left out would give its number to the next one.
        let names: Option<Vec<_>> =
            names.and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        match names {
            Some(names) => labels::with_labels(field, &names),
            None => field,
        }
    };
    fields.into_iter().map(labelled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugging_face_names_of_cached_files_end_with_the_split() {
        assert_eq!(split_of("csv-train"), Some("train"));
        assert_eq!(split_of("my-set-test-00000-of-00012"), Some("test"));
        assert_eq!(split_of("set-of-train"), Some("train"));
        assert_eq!(split_of("train"), None);
    }
}
