#[cfg(target_os = "linux")]
use std::process::Command;

use crate::workbench::Workbench;

fn help(flag: &str) -> String {
    let output = Workbench::new().command(&[]).arg(flag).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn short_help_fits_a_screen() {
    let help = help("-h");
    insta::assert_snapshot!("short_help", help);
    assert!(help.lines().count() <= 60, "{} lines", help.lines().count());
    assert!(help.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn long_help_shows_examples() {
    insta::assert_snapshot!("long_help", help("--help"));
}

#[test]
fn every_tool_shows_examples() {
    let bench = Workbench::new();
    for tool in ["head", "cat", "schema", "verify", "salvage", "reshard", "index", "describe", "stats"] {
        let output = bench.run_tool(&[tool, "--help"]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Examples:\n") && help.lines().all(|line| line.chars().count() <= 100), "{help}");
        insta::assert_snapshot!(format!("{tool}_help"), help);
    }
}

/// The script is loaded by bash itself, which then completes an option.
#[cfg(target_os = "linux")]
#[test]
fn generate_option_prints_completions_for_bash() {
    let script = Workbench::new().run_tool(&["--generate", "bash"]).stdout;
    let ask = "\n\
        COMP_WORDS=(tfr-sql --shard-s)\nCOMP_CWORD=1\n_tfr__sql tfr-sql --shard-s tfr-sql\necho ${COMPREPLY[@]}\n\
        COMP_WORDS=(tfr-sql verify --re)\nCOMP_CWORD=2\n_tfr__sql tfr-sql --re verify\necho ${COMPREPLY[@]}\n";
    let output = Command::new("bash").args(["--norc", "-c"]).arg(String::from_utf8(script).unwrap() + ask).output();
    assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), "--shard-size\n--remove-leftovers --report\n");
}

#[test]
fn generate_option_prints_the_manual_and_scripts() {
    let print = |what| String::from_utf8(Workbench::new().run_tool(&["--generate", what]).stdout).unwrap();
    let manual = print("man");
    for part in [".TH tfr-sql 1", ".nf\nExamples:\n", ".SH SYNOPSIS", "\\-\\-shard\\-size", "tfr\\-sql\\-verify(1)"] {
        assert!(manual.contains(part), "no {part} in {manual}");
    }
    assert!(print("zsh").starts_with("#compdef tfr-sql\n"));
    assert!(print("fish").contains("complete -c tfr-sql"));
    let refused = Workbench::new().tool(&["SELECT 1", "--generate", "man"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn doctor_prints_versions_and_limits_but_no_secrets() {
    let output = Workbench::new().tool(&["doctor"]).env("AWS_SECRET_ACCESS_KEY", "hunter2").output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    let value = |name: &str| {
        let line =
            report.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {report}"));
        line[name.len()..].trim().to_owned()
    };
    assert!(value("tfr-sql").starts_with(concat!(env!("CARGO_PKG_VERSION"), " (commit ")), "{report}");
    assert!(value("engine").contains("DataFusion 55."), "{report}");
    assert!(value("process limits").contains("open files "), "{report}");
    assert!(value("variables set").contains("AWS_SECRET_ACCESS_KEY"), "{report}");
    assert!(!report.contains("hunter2"), "{report}");
}

#[test]
fn version_option_prints_the_version() {
    let release = format!("tfr-sql {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(help("-V").trim_end(), release);
    let long = help("--version");
    let lines: Vec<_> = long.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, release.as_str()), "{long}");
    assert!(lines[1].starts_with("commit ") && lines[2].starts_with("DataFusion "), "{long}");
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["--help"][..], &["--version"], &["verify", "--help"]] {
        let output = Workbench::new().tool(arguments).stdout(full()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("No space left on device"), "{stderr}");
    }
}
