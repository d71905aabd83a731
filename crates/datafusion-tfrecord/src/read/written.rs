//! [`Written`]: the columns of a table according to its manifests.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use arrow_tfrecord::{Choice, MappingOptions, NullPolicy, NullRule, RecordType};
use datafusion_common::Result;
use object_store::path::Path;
use tfrecord_shards::MANIFEST_NAME;

use super::compare::{decoded, fits, is_nested, is_same_shape, union, unknown_field};
use super::sets::{Set, TableFiles};
use crate::error::{ErrorKind, shards_error};
use tfr_files::schema::{self, Joining};
use tfr_stores::FileNames;

/// The columns according to the manifests.
pub(super) struct Written {
    /// Whether every set specifies its columns.
    is_whole: bool,
    options: MappingOptions,
    /// The column of examples, if records contain a list of them.
    items: BTreeSet<String>,
    /// The directory and columns of each set that specifies them.
    sets: Vec<(Path, SchemaRef)>,
    names: FileNames,
    /// How each column was written.
    columns: BTreeMap<String, WrittenForm>,
}

/// How a column was written.
struct WrittenForm {
    /// The column, merged over all sets. Nullable if a set lacks it.
    field: FieldRef,
    /// Number of sets that have it.
    sets: usize,
    /// The options that affect this column and matter to readers.
    options: MappingOptions,
}

impl WrittenForm {
    fn new(field: &FieldRef, options: &MappingOptions) -> Self {
        let name = field.name();
        let (given, mut options) = (options, options.clone());
        let is_said_of_it = |key: &str| given.part_of_column(key, field).is_some();
        options.choices.retain(|key, _| is_said_of_it(key));
        options.vocabularies.retain(|key, _| is_said_of_it(key));
        options.sequences.retain(|key| is_said_of_it(key));
        options.column_nulls.retain(|key, _| is_said_of_it(key));
        options.column_nulls.entry(name.clone()).or_insert(options.nulls.into());
        let has_nulls = field.is_nullable() || field.data_type().is_nested();
        let as_read = |rule: &NullRule| if has_nulls { as_read(rule.clone()) } else { NullRule::default() };
        options.column_nulls.values_mut().for_each(|rule| *rule = as_read(rule));
        options.nulls = NullPolicy::default();
        options.strict = false;
        Self { field: Arc::clone(field), sets: 1, options }
    }
}

/// Returns a rule with the same meaning to readers.
fn as_read(rule: NullRule) -> NullRule {
    match rule {
        NullRule::Policy(NullPolicy::Error | NullPolicy::Unset | NullPolicy::Drop) => NullPolicy::Absent.into(),
        other => other,
    }
}

impl Written {
    pub(super) fn of(sets: &[Set], names: &FileNames) -> Result<Self> {
        let directory = |set: &Set| names.name(&set.directory);
        let mut specified: Vec<(Path, SchemaRef)> = Vec::with_capacity(sets.len());
        let mut columns = BTreeMap::new();
        let mut first: Option<(&Set, MappingOptions)> = None;
        let mut items = BTreeSet::new();
        for set in sets {
            let manifest = names.name(&set.directory.clone().join(MANIFEST_NAME));
            let unreadable = |error: tfrecord_shards::Error| shards_error(error.with_path(manifest.as_ref()));
            let Some(schema) = set.manifest.arrow_schema().map_err(unreadable)? else { continue };
            let mapping = set.manifest.mapping_options().map_err(unreadable)?;
            for field in schema.fields() {
                let form = WrittenForm::new(field, &mapping);
                match (columns.entry(field.name().clone()), &first) {
                    (Entry::Vacant(entry), _) => {
                        entry.insert(form);
                    }
                    (Entry::Occupied(before), Some((first, _))) if before.get().options != form.options => {
                        let (column, first, second) = (field.name().clone(), directory(first), directory(set));
                        return Err(ErrorKind::FormConflict { column, first, second }.into());
                    }
                    (Entry::Occupied(mut before), _) => {
                        let before = before.get_mut();
                        before.field = union(&before.field, field);
                        before.sets += 1;
                    }
                }
            }
            if let Some((first, other)) = &first
                && (other.record_type, &other.separator) != (mapping.record_type, &mapping.separator)
            {
                let (first, second) = (directory(first), directory(set));
                let column = schema.fields().first().map(|field| field.name().clone()).unwrap_or_default();
                return Err(ErrorKind::FormConflict { column, first, second }.into());
            }
            if mapping.record_type == RecordType::ExampleListWithContext {
                let found = mapping.clone().with_items_named(&schema).sequences;
                if let Some((first, _)) = first.as_ref().filter(|_| found != items) {
                    let (first, second) = (directory(first), directory(set));
                    let column = found.into_iter().next().unwrap_or_default();
                    return Err(ErrorKind::FormConflict { column, first, second }.into());
                }
                items = found;
            }
            first.get_or_insert((set, mapping));
            specified.push((set.directory.clone(), schema));
        }
        for form in columns.values_mut().filter(|form| form.sets < sets.len()) {
            form.field = Arc::new(form.field.as_ref().clone().with_nullable(true));
        }
        let options = first.map(|(_, options)| options).unwrap_or_default();
        let is_whole = specified.len() == sets.len();
        Ok(Self { is_whole, options, items, sets: specified, names: names.clone(), columns })
    }

