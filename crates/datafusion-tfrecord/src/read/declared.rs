//! Checks whether and where records contain the declared columns.
//!
//! A feature missing from a record is a null, so a column that is looked up in the wrong place, or under the wrong
//! name, is null in every row. The first records distinguish the two cases. A name found in another place is an
//! error. A name not found at all is a warning. Feature lists determine the record type.

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_tfrecord::{FeatureMapping, FeatureNames, FeatureRole, Mapping, MappingOptions, NullPolicy, RecordType};
use datafusion_common::Result;
use datafusion_session::Session;
use tfr_arrow::nested::{item, struct_fields};
use tfrecord_framing::Position;

use super::infer::expect_type;
use super::masks;
use super::options::ReadOptions;
use super::probe::{Probed, RecordObserver, probe};
use super::sets::TableFiles;
use super::similar::{listed, similar};
use crate::error::ErrorKind;

/// Determines the record format of the declared `columns` in the files `unspecified`, which have no manifest: from the
/// options in `given`, then from the first records.
pub(super) async fn form(
    session: &dyn Session,
    files: &TableFiles,
    unspecified: &[usize],
    columns: &SchemaRef,
    given: MappingOptions,
    options: &ReadOptions,
) -> Result<MappingOptions> {
    let listing = &files.listing;
    let looked_at: Vec<_> = unspecified.iter().map(|file| listing.files()[*file].clone()).collect();
    let is_all = looked_at.len() == listing.files().len();
    let mut wanted = Wanted {
        columns,
        names: FeatureNames::default().with_record_type(given.record_type),
        given,
        lacking: Lacking::Warned,
        infers_type: is_all,
        unseen: None,
    };
    let Probed { probed_files, .. } =
        probe(session, listing.store(), &looked_at, listing.names(), options, &mut wanted).await?;
    let form = wanted.form();
    let form = wanted.with_existing_masks(form);
    let (Some(file), Some(mapping)) = (looked_at.first(), wanted.mapping(&form)) else { return Ok(form) };
    wanted.check(&mapping, &form, &listing.names().name(&file.location), probed_files)?;
    Ok(form)
}

/// What to do about columns that the records do not contain.
pub(super) enum Lacking {
    /// Warn the user, since only the declaration specifies such columns.
    Warned,
    /// A manifest specifies the columns and their record format: a column may well be null in the first records. Warn
    /// if the options differ from the manifest, or if the records have features that no column is read from.
    Written { mapping: Box<Mapping>, is_as_written: bool },
}

/// Columns to look for in records.
pub(super) struct Wanted<'a> {
    columns: &'a SchemaRef,
    given: MappingOptions,
    names: FeatureNames,
    lacking: Lacking,
    /// Whether the records determine their own type, because no manifest specifies it.
    infers_type: bool,
    /// Features whose values were not found yet. They depend on the record format, so the record type and the number
    /// of feature lists used for the lookup are stored with them.
    unseen: Option<((RecordType, usize), Vec<FeatureMapping>)>,
}

/// Where a feature is in a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the record, or in its context.
    Record,
    /// In the feature lists.
    Lists,
    /// In the examples that the record contains.
    Examples,
}

impl Place {
    const ALL: [Self; 3] = [Self::Record, Self::Lists, Self::Examples];

    fn of(feature: &FeatureMapping) -> Self {
        match (feature.in_steps, feature.in_examples) {
            (true, _) => Self::Lists,
            (_, true) => Self::Examples,
            _ => Self::Record,
        }
    }

    /// Every place, with this one first.
    fn and_others(self) -> impl Iterator<Item = Self> {
        std::iter::once(self).chain(Self::ALL.into_iter().filter(move |place| *place != self))
    }

    /// Describes a feature with this name.
    fn describe(self, name: &str) -> String {
        match self {
            Self::Record => format!("feature {name:?}"),
            Self::Lists => format!("feature list {name:?}"),
            Self::Examples => format!("feature {name:?} of examples"),
        }
    }
}

impl RecordObserver for Wanted<'_> {
    const LEAVES_DAMAGE: bool = true;

    fn observe(&mut self, record: &[u8], position: Position) -> arrow_tfrecord::Result<()> {
        self.names.observe(record, position)
    }

    fn has_enough(&mut self) -> bool {
        let names = (self.names.record_type(), self.names.feature_lists().len());
        let unseen = match self.unseen.take() {
            Some((before, unseen)) if before == names => unseen,
            // A column that cannot be read at all is not looked up.
            _ => self.mapping(&self.form()).iter().flat_map(values).map(|(_, feature)| feature.clone()).collect(),
        };
        let unseen: Vec<_> = unseen.into_iter().filter(|feature| !self.is_present(feature)).collect();
        let has_enough = unseen.is_empty();
        self.unseen = Some((names, unseen));
        has_enough
    }
}

