//! [`Configuration`]: Hadoop's settings, read as Hadoop reads them.
//!
//! The client reads the same files, but neither resolves `${name}`, nor trims names, nor honours `final`, nor has the
//! default port. So the settings are read and resolved here, and the client receives the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node, ParsingOptions};
use url::{Position, Url};

use crate::environment::Environment;
use crate::error::SettingsProblem;

/// The files that the client of Hadoop reads, too. Later files take precedence.
const FILES: [&str; 2] = ["core-site.xml", "hdfs-site.xml"];

/// The port of a namenode's address without one.
const NAMENODE_PORT: u16 = 8020;

/// Maximum number of substitutions in a value, and depth of included files. Hadoop has the same limit for values.
const DEPTH: usize = 20;

type SettingsResult<T> = Result<T, SettingsProblem>;

/// The settings in `core-site.xml` and `hdfs-site.xml`.
#[derive(Debug, Clone, Default)]
pub(super) struct Configuration {
    values: BTreeMap<String, String>,
    /// The names that later files cannot set.
    last: BTreeSet<String>,
}

/// The namenodes of an authority: one host, or the namenodes of a name service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    /// The URL that the client opens.
    pub(super) url: String,
    /// Its name service, if it is one.
    pub(super) service: Option<NameService>,
    /// The addresses of the namenodes, each with its port.
    pub(super) addresses: Vec<String>,
}

/// A name service of several namenodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameService {
    pub(super) name: String,
    /// The names of its namenodes, in the order of their addresses.
    pub(super) namenodes: Vec<String>,
}

/// A mount of a `viewfs` file system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    /// The mounted directory, without a slash at its end. The root and the fallback are empty.
    pub(super) directory: String,
    pub(super) target: String,
}

impl Configuration {
    /// Reads the files in `HADOOP_CONF_DIR`, or else in `etc/hadoop` of `HADOOP_HOME`. Without these variables there
    /// are no settings.
    pub(super) fn read(environment: &Environment) -> SettingsResult<Self> {
        let directory = match (environment.get("HADOOP_CONF_DIR"), environment.get("HADOOP_HOME")) {
            (Some(directory), _) => PathBuf::from(directory),
            (None, Some(home)) => Path::new(home).join("etc/hadoop"),
            (None, None) => return Ok(Self::default()),
        };
        if !directory.is_dir() {
            return Err(format!("there is no directory of Hadoop's configuration at {}", directory.display()).into());
        }
        let mut raw = Self::default();
        for file in FILES.map(|name| directory.join(name)) {
            if file.exists() {
                raw.read_file(&file, 0)?;
            }
        }
        let values = raw.values.iter().map(|(name, value)| (name.clone(), raw.resolved(value, environment)));
        Ok(Self { values: values.collect(), last: BTreeSet::new() })
    }

