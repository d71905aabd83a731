//! [`Environment`]: environment variables that configure stores.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The environment variables that configure stores: those of AWS, Google, Azure and Hadoop.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    home: Option<PathBuf>,
}

impl Environment {
    /// Returns the environment of this process.
    pub fn of_process() -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let value = value.into_string().ok()?;
            // A secret read from a file may end with a line break.
            Some((name.into_string().ok()?, value.trim_end_matches(['\r', '\n']).to_owned()))
        });
        Self { variables: variables.filter(|(_, value)| !value.is_empty()).collect(), home: std::env::home_dir() }
    }

    /// Returns a cloud variable whose value cannot be sent in a request.
    pub(crate) fn unfit(&self) -> Option<&str> {
        let is_of_cloud = |name: &str| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|cloud| name.starts_with(cloud));
        // The key of a service account is JSON, and has several lines.
        let is_json = |value: &str| value.trim_start().starts_with('{');
        let is_unfit = |value: &str| !is_json(value) && value.contains(|c: char| c.is_control());
        let mut unfit = self.variables.iter().filter(|(name, value)| is_of_cloud(name) && is_unfit(value));
        unfit.next().map(|(name, _)| name.as_str())
    }

    /// Returns the value of a variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the variables whose names start with `prefix`, with names in lower case, as the stores' builders
    /// expect.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (String, &'a str)> {
        let named = self.variables.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }

    /// Returns the user's home directory.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { variables: owned.into(), home: None }
    }
}

/// Shows only names: values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