impl<'a> Wanted<'a> {
    /// Looks for columns of a set in this record format only.
    pub(super) fn exactly(
        columns: &'a SchemaRef,
        form: &MappingOptions,
        written: Mapping,
        is_as_written: bool,
    ) -> Self {
        let lacking = Lacking::Written { mapping: Box::new(written), is_as_written };
        let names = FeatureNames::default().with_record_type(form.record_type);
        Self { columns, given: form.clone(), names, lacking, infers_type: false, unseen: None }
    }

    /// Returns the record format from the options and the feature names: records with feature lists are sequences,
    /// and lists with the same names have one element per step.
    fn form(&self) -> MappingOptions {
        let mut form = self.given.clone();
        if matches!(self.lacking, Lacking::Written { .. }) {
            return form;
        }
        if self.infers_type && form.record_type == RecordType::Example {
            form.record_type = self.names.record_type();
        }
        if form.record_type == RecordType::SequenceExample {
            let lists = self.columns.fields().iter().filter(|field| is_list(field.data_type()));
            let names = lists.map(|field| field.name().as_str());
            let is_sequence =
                |name: &&str| self.names.feature_lists().contains(*name) && !self.names.features().contains(*name);
            form.sequences.extend(names.filter(is_sequence).map(str::to_owned));
        }
        form
    }

