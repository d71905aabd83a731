//! [`Profile`]: reads the files of the AWS command line tool, `~/.aws/credentials` and `~/.aws/config`.
//!
//! Static keys, region and endpoint are supported. A profile whose keys come from a login, a role or another program
//! is an error. The error names the command that prints such keys for the environment.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::environment::Environment;

/// The settings of one profile.
#[derive(Default)]
pub(crate) struct Profile {
    settings: BTreeMap<String, String>,
}

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, or `default`. Missing files are empty.
    ///
    /// # Errors
    /// A message: the named profile does not exist, or its files cannot be read.
    pub(crate) fn read(environment: &Environment) -> Result<Self, String> {
        let named = environment.get("AWS_PROFILE").or_else(|| environment.get("AWS_DEFAULT_PROFILE"));
        let name = named.unwrap_or("default");
        let path = |variable, usual: &str| {
            let given = environment.get(variable).map(PathBuf::from);
            given.or_else(|| environment.home().map(|home| home.join(".aws").join(usual)))
        };
        let config = text(path("AWS_CONFIG_FILE", "config"))?;
        let credentials = text(path("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
        let in_config = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        // The credentials file takes precedence.
        let found = [section(&config, &in_config), section(&credentials, name)];
        if named.is_some() && found.iter().all(Option::is_none) {
            return Err(format!(
                "AWS_PROFILE names the profile {name:?}, which is in neither of the files of profiles"
            ));
        }
        Ok(Self { settings: found.into_iter().flatten().flatten().collect() })
    }

    /// Returns a setting.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// Returns the source of the profile's keys, if it is not the file.
    pub(crate) fn other_way(&self) -> Option<&'static str> {
        const WAYS: [(&str, &str); 4] = [
            ("sso_session", "a login (sso_session)"),
            ("sso_start_url", "a login (sso_start_url)"),
            ("role_arn", "a role (role_arn)"),
            ("credential_process", "another program (credential_process)"),
        ];
        WAYS.iter().find(|(key, _)| self.settings.contains_key(*key)).map(|(_, way)| *way)
    }
}

fn text(path: Option<PathBuf>) -> Result<String, String> {
    let read = |path: &Path| match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    path.as_deref().map_or(Ok(String::new()), read)
}

/// Returns the `key = value` lines of a section. An indented line continues the value above it; none of the supported
/// settings has one.
fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let mut found: Option<BTreeMap<_, _>> = None;
    let mut inside = false;
    for line in text.lines() {
        if let Some(header) = line.trim().strip_prefix('[').and_then(|line| line.split_once(']')).map(|(name, _)| name)
        {
            inside = header.split_whitespace().eq(name.split_whitespace());
            if inside {
                found.get_or_insert_default();
            }
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let (Some((key, value)), Some(found)) = (line.split_once('='), &mut found)
        {
            found.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
[default]
region = us-west-2
[profile  lab ]
region=eu-west-1 
s3 =
  max_concurrent_requests = 20
endpoint_url = http://localhost:9000
# region = none
[profile login]
sso_session = corp
";

    #[test]
    fn a_profile_is_found_in_both_files() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let (config, credentials) = (directory.path().join("config"), directory.path().join("credentials"));
        fs::write(&config, CONFIG)?;
        fs::write(&credentials, "[lab]\naws_access_key_id = AK\naws_secret_access_key = a=b/c\n")?;
        let (config, credentials) = (config.to_string_lossy(), credentials.to_string_lossy());
        let profile = |name| {
            let files =
                [("AWS_CONFIG_FILE", &*config), ("AWS_SHARED_CREDENTIALS_FILE", &*credentials), ("AWS_PROFILE", name)];
            Profile::read(&files.into())
        };
        let lab = profile("lab").expect("the profile");
        assert_eq!(lab.get("region"), Some("eu-west-1"));
        assert_eq!(lab.get("endpoint_url"), Some("http://localhost:9000"));
        assert_eq!(lab.get("aws_secret_access_key"), Some("a=b/c"));
        assert_eq!(lab.get("max_concurrent_requests"), None);
        assert_eq!(lab.other_way(), None);
        assert_eq!(profile("login").expect("the profile").other_way(), Some("a login (sso_session)"));
        assert_eq!(profile("default").expect("the profile").get("region"), Some("us-west-2"));
        assert!(profile("none").err().is_some_and(|reason| reason.contains("\"none\"")));
        Ok(())
    }
}