    /// Rejects a name for the column of examples that is of no column, or of another one than the sets were written with: there
    /// would be no examples, or those of another column.
    pub(super) fn check_sequences(&self, columns: &Schema, given: &MappingOptions) -> Result<()> {
        let is_known = |name: &&String| match self.items.is_empty() {
            true => columns.field_with_name(name).is_ok() || self.columns.contains_key(*name),
            false => self.items.contains(*name),
        };
        let Some(column) = given.sequences.iter().find(|name| !is_known(name)) else { return Ok(()) };
        let known = match self.items.is_empty() {
            true => columns.fields().iter().map(|field| field.name().clone()).collect(),
            false => self.items.iter().cloned().collect(),
        };
        Err(ErrorKind::NoColumn { role: "sequence", column: column.clone(), known }.into())
    }

    /// Returns the columns of all sets together, if every set specifies its own.
    pub(super) fn schema(&self) -> Result<Option<SchemaRef>> {
        Ok(match self.schemas().as_slice() {
            _ if !self.is_whole => None,
            [] => None,
            [schema] => Some(Arc::clone(schema)),
            schemas => Some(schema::merge(schemas, None, Joining::Same, |index| self.names.name(&self.sets[index].0))?),
        })
    }

    /// Returns the columns of each set that specifies them.
    pub(super) fn schemas(&self) -> Vec<SchemaRef> {
        self.sets.iter().map(|(_, schema)| Arc::clone(schema)).collect()
    }

