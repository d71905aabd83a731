//! A directory with small inputs, and the command run in it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use serde_json::Value;
use tempfile::TempDir;

/// `events.parquet` (4 rows), `many.parquet` (10,000 rows), `users.csv` (3 rows) in a directory of their own.
pub struct Workbench {
    dir: TempDir,
    /// What the command takes for the system's directory for temporary files.
    temp: TempDir,
}

impl Workbench {
    pub fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap(), temp: tempfile::tempdir().unwrap() };
        let price = Decimal128Array::from(vec![Some(1050), None, Some(99), Some(-1)]).with_precision_and_scale(9, 2);
        bench.parquet(
            "events.parquet",
            [
                ("UserId", Arc::new(Int64Array::from(vec![7, 8, 7, 9])) as ArrayRef),
                ("label", Arc::new(StringArray::from(vec![Some("click"), Some("view"), None, Some("view")]))),
                ("score", Arc::new(Float64Array::from(vec![0.5, 0.25, 0.1, 1.0]))),
                ("price", Arc::new(price.unwrap())),
            ],
        );
        let ids = Arc::new(Int64Array::from_iter_values(0..10_000)) as ArrayRef;
        bench.parquet("many.parquet", [("id", ids)]);
        bench.text("users.csv", "id;name\n7;Ada\n8;Grace\n9;Barbara\n");
        bench
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn text(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    pub fn parquet<const N: usize>(&self, name: &str, columns: [(&str, ArrayRef); N]) {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).unwrap();
        let mut writer =
            ArrowWriter::try_new(File::create(self.path().join(name)).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    /// The command with `arguments`, to be run in the directory. Two threads, so that plans do not depend on the
    /// machine.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.tool(arguments);
        command.args(["--threads", "2"]);
        command
    }

    /// The command with `arguments` and nothing else, to be run in the directory.
    pub fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tfr-sql"));
        command.current_dir(self.path()).args(arguments).env("TMPDIR", self.temp.path());
        for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUST_LOG", "RUST_BACKTRACE"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs the command and tells all of it: the exit code, standard output, standard error.
    pub fn tell(&self, arguments: &[&str]) -> String {
        tell(&self.run(arguments))
    }

    /// Runs a tool to its end.
    pub fn run_tool(&self, arguments: &[&str]) -> Output {
        self.tool(arguments).output().unwrap()
    }

    /// Runs a tool and tells all of it.
    pub fn tell_tool(&self, arguments: &[&str]) -> String {
        tell(&self.run_tool(arguments))
    }

    /// Names in the directory that are not inputs, hidden ones included.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let inputs = ["events.parquet", "many.parquet", "users.csv"];
        let entries = fs::read_dir(self.path()).unwrap().map(|entry| PathBuf::from(entry.unwrap().file_name()));
        let mut names: Vec<_> = entries.filter(|name| !inputs.iter().any(|input| name == Path::new(input))).collect();
        names.sort();
        names
    }
}

pub fn tell(output: &Output) -> String {
    let mut text = format!("exit {}\n", output.status.code().map_or("by signal".to_owned(), |code| code.to_string()));
    for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let stream = String::from_utf8_lossy(stream);
        if !stream.is_empty() {
            text.push_str(&format!("-- {name}\n{stream}"));
        }
    }
    text
}

/// Asserts that a report is as its schema says.
pub fn check_report(report: &Value) {
    let schema: Value = serde_json::from_str(include_str!("../../../../schemas/report.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(report).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// Asserts a snapshot of [`Workbench::tell`] with what varies from run to run filtered out.
macro_rules! assert_prints {
    ($shown:expr, @$expected:literal) => {
        insta::with_settings!({filters => vec![
            (r"\d+\.\d s", "[seconds]"),
            (r"/\S+/\.tmp\w+/", "[dir]/"),
            (r"tfr-sql \d+\.\d+\.\d+", "tfr-sql [version]"),
        ]}, {
            insta::assert_snapshot!($shown, @$expected);
        });
    };
}
pub(crate) use assert_prints;