    fn read_file(&mut self, file: &Path, depth: usize) -> SettingsResult<()> {
        let problem = |reason: String| SettingsProblem::from(format!("{}: {reason}", file.display()));
        if depth > DEPTH {
            return Err(problem("files include each other".to_owned()));
        }
        let text = fs::read_to_string(file).map_err(|error| problem(error.to_string()))?;
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(&text, options).map_err(|error| problem(error.to_string()))?;
        let root = document.root_element();
        if root.tag_name().name() != "configuration" {
            return Err(problem(format!("the element is <{}>, not <configuration>", root.tag_name().name())));
        }
        for node in root.children().filter(Node::is_element) {
            match node.tag_name().name() {
                "property" => self.set(node),
                "include" => {
                    let name = node.attribute("href").ok_or_else(|| problem("<include> has no href".to_owned()))?;
                    let included = file.parent().unwrap_or(Path::new("")).join(name);
                    self.read_file(&included, depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set(&mut self, property: Node<'_, '_>) {
        let part = |name: &str| -> Option<String> {
            if let Some(value) = property.attribute(name) {
                return Some(value.trim().to_owned());
            }
            let child = property.children().find(|node| node.tag_name().name() == name)?;
            let texts = child.descendants().filter(Node::is_text).filter_map(|node| node.text());
            Some(texts.collect::<String>().trim().to_owned())
        };
        let (Some(name), Some(value)) = (part("name"), part("value")) else { return };
        if self.last.contains(&name) {
            return;
        }
        if part("final").as_deref() == Some("true") {
            self.last.insert(name.clone());
        }
        self.values.insert(name, value);
    }

    /// Replaces each `${name}` by a variable (`${env.NAME}`), a property of the user, or a setting. One that has no
    /// value stays as it is.
    fn resolved(&self, value: &str, environment: &Environment) -> String {
        let mut text = value.to_owned();
        for _ in 0..DEPTH {
            // The innermost first.
            let Some((start, end)) = text.match_indices('}').find_map(|(end, _)| Some((text[..end].rfind("${")?, end)))
            else {
                break;
            };
            let Some(found) = self.variable(&text[start + 2..end], environment) else { break };
            text.replace_range(start..=end, &found);
        }
        text
    }

    fn variable(&self, name: &str, environment: &Environment) -> Option<String> {
        if let Some(variable) = name.strip_prefix("env.") {
            let (variable, default) = match variable.split_once('-') {
                Some((variable, default)) => (variable.strip_suffix(':').unwrap_or(variable), Some(default)),
                None => (variable, None),
            };
            return environment.get(variable).or(default).map(str::to_owned);
        }
        match name {
            "user.name" => environment.get("USER").map(str::to_owned),
            "user.home" => environment.home().map(|home| home.display().to_string()),
            _ => self.values.get(name).cloned(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns all settings.
    pub(super) fn values(&self) -> impl Iterator<Item = (&String, &String)> {
        self.values.iter()
    }

    /// Whether the namenodes require Kerberos or a token.
    pub(super) fn is_secure(&self) -> bool {
        self.get("hadoop.security.authentication").is_some_and(|method| method != "simple")
    }

    /// Returns the URL itself, or the default file system if it has no host (`hdfs:///data`).
    pub(super) fn with_host(&self, url: &Url) -> SettingsResult<Url> {
        if url.host_str().is_some_and(|host| !host.is_empty()) {
            return Ok(url.clone());
        }
        let default = self.get("fs.defaultFS").or_else(|| self.get("fs.default.name"));
        let Some(default) = default else {
            return Err("the URL has no host, and fs.defaultFS is not set".to_owned().into());
        };
        match Url::parse(default) {
            Ok(parsed) if parsed.scheme() == url.scheme() && parsed.has_host() => Ok(parsed),
            _ => Err(format!("the URL has no host, and fs.defaultFS is {default}").into()),
        }
    }

    /// Returns the namenodes of an `hdfs` URL.
    pub(super) fn authority(&self, url: &Url) -> SettingsResult<Authority> {
        let host = url.host_str().unwrap_or_default();
        let namenodes: Vec<_> = match self.get(&format!("dfs.ha.namenodes.{host}")) {
            Some(names) => names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
            None => Vec::new(),
        };
        if let Some(port) = url.port() {
            if !namenodes.is_empty() {
                return Err(format!("{host} is a name service, so its URL has no port, but this one has {port}").into());
            }
            return Ok(Authority::of(format!("{host}:{port}")));
        }
        if namenodes.is_empty() {
            let address = self.get(&format!("dfs.namenode.rpc-address.{host}")).unwrap_or(host);
            return Ok(Authority::of(with_port(address)));
        }
        let address = |namenode: &&str| {
            let name = format!("dfs.namenode.rpc-address.{host}.{namenode}");
            let address = self.get(&name).filter(|address| !address.is_empty());
            address.map(with_port).ok_or_else(|| SettingsProblem::from(format!("{name} is not set")))
        };
        let addresses = namenodes.iter().map(address).collect::<SettingsResult<_>>()?;
        let namenodes = namenodes.into_iter().map(str::to_owned).collect();
        let service = Some(NameService { name: host.to_owned(), namenodes });
        Ok(Authority { url: format!("hdfs://{host}"), service, addresses })
    }

    /// Returns the mounts of a `viewfs` file system, the longest directories first.
    pub(super) fn mounts(&self, url: &Url) -> SettingsResult<Vec<Link>> {
        let host = url.host_str().unwrap_or_default();
        let prefix = format!("fs.viewfs.mounttable.{host}.");
        let mut links = Vec::new();
        let named = self.values.iter().filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?, value)));
        for (kind, target) in named {
            let directory = match kind {
                "linkFallback" | "linkMergeSlash" => "",
                _ => match kind.strip_prefix("link.") {
                    Some(directory) => directory.trim_end_matches('/'),
                    None if kind.starts_with("link") => {
                        return Err(format!("{prefix}{kind}: this kind of mount is not supported").into());
                    }
                    None => continue,
                },
            };
            links.push(Link { directory: directory.to_owned(), target: target.clone() });
        }
        if links.is_empty() {
            return Err(format!("there are no mounts ({prefix}link.*)").into());
        }
        links.sort_by_key(|link| std::cmp::Reverse(link.directory.len()));
        Ok(links)
    }
}

impl Authority {
    fn of(address: String) -> Self {
        Self { url: format!("hdfs://{address}"), service: None, addresses: vec![address] }
    }
}

/// Returns an address with its port.
fn with_port(address: &str) -> String {
    match Url::parse(&format!("hdfs://{address}")) {
        Ok(url) if url.port().is_none() => {
            format!("{}:{NAMENODE_PORT}", &url[Position::BeforeHost..Position::AfterHost])
        }
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests;