    /// Returns the record format with the masks that exist, if all parts were specified as masked. A part that is
    /// never null has no mask, and a declaration does not specify whether it was nullable.
    fn with_existing_masks(&self, mut form: MappingOptions) -> MappingOptions {
        let Some(mapping) = self.mapping(&form) else { return form };
        for column in mapping.columns() {
            let of_role = |role| column.features.iter().filter(move |feature| feature.role == role);
            let mut parts = BTreeMap::<&str, Vec<bool>>::new();
            for mask in of_role(FeatureRole::Mask) {
                if let Some(part) = masks::masked(&mask.name, &form.separator) {
                    parts.entry(part).or_default().push(self.is_present(mask));
                }
            }
            if parts.values().flatten().all(|is_present| *is_present) {
                continue;
            }
            for (part, masks) in parts {
                // A writer of values also writes their masks.
                let is_within = |name: &str| {
                    let rest = name.strip_prefix(part);
                    // The features of examples are not named after their column.
                    part == column.column
                        || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(form.separator.as_str()))
                };
                let mut values = of_role(FeatureRole::Values).filter(|feature| is_within(&feature.name));
                let is_known = values.any(|feature| self.is_present(feature));
                let is_present = masks.contains(&true);
                // Skip parts whose masks contradict each other or the values, and parts with an explicit option.
                if (is_known && masks.contains(&!is_present)) || self.given.column_nulls.contains_key(part) {
                    continue;
                }
                let nulls = if is_present || !is_known { NullPolicy::Mask } else { NullPolicy::Absent };
                form.column_nulls.insert(part.to_owned(), nulls.into());
            }
        }
        form
    }

    /// Returns `None` if the columns cannot be read in this record format, which is reported elsewhere.
    fn mapping(&self, form: &MappingOptions) -> Option<Mapping> {
        Mapping::try_new(self.columns, &form.clone().with_strict(false)).ok()
    }

    /// Returns the names of the features in a place.
    fn names_in(&self, place: Place) -> &BTreeSet<Box<str>> {
        match place {
            Place::Record => self.names.features(),
            Place::Lists => self.names.feature_lists(),
            Place::Examples => self.names.example_features(),
        }
    }

    fn is_list_column(&self, column: &str) -> bool {
        self.columns.column_with_name(column).is_some_and(|(_, field)| is_list(field.data_type()))
    }

    fn is_present(&self, feature: &FeatureMapping) -> bool {
        self.names_in(Place::of(feature)).contains(feature.name.as_str())
    }

    /// Rejects columns that the records contain in another place, and warns of columns that they do not contain.
    pub(super) fn check(
        &self,
        mapping: &Mapping,
        form: &MappingOptions,
        file: &str,
        probed_files: usize,
    ) -> Result<()> {
        if self.names.records() == 0 {
            return Ok(());
        }
        if Place::ALL.into_iter().any(|place| !self.names_in(place).is_empty()) {
            expect_type(form.record_type, self.names.record_type(), file.to_owned())?;
        }
        let (warns, is_written) = match &self.lacking {
            Lacking::Warned => (true, false),
            Lacking::Written { mapping, is_as_written } => {
                (!is_as_written || !self.names.unmapped(mapping).is_empty(), true)
            }
        };
        let features: Vec<_> = mapping.columns().iter().flat_map(|column| &column.features).collect();
        let claimed: BTreeSet<_> = features.iter().map(|feature| feature.name.as_str()).collect();
        for (column, feature) in values(mapping).filter(|(_, feature)| !self.is_present(feature)) {
            let name = column.name();
            let expected = Place::of(feature).describe(&feature.name);
            if let Some((found, way_out)) = self.elsewhere(feature, name, form, &claimed) {
                return Err(ErrorKind::ElsewhereInRecords {
                    file: file.to_owned(),
                    column: name.clone(),
                    data_type: column.data_type().clone(),
                    expected,
                    found: listed(found),
                    way_out: match is_written {
                        true => way_out,
                        false => format!("{way_out}; or leave the columns undeclared to see what there is"),
                    },
                }
                .into());
            }
            if !warns {
                continue;
            }
            let here = self.names_in(Place::of(feature));
            let others = here.iter().map(AsRef::as_ref).filter(|name| !claimed.contains(name));
            let more = match similar(&feature.name, others) {
                Some(similar) => format!("did you mean {similar:?}?"),
                None if here.is_empty() => "they have none".to_owned(),
                None => format!("they have {}", listed(here)),
            };
            log::warn!(
                "column {name:?}: {} looked at in {}, none of which has {expected}, so it is null there; {more}",
                counted(self.names.records(), "record"),
                counted(probed_files as u64, "file"),
            );
        }
        // Fields that are in the manifest but not declared are read, too.
        if !is_written {
            self.warn_of_fields(mapping, form, &claimed);
        }
        self.warn_of_masks(mapping, form);
        Ok(())
    }

    /// Returns where the records contain a feature instead of the expected place, and the remedy.
    fn elsewhere(
        &self,
        feature: &FeatureMapping,
        column: &str,
        form: &MappingOptions,
        claimed: &BTreeSet<&str>,
    ) -> Option<(Vec<String>, String)> {
        let (name, here) = (&feature.name, Place::of(feature));
        if let Some(there) = here.and_others().skip(1).find(|there| self.names_in(*there).contains(name.as_str())) {
            let way_out = match here {
                Place::Examples => format!("declare {name} as a column of its own: it is a feature of the context"),
                Place::Record if there == Place::Examples => {
                    format!("declare {name} as a field of the list of structs")
                }
                Place::Record if matches!(self.lacking, Lacking::Written { .. }) && self.is_list_column(column) => {
                    format!("name {column} in the option sequence, with record_type sequence-example")
                }
                Place::Record => format!("declare {column} as a list, with an element for each step"),
                Place::Lists if form.sequences.contains(column) => {
                    format!("leave {column} out of the option sequence")
                }
                Place::Lists => {
                    format!("declare {column} as a value or a list of values: a list of lists is a feature list here")
                }
            };
            return Some((vec![there.describe(name)], way_out));
        }
        let all = || here.and_others().flat_map(|place| self.names_in(place).iter().map(move |name| (place, name)));
        let free = || all().filter(|(_, name)| !claimed.contains(name.as_ref()));
        let prefix = format!("{name}{}", form.separator);
        let is_part = |name: &str| name.starts_with(&prefix) && masks::masked(name, &form.separator).is_none();
        let parts: Vec<_> =
            free().filter(|(_, name)| is_part(name)).map(|(place, name)| place.describe(name)).collect();
        if !parts.is_empty() {
            let is_ragged = all().any(|(_, name)| **name == *format!("{prefix}ragged_flat_values"));
            let way_out = match is_ragged {
                _ if here == Place::Lists => "leave out the option record_type: these are no feature lists".to_owned(),
                true => format!("declare {column} as a list of lists, with a pair of brackets for each level"),
                false => format!("declare {column} as a STRUCT of these, or each of them as a column of its own"),
            };
            return Some((parts, way_out));
        }
        let mut around = name.as_str();
        while let Some((outer, _)) = around.rsplit_once(form.separator.as_str()) {
            if let Some((place, found)) = free().find(|(_, name)| ***name == *outer) {
                let way_out = format!("declare {found:?} as the value or list of values that it is");
                return Some((vec![place.describe(found)], way_out));
            }
            around = outer;
        }
        if let Some((place, found, separator)) =
            free().find_map(|(place, found)| Some((place, found, other_separator(name, &form.separator, found)?)))
        {
            let way_out = format!("set the option separator to {separator:?}");
            return Some((vec![place.describe(found)], way_out));
        }
        let lower = name.to_lowercase();
        let (place, found) = free().find(|(_, name)| name.to_lowercase() == lower)?;
        Some((vec![place.describe(found)], "a name is matched as it is spelled".to_owned()))
    }

    /// Warns of structs that have undeclared fields in the records: a struct is null if only those fields are set.
    fn warn_of_fields(&self, mapping: &Mapping, form: &MappingOptions, claimed: &BTreeSet<&str>) {
        for (field, column) in self.columns.fields().iter().zip(mapping.columns()) {
            let is_masked = column.features.iter().any(|feature| feature.role == FeatureRole::Mask);
            if !matches!(field.data_type(), DataType::Struct(_)) || !field.is_nullable() || is_masked {
                continue;
            }
            let prefix = format!("{}{}", field.name(), form.separator);
            let is_undeclared = |name: &&str| {
                name.starts_with(&prefix) && !claimed.contains(name) && masks::masked(name, &form.separator).is_none()
            };
            let more: Vec<_> = self.names.features().iter().map(AsRef::as_ref).filter(is_undeclared).collect();
            if !more.is_empty() {
                log::warn!(
                    "column {:?}: the records have {}, too, which is not declared: a row that has nothing else of it is \
                     read as null",
                    field.name(),
                    listed(more)
                );
            }
        }
    }

    /// Warns of nested columns whose nulls are read as values.
    fn warn_of_masks(&self, mapping: &Mapping, form: &MappingOptions) {
        let features = mapping.columns().iter().flat_map(|column| &column.features);
        let applied = features.filter(|feature| feature.role == FeatureRole::Mask);
        let applied: BTreeSet<_> = applied.map(|feature| feature.name.as_str()).collect();
        let names = || Place::ALL.into_iter().flat_map(|place| self.names_in(place)).map(AsRef::<str>::as_ref);
        for field in self.columns.fields().iter().filter(|field| field.data_type().is_nested()) {
            let separator = &form.separator;
            // A null field of an example is absent, with or without a mask.
            let fields = || item(field.data_type()).and_then(|item| struct_fields(item.data_type()));
            let is_value = |part: &str| {
                let field = fields().and_then(|fields| fields.find(part));
                form.record_type == RecordType::ExampleListWithContext
                    && field.is_some_and(|(_, field)| !field.data_type().is_nested())
            };
            let is_of_column = |part: &str| form.part_of_column(part, field).is_some() && !is_value(part);
            let mut masks = BTreeMap::<&str, BTreeSet<String>>::new();
            for mask in names().filter(|mask| !applied.contains(mask)) {
                if let Some(part) = masks::masked(mask, separator).filter(|part| is_of_column(part)) {
                    masks.entry(part).or_default().insert(mask.to_owned());
                }
            }
            masks.iter().for_each(|(part, masks)| masks::warn(part, masks, true));
        }
    }
}