    /// Returns the files whose columns no manifest specifies.
    pub(super) fn unspecified<'a>(&self, files: &'a TableFiles) -> impl Iterator<Item = usize> + 'a {
        let specified: Vec<_> =
            files.sets.iter().map(|set| self.sets.iter().any(|(directory, _)| *directory == set.directory)).collect();
        let listed = files.listed.iter().enumerate();
        listed.filter(move |(_, set)| !set.is_some_and(|set| specified[set])).map(|(file, _)| file)
    }

    /// Rejects a mix of files with and without manifests that specify types: their values could not be distinguished.
    pub(super) fn check_files(&self, files: &TableFiles) -> Result<()> {
        let Some((first, _)) = self.sets.first() else { return Ok(()) };
        let Some(stray) = self.unspecified(files).next() else { return Ok(()) };
        let specifies = |directory: &Path| self.sets.iter().any(|(known, _)| known == directory);
        let stray = &files.listing.files()[stray].location;
        let beside = stray.parent().filter(specifies);
        let (file, directory) = (self.names.name(stray), self.names.name(beside.as_ref().unwrap_or(first)));
        Err(ErrorKind::StrayFile { file, directory }.into())
    }

    /// Rejects declared columns and struct fields that no set has: they would be null in every row.
    pub(super) fn check_names<'a>(
        &self,
        declared: impl IntoIterator<Item = &'a FieldRef>,
        given: &MappingOptions,
    ) -> Result<()> {
        let Some((directory, _)) = self.sets.first() else { return Ok(()) };
        let unknown = declared.into_iter().find_map(|field| {
            let name = field.name();
            match self.columns.get(name) {
                None => Some((name.clone(), self.columns.keys().cloned().collect())),
                Some(_) if given.choices.contains_key(name) => None,
                Some(form) => unknown_field(field.data_type(), form.field.data_type(), name),
            }
        });
        match unknown {
            Some((column, known)) => {
                let (directory, more) = (self.names.name(directory), self.sets.len() - 1);
                Err(ErrorKind::UnknownColumn { directory, more, column, known }.into())
            }
            None => Ok(()),
        }
    }

    /// Rejects columns that would be misread. Dates, times, timestamps and durations must have the unit in which they
    /// were written, since records contain plain numbers. Nesting must be the same, since it determines the names of
    /// features. Columns whose record format is `given` are not checked.
    pub(super) fn check_units(&self, declared: &Schema, given: &MappingOptions) -> Result<()> {
        for (directory, written) in &self.sets {
            for field in declared.fields().iter().filter(|field| !given.choices.contains_key(field.name())) {
                let Some((_, written)) = written.column_with_name(field.name()) else { continue };
                let form = self.columns.get(field.name()).map(|form| &form.options);
                if form.is_some_and(|form| form.choices.get(field.name()) == Some(&Choice::Tensor)) {
                    continue;
                }
                let (declared, found) = (field.data_type(), written.data_type());
                // Choices for parts are kept or dropped together, for the whole column.
                let has_parts = is_nested(found) && form.is_some_and(|form| !form.choices.is_empty());
                if !fits(declared, found) || (has_parts && !is_same_shape(declared, found)) {
                    return Err(ErrorKind::DeclaredUnit {
                        directory: self.names.name(directory),
                        column: field.name().clone(),
                        written: written.data_type().clone(),
                        declared: field.data_type().clone(),
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Returns the columns `fields` as decoded, if they differ from the declared ones. With `others`, files without a
    /// manifest are included.
    pub(super) fn decoded<'a>(
        &self,
        fields: impl IntoIterator<Item = &'a FieldRef>,
        others: bool,
    ) -> Option<SchemaRef> {
        let mut differs = false;
        let decoded = fields.into_iter().map(|field| {
            let Some(form) = self.columns.get(field.name()) else { return Arc::clone(field) };
            let decoded = decoded(field, &form.field, others);
            differs |= decoded != *field;
            decoded
        });
        let decoded: Vec<_> = decoded.collect();
        differs.then(|| Arc::new(Schema::new(decoded)))
    }

    /// Returns how the columns of `schema` were written. A choice depends on the type, and applies only where the
    /// values still have that type.
    pub(super) fn mapping(&self, schema: &Schema) -> MappingOptions {
        let mut mapping = MappingOptions {
            choices: BTreeMap::new(),
            vocabularies: BTreeMap::new(),
            sequences: BTreeSet::new(),
            column_nulls: BTreeMap::new(),
            ..self.options.clone()
        };
        let everywhere = as_read(self.options.nulls.into());
        for field in schema.fields() {
            let Some(WrittenForm { field: written, options, .. }) = self.columns.get(field.name()) else { continue };
            mapping.sequences.extend(options.sequences.iter().cloned());
            for (key, rule) in &options.column_nulls {
                if let Some(said) = self.options.column_nulls.get(key) {
                    mapping.column_nulls.insert(key.clone(), said.clone());
                } else if key != field.name() || *rule != everywhere {
                    mapping.column_nulls.insert(key.clone(), rule.clone());
                }
            }
            if is_same_shape(field.data_type(), written.data_type()) {
                mapping.choices.extend(options.choices.clone());
                mapping.vocabularies.extend(options.vocabularies.clone());
            }
        }
        // Another list of structs must not be read as the examples.
        let is_left_out = |column: &&String| schema.field_with_name(column).is_err();
        mapping.sequences.extend(self.items.iter().filter(is_left_out).cloned());
        mapping
    }
}
