//! What someone new types wrong, and what the command answers: all answers are in one snapshot, to be read at a stretch.

use std::fmt::Write as _;

use crate::workbench::Workbench;

const QUERIES: [&str; 20] = [
    "SELECT * FORM 'events.parquet'",
    "SELCT label FROM 'events.parquet'",
    "SELECT label FROM 'events.parquet' WERE score > 1",
    "SELECT label FROM 'events.parquet' ORDER label",
    "SELECT label FROM 'events.parquet' GRUOP BY label",
    "SELECT label FROM 'events.parquet' LIMIT",
    "SELECT label FROM 'events.parquet' WHERE score > 1 AND",
    "SELECT 'Oslo FROM 'events.parquet'",
    "SELECT \"label FROM 'events.parquet'",
    "SELECT score DIV 2 FROM 'events.parquet'",
    "SELECT labl FROM 'events.parquet' GROUP BY labl",
    "SELECT label, count(*) FROM 'events.parquet'",
    "SELECT CAST(label AS NUMBER) FROM 'events.parquet'",
    "SELECT sum('1') FROM 'events.parquet'",
    "SELECT choose(label) FROM 'events.parquet'",
    "SELECT 1 UNION ALL SELECT 1, 2",
    "SELECT name FROM 'users.csv'",
    "SELECT CAST(d AS TIMESTAMP) FROM (VALUES (DATE '9999-12-31'), (DATE '2024-01-01')) t(d)",
    "SELECT * FROM 'event.parquet'",
    "SELECT * FROM 'nothing.parquet'",
];

#[test]
fn mistakes_are_answered_with_the_way_out() {
    let bench = Workbench::new();
    let set = ["SELECT label FROM 'events.parquet'", "--out", "train", "-q"];
    assert_eq!(bench.tell(&set), "exit 0\n");
    let mut answers = String::new();
    let commands = QUERIES.map(|query| vec![query]).into_iter().chain([set.to_vec(), vec!["SELECT 1", "-o", "x"]]);
    for command in commands {
        writeln!(answers, "$ tfr-sql {}\n{}\n", command.join(" "), bench.tell(&command)).unwrap();
    }
    let findings = bench.run_tool(&["verify", "users.csv"]).stdout;
    write!(answers, "$ tfr-sql verify users.csv\n{}", String::from_utf8(findings).unwrap()).unwrap();
    insta::assert_snapshot!(answers.replace(bench.path().to_str().unwrap(), "DIR"));
}
