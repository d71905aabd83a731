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
    assert!(help.lines().count() <= 64, "{} lines", help.lines().count());
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

#[test]
fn version_option_prints_the_version() {
    let version = help("--version");
    assert_eq!(version.trim_end(), format!("tfr-sql {}", env!("CARGO_PKG_VERSION")));
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
