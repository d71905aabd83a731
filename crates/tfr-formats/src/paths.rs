//! `SELECT ... FROM 'data/*.parquet'`: a path in the place of a table name.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_catalog::{CatalogProviderList, DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion_common::Result;
use datafusion_session::Session;
use tfr_files::{Error, ErrorKind};

use crate::open::open_locations;
use crate::options::InputOptions;

/// Gives the session that a table is opened in; `None` once it is gone.
///
/// With the `datafusion` facade:
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::prelude::SessionContext;
/// # use datafusion::catalog::Session;
/// let ctx = SessionContext::new();
/// let state = ctx.state_weak_ref();
/// let session: tfr_formats::CurrentSession =
///     Arc::new(move || state.upgrade().map(|state| Arc::new(state.read().clone()) as Arc<dyn Session>));
/// let catalogs = tfr_formats::paths_as_tables(Arc::clone(ctx.state().catalog_list()), session);
/// ctx.register_catalog_list(catalogs);
/// ```
pub type CurrentSession = Arc<dyn Fn() -> Option<Arc<dyn Session>> + Send + Sync>;

/// Wraps the catalogs of a session: a name that is no table is taken for a path, URL or pattern, relative to the
/// current directory, and its format is told from the content.
///
/// A name that looks like a path and leads nowhere is an error that says so; a plain word that leads nowhere is left
/// to the engine's "table not found".
pub fn paths_as_tables(
    catalogs: Arc<dyn CatalogProviderList>,
    session: CurrentSession,
) -> Arc<dyn CatalogProviderList> {
    Arc::new(DynamicFileCatalog::new(catalogs, Arc::new(PathTables { session })))
}

struct PathTables {
    session: CurrentSession,
}

impl fmt::Debug for PathTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathTables")
    }
}

#[async_trait]
impl UrlTableFactory for PathTables {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(session) = (self.session)() else { return Ok(None) };
        match open_locations(session.as_ref(), &[name.into()], &InputOptions::default(), None).await {
            Ok(table) => Ok(Some(table)),
            Err(error) if !looks_like_a_path(name) && is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn looks_like_a_path(name: &str) -> bool {
    name.is_empty() || name.contains(['/', '.', '*', '?', '[', ':'])
}

fn is_not_found(error: &datafusion_common::DataFusionError) -> bool {
    let datafusion_common::DataFusionError::External(error) = error else { return false };
    let kind = error.downcast_ref::<Error>().map(Error::kind);
    matches!(kind, Some(ErrorKind::NotFound { .. } | ErrorKind::Empty { .. } | ErrorKind::Location { .. }))
}
