//! [`confine`]: the rules of the kernel behind the door of a run.
//!
//! A door refuses what a run names. Should a way around it be found, Linux refuses to open files outside of the same paths
//! (Landlock). These rules hold for the thread that sets them and for all that it starts, and cannot be taken back. So only
//! a process of the command sets them, before it starts a thread.

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use tfr_stores::{Door, Service};

/// What certificates, names of hosts and time zones are read from, and what describes this machine and process. Nothing
/// of this is secret.
const READ_BY_SYSTEM: [&str; 37] = [
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/timezone",
    "/dev/urandom",
    "/lib",
    "/lib64",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self/cgroup",
    "/proc/self/fdinfo",
    "/proc/self/mountinfo",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/stat",
    "/proc/sys/kernel",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/zoneinfo",
];

/// Variables that name certificates.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Whether the kernel enforces what a run may open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// All rules.
    Enforced,
    /// This kernel does not know some of the rules, such as that for cutting files.
    InPart,
    /// None, for this reason.
    Absent(String),
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced => f.write_str("the kernel enforces the paths, too (Landlock)"),
            Self::InPart => f.write_str("the kernel enforces the paths in part: it has an old version of Landlock"),
            Self::Absent(reason) => write!(f, "the kernel does not enforce the paths: {reason}"),
        }
    }
}

/// Restricts the calling thread, and those that it starts, to the local paths of a door, and to what certificates, names
/// of hosts, time zones and the credentials of its stores are read from. Without lists, nothing is restricted.
///
/// To be called by a process for itself: it cannot be taken back.
pub fn confine(door: &Door) -> Confinement {
    match door.is_limited() {
        true => enforce(door),
        false => Confinement::Absent("everything is allowed".to_owned()),
    }
}

#[cfg(target_os = "linux")]
fn enforce(door: &Door) -> Confinement {
    use landlock::{
        ABI, Access as _, AccessFs, RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetError, RulesetStatus, path_beneath_rules,
    };

    let all = AccessFs::from_all(ABI::V5);
    let mut write = all;
    write.remove(AccessFs::Execute);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // Paths that do not exist are left out.
    let restrict = || -> Result<RestrictionStatus, RulesetError> {
        Ruleset::default()
            .handle_access(all)?
            .create()?
            .add_rules(path_beneath_rules(door.paths(), write))?
            .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules(READ_BY_SYSTEM, read))?
            .add_rules(path_beneath_rules(variables(&CERTIFICATES), read))?
            .add_rules(path_beneath_rules(credentials(door), read))?
            .restrict_self()
    };
    match restrict().map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => Confinement::Enforced,
        Ok(RulesetStatus::PartiallyEnforced) => Confinement::InPart,
        Ok(RulesetStatus::NotEnforced) => Confinement::Absent("it has no Landlock".to_owned()),
        Err(error) => Confinement::Absent(error.to_string()),
    }
}

#[cfg(not(target_os = "linux"))]
fn enforce(_: &Door) -> Confinement {
    Confinement::Absent("only Linux has Landlock".to_owned())
}

/// Returns the files in which the credentials of the allowed stores may be.
fn credentials(door: &Door) -> Vec<PathBuf> {
    let home = env::home_dir();
    let in_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let mut paths = Vec::new();
    for service in door.services() {
        match service {
            Service::S3 => {
                paths.extend(in_home(".aws"));
                paths.extend(variables(&[
                    "AWS_CONFIG_FILE",
                    "AWS_SHARED_CREDENTIALS_FILE",
                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                ]));
            }
            Service::Gcs => {
                paths.extend(in_home(".config/gcloud"));
                paths.extend(variables(&[
                    "GOOGLE_APPLICATION_CREDENTIALS",
                    "GOOGLE_SERVICE_ACCOUNT",
                    "GOOGLE_SERVICE_ACCOUNT_PATH",
                ]));
            }
            Service::Azure => paths.extend(variables(&["AZURE_FEDERATED_TOKEN_FILE"])),
            Service::Hdfs => {
                paths.extend(["/etc/krb5.conf", "/etc/krb5.conf.d", "/etc/passwd"].map(PathBuf::from));
                paths.extend(variables(&["HADOOP_CONF_DIR", "HADOOP_TOKEN_FILE_LOCATION", "KRB5_CONFIG"]));
                paths.extend(variables(&["HADOOP_HOME"]).into_iter().map(|home| home.join("etc/hadoop")));
                paths.extend(ticket());
            }
            _ => {}
        }
    }
    paths
}

/// Returns the file of the Kerberos ticket. Its name may begin with its type, and has a usual place.
fn ticket() -> Option<PathBuf> {
    match env::var("KRB5CCNAME") {
        Ok(name) => Some(name.strip_prefix("FILE:").unwrap_or(&name).into()),
        // The owner of this is the user of the process.
        Err(_) => Some(format!("/tmp/krb5cc_{}", fs::metadata("/proc/self").ok()?.uid()).into()),
    }
}

/// Returns the paths in these variables of the environment.
fn variables(names: &[&str]) -> Vec<PathBuf> {
    names.iter().filter_map(env::var_os).filter(|value| !value.is_empty()).map(PathBuf::from).collect()
}
