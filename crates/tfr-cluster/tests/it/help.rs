//! The help of the command with a cluster.

use crate::processes::tfr_sql;

fn printed(arguments: &[&str]) -> String {
    let output = tfr_sql().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_lists_the_cluster_options() {
    for help in ["-h", "--help"] {
        let text = printed(&[help]);
        let has = |start: &str| text.lines().any(|line| line.trim_start().starts_with(start));
        assert!(has("--cluster <HOST:PORT>"), "{text}");
        assert!(has("scheduler") && has("executor"), "{text}");
    }
    assert!(printed(&["executor", "--help"]).contains("--scheduler <HOST:PORT>"));
    assert!(printed(&["scheduler", "--help"]).contains("--executor-timeout <SECONDS>"));
}
