//! `SELECT ... FROM 'data/*.parquet'`: paths instead of table names.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_catalog::{CatalogProviderList, DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion_common::Result;
use datafusion_session::Session;
use tfr_files::{Error, ErrorKind};

use crate::open::open_locations;
use crate::options::InputOptions;

/// Returns the current session, or `None` once it is dropped.
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

/// Wraps a session's catalogs so that paths can be used as table names.
///
/// A name that is not a table is taken as a path, URL or pattern, relative to the current directory. Its format is
/// detected from the content.
///
/// If nothing exists there, a name that looks like a path is reported as such. A plain word falls through to the
/// engine's "table not found".
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
    matches!(kind, Some(ErrorKind::NotFound { .. } | ErrorKind::Empty { .. } | ErrorKind::Place(_)))
}
