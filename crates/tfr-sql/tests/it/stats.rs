//! `stats`: what it prints, reports and writes.

use std::fs;

use serde_json::Value;

use crate::workbench::{Workbench, check_report, tell};

#[test]
fn statistics_are_a_report_and_files() {
    let bench = Workbench::new();
    let query = "SELECT column1 AS n, CAST(column2 AS FLOAT) AS x, column3 AS s \
                 FROM (VALUES (1, 0.5, 'a'), (1152921504606846976, 'inf', 'a'), (3, NULL, 'b'))";
    assert!(bench.run(&[query, "--out", "shards", "--quiet"]).status.success());
    let arguments = ["stats", "shards", "--report", "json", "--proto", "stats.pb", "--html", "stats.html"];
    let output = bench.run_tool(&arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", tell(&output)));
    check_report(&report);
    let figures = |feature: usize, names: &[&str]| {
        names.iter().map(|name| report["features"][feature][name].to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(figures(0, &["name", "kind", "min", "max", "distinct"]), r#""n" "int64" 1 1152921504606846976 3"#);
    assert_eq!(figures(1, &["name", "frequent"]), r#""s" [{"count":2,"value":"a"},{"count":1,"value":"b"}]"#);
    assert_eq!(figures(2, &["name", "missing", "min", "max", "mean"]), r#""x" 1 0.5 "Infinity" 0.5"#);
    let shown = bench.run_tool(&["stats", "shards", "--quiet"]);
    assert_eq!(report["text"].as_str().unwrap(), String::from_utf8(shown.stdout).unwrap());
    // As describe writes them.
    assert!(bench.run_tool(&["describe", "shards", "--emit", "stats", "--quiet"]).status.success());
    for name in ["stats.pb", "stats.html"] {
        let path = bench.path().join(name);
        assert_eq!(
            fs::read(&path).unwrap(),
            fs::read(bench.path().join("shards").join(format!("_{name}"))).unwrap(),
            "{name}"
        );
    }
}