/// Returns the columns with the features that contain their values.
fn values(mapping: &Mapping) -> impl Iterator<Item = (&arrow_schema::Field, &FeatureMapping)> {
    let fields = mapping.schema().fields().iter().zip(mapping.columns());
    let features =
        fields.flat_map(|(field, column)| column.features.iter().map(move |feature| (field.as_ref(), feature)));
    features.filter(|(_, feature)| feature.role == FeatureRole::Values)
}

/// Returns the separator with which `found` names the same part as `name` does with `separator`.
fn other_separator<'a>(name: &str, separator: &str, found: &'a str) -> Option<&'a str> {
    let parts: Vec<_> = name.split(separator).filter(|part| !part.is_empty()).collect();
    let [first, second, ..] = parts.as_slice() else { return None };
    let rest = found.strip_prefix(first)?;
    let other = rest.get(..rest.find(second)?).filter(|other| !other.is_empty())?;
    let is_separator = other.chars().all(|letter| !letter.is_alphanumeric());
    (is_separator && parts.join(other) == found).then_some(other)
}

fn is_list(data_type: &DataType) -> bool {
    data_type.is_list() && !matches!(data_type, DataType::FixedSizeList(..)) || matches!(data_type, DataType::Map(..))
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the columns of a table that are read from its files.
pub(super) fn in_files(schema: &Schema, in_path: &[arrow_schema::FieldRef]) -> SchemaRef {
    let is_in_path = |name: &str| in_path.iter().any(|field| field.name() == name);
    let fields: Vec<_> = schema.fields().iter().filter(|field| !is_in_path(field.name())).cloned().collect();
    Schema::new_with_metadata(fields, schema.metadata().clone()).into()
}
