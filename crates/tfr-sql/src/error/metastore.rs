//! Hints for tables of a Hive Metastore.

use tfr_formats::MetastoreError;

/// The longest query of a view that a hint shows, in characters.
const LONGEST_VIEW: usize = 500;

/// How to read a table without its metastore.
const DECLARED: &str =
    "declare the table as SHOW CREATE TABLE prints it in Hive: CREATE EXTERNAL TABLE ... LOCATION '...'; SELECT ...";

/// Returns a hint, if there is one.
pub(super) fn hint(error: &MetastoreError) -> Option<String> {
    match error {
        MetastoreError::Unreachable { .. } => {
            Some("check the address, and that this machine may connect to it; the port is usually 9083".to_owned())
        }
        MetastoreError::Protocol { protocol: "SASL", .. } => {
            Some(format!("tables of a metastore with Kerberos are not read by name: {DECLARED}"))
        }
        MetastoreError::Protocol { .. } | MetastoreError::PartitionColumn { .. } => Some(DECLARED.to_owned()),
        MetastoreError::NoTable { .. } => {
            Some("SELECT * FROM hive.information_schema.tables has the names of all tables".to_owned())
        }
        MetastoreError::Refused { view: Some(view), .. } => {
            let more = if view.chars().count() > LONGEST_VIEW { " ..." } else { "" };
            let view: String = view.chars().take(LONGEST_VIEW).collect();
            Some(format!("put the query of the view in its place: {view}{more}"))
        }
        MetastoreError::Refused { refusal, .. } => super::hive::hint(refusal),
        _ => None,
    }
}
