//! `doctor`: prints what a report of a fault needs to say about the program and the machine. It holds no secrets: of
//! environment variables the names only.

use std::env::{self, consts};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rlimit::Resource;
use sysinfo::System;

use crate::cli::Resources;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::printer::bytes;
use crate::session::Limits;
use crate::spill::system_directory;
use crate::tool::Work;
use crate::version::{self, COMMIT, RELEASE};

/// Names, or beginnings of names, of the environment variables that change what a run does.
const VARIABLES: [&str; 14] = [
    "ALL_PROXY",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "HADOOP_",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LD_PRELOAD",
    "NO_PROXY",
    "RAYON_",
    "RUST_",
    "SSL_CERT_",
    "TFR_SQL_",
    "TMPDIR",
];

/// Prints the report.
pub fn print(work: &Work<'_>) -> Result<ExitStatus> {
    work.printer.data(report()?.as_bytes()).map_err(Error::Stdout)?;
    Ok(ExitStatus::Done)
}

fn report() -> Result<String> {
    let limits = Limits::new(&Resources { threads: None, partitions: None, memory_limit: None, temp_dir: None })?;
    let temporary = system_directory();
    let lines: [(&str, String); 9] = [
        ("tfr-sql", version::build(RELEASE, COMMIT)),
        ("engine", version::engine()),
        ("features", if cfg!(feature = "hdfs") { "hdfs" } else { "none" }.to_owned()),
        (
            "system",
            format!("{}, {}", System::long_os_version().unwrap_or_else(|_| consts::OS.to_owned()), consts::ARCH),
        ),
        ("kernel", System::kernel_version().unwrap_or_else(|_| "unknown".to_owned())),
        ("C library", c_library()),
        ("a query has", limits.to_string()),
        ("process limits", process_limits()),
        ("temporary files", format!("{}, {}", temporary.display(), FreeSpace::of(&temporary))),
    ];
    let lines = lines.into_iter().chain([("variables set", variables())]);
    Ok(lines.map(|(name, value)| format!("{name:<16} {value}\n")).collect())
}

/// Names the C library that this process has loaded. glibc has its version as a text, for people who run it as a program.
fn c_library() -> String {
    if cfg!(target_env = "musl") {
        return "musl".to_owned();
    }
    loaded_glibc().unwrap_or_else(|| "unknown".to_owned())
}

fn loaded_glibc() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..])).find(|path| {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name == "libc.so.6" || name.starts_with("libc-2."))
    })?;
    let library = fs::read(path).ok()?;
    let start = memmem::find(&library, b"GNU C Library")?;
    let line = library[start..].split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim_end_matches('.').to_owned())
}

fn process_limits() -> String {
    let limits = [
        ("open files", Resource::NOFILE, false),
        ("address space", Resource::AS, true),
        ("data", Resource::DATA, true),
        ("file size", Resource::FSIZE, true),
    ];
    let limits = limits.map(|(name, resource, is_size)| match resource.get_soft() {
        Ok(rlimit::INFINITY) => format!("{name} unlimited"),
        Ok(limit) if is_size => format!("{name} {}", bytes(limit)),
        Ok(limit) => format!("{name} {limit}"),
        Err(_) => format!("{name} unknown"),
    });
    limits.join(", ")
}

/// The space of the file system of a directory.
struct FreeSpace(io::Result<u64>);

impl FreeSpace {
    fn of(directory: &PathBuf) -> Self {
        Self(
            rustix::fs::statvfs(directory)
                .map(|space| space.f_bavail.saturating_mul(space.f_frsize))
                .map_err(Into::into),
        )
    }
}

impl fmt::Display for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(free) => write!(f, "{} free", bytes(*free)),
            Err(error) => write!(f, "cannot be used: {error}"),
        }
    }
}

fn variables() -> String {
    let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = names
        .filter(|name| {
            let name = name.to_ascii_uppercase();
            VARIABLES.iter().any(|known| name == *known || (known.ends_with('_') && name.starts_with(known)))
        })
        .collect();
    names.sort_unstable();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
