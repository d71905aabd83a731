//! The SQL tests of the command, on a cluster: their tables are files there, and their queries have the rows of one
//! process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::processes::{Cluster, rows, tfr_sql};

/// Number of files of each table.
const FILES: u32 = 3;

enum Statement {
    Create { table: String, query: String },
    Query(String),
}

/// Reads the statements that succeed and have tables or rows.
fn statements(file: &Path) -> Vec<Statement> {
    let text = fs::read_to_string(file).unwrap();
    let blocks = text.split("\n\n").map(|block| {
        let lines = block.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
        lines.collect::<Vec<_>>()
    });
    let statement = |lines: Vec<&str>| {
        let (first, sql) = lines.split_first()?;
        let sql = sql.iter().take_while(|line| **line != "----").copied().collect::<Vec<_>>().join(" ");
        if first.starts_with("query") {
            return Some(Statement::Query(sql));
        }
        let named = sql.strip_prefix("CREATE TABLE ").or_else(|| sql.strip_prefix("CREATE VIEW "))?;
        let (table, query) = named.split_once(" AS ")?;
        Some(Statement::Create { table: table.to_owned(), query: query.to_owned() })
    };
    blocks.filter_map(statement).collect()
}

/// A table with its option.
type Table = (String, String);

fn run(command: &mut Command, tables: &[Table]) -> Output {
    for (_, option) in tables {
        command.args(["--table", option]);
    }
    command.output().unwrap()
}

/// Writes a table as several files. `None` if no file has such columns.
fn create(dir: &Path, table: &str, query: &str, tables: &[Table]) -> Option<Table> {
    let _old = fs::remove_dir_all(dir.join(table));
    fs::create_dir_all(dir.join(table)).unwrap();
    for file in 0..FILES {
        let numbered = format!("SELECT *, row_number() OVER () AS number_of_row FROM ({query})");
        let part = format!("SELECT * EXCLUDE (number_of_row) FROM ({numbered}) WHERE number_of_row % {FILES} = {file}");
        let out = dir.join(table).join(format!("{file}.parquet"));
        let output = run(tfr_sql().arg(&part).arg("--out").arg(out).arg("--quiet"), tables);
        output.status.success().then_some(())?;
    }
    Some((table.to_owned(), format!("{table}={}/*.parquet", dir.join(table).display())))
}

/// Runs the queries of a file. Returns how many have run, and the messages of those that a cluster refuses.
fn compare(cluster: &Cluster, name: &str) -> (usize, Vec<String>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt").join(name).with_extension("slt");
    let mut tables: Vec<Table> = Vec::new();
    let (mut compared, mut refused) = (0, Vec::new());
    for (number, statement) in statements(&file).into_iter().enumerate() {
        let out = |parent: &str| -> PathBuf { cluster.path(parent).join(format!("{name}-{number}")) };
        match statement {
            Statement::Create { table, query } => {
                tables.retain(|(known, _)| *known != table);
                let created = create(&cluster.path("tables"), &table, &query, &tables);
                tables.extend(created);
            }
            Statement::Query(query) => {
                let (alone, together) = (out("alone"), out("together"));
                // Not every answer can be written as records.
                if !run(&mut cluster.alone(&query, &alone, &[]), &tables).status.success() {
                    continue;
                }
                let output = run(&mut cluster.command(&query, &together, &[]), &tables);
                if !output.status.success() {
                    refused.push(format!("{query}: {}", String::from_utf8_lossy(&output.stderr)));
                    continue;
                }
                assert!(rows(&together) == rows(&alone), "{query}");
                compared += 1;
            }
        }
    }
    (compared, refused)
}

#[test]
fn cluster_answers_equal_those_of_one_process() {
    let cluster = Cluster::new(2);
    let mut all = 0;
    for name in ["subqueries", "equal_values", "answers"] {
        let (compared, refused) = compare(&cluster, name);
        eprintln!("{name}: {compared} compared, {} refused\n{}", refused.len(), refused.join("\n"));
        // Those that one process runs, and a cluster does not: most have generated rows.
        assert!(refused.len() <= compared / 2, "{name}: {refused:?}");
        all += compared;
    }
    assert!(all > 100, "{all}");
}
