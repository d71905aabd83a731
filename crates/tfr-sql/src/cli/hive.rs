//! `--hive-metastore`: where tables named `hive.database.table` are recorded.

use std::env;
use std::sync::Arc;

use clap::Args;
use tfr_formats::metastore::Metastore;
use tfr_stores::Door;

use crate::error::{Error, Result};

/// The variable with the addresses, if the option is not given.
const VARIABLE: &str = "TFR_SQL_HIVE_METASTORE";

/// Options for tables by their names in Hive.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Stores")]
#[group(skip)]
pub struct HiveArgs {
    /// Read tables named hive.DATABASE.TABLE as this metastore records them: thrift://host:9083
    ///
    /// Several servers of one metastore are separated by commas. hive.information_schema.tables has the names of all
    /// tables [default: TFR_SQL_HIVE_METASTORE]
    #[arg(long, value_name = "URL", hide_short_help = true)]
    hive_metastore: Option<String>,
}

impl HiveArgs {
    /// Returns the metastore of the option, or of the environment.
    ///
    /// # Errors
    /// Neither names one, or an address is not valid or not allowed.
    pub fn metastore(&self, door: &Door, table: &str) -> Result<Arc<Metastore>> {
        let addresses = self.hive_metastore.clone().or_else(Self::of_environment);
        let addresses = addresses.ok_or_else(|| Error::NoMetastore { table: table.to_owned() })?;
        Ok(Arc::new(Metastore::new(&addresses, door)?))
    }

    /// The addresses in the environment of this process.
    pub fn of_environment() -> Option<String> {
        env::var(VARIABLE).ok().filter(|value| !value.is_empty())
    }
}
