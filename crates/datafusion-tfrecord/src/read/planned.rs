//! [`PlannedRecords`]: what planning has found out about a table of records, as text that a plan keeps.

use std::sync::Arc;

use arrow_tfrecord::MappingOptions;
use datafusion_common::Result;
use datafusion_datasource::file_format::FileFormat;
use datafusion_session::Session;
use serde::{Deserialize, Serialize};
use tfr_files::planned::{schema_of_text, schema_text};
use tfr_stores::FileNames;
use tfrecord_framing::Container;

use super::files::RecordForm;
use super::open::format_of;
use super::options::ReadOptions;
use super::planned_files::PlannedContainer;
use super::types::ColumnOrigin;
use crate::format::TfRecordFormat;

/// What [`open`](super::open()) has found out about a table beyond its columns. A process that reads the same table needs
/// neither its manifests nor its records to plan a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRecords {
    mapping: MappingOptions,
    /// The columns as decoded from the files, if they differ from the table's.
    decoded: Option<String>,
    found: Option<PlannedContainer>,
    inferred: bool,
    origin: ColumnOrigin,
}

impl PlannedRecords {
    /// Returns what was found out about the files of a format; `None` if it is not one of records, or if it cannot be stored as
    /// text.
    pub fn of(format: &dyn FileFormat) -> Option<Self> {
        let RecordForm { mapping, decoded, found, inferred, origin, .. } =
            format.downcast_ref::<TfRecordFormat>()?.form();
        let planned = Self {
            mapping: mapping.clone(),
            decoded: match decoded {
                Some(schema) => Some(schema_text(schema)?),
                None => None,
            },
            found: found.map(PlannedContainer::from),
            inferred: *inferred,
            origin: origin.clone(),
        };
        let text = serde_json::to_string(&planned).ok()?;
        serde_json::from_str::<Self>(&text).is_ok_and(|read| read == planned).then_some(planned)
    }

    /// Returns the format of files that were opened with the same options.
    ///
    /// # Errors
    /// The text is not one of this version.
    pub fn format(self, session: &dyn Session, names: FileNames, options: &ReadOptions) -> Result<Arc<dyn FileFormat>> {
        let decoded = self.decoded.map(|text| schema_of_text(&text)).transpose()?;
        let form = RecordForm {
            mapping: self.mapping,
            decoded: decoded.map(Arc::new),
            found: self.found.map(Container::from),
            inferred: self.inferred,
            origin: self.origin,
            ..RecordForm::of(options)
        };
        Ok(Arc::new(format_of(session, names, form)))
    }
}
