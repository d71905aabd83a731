//! [`Scratch`]: a directory of a test's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

/// A directory that is removed at the end of the test, with tables in it.
pub struct Scratch(TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Self(TempDir::with_prefix("tfr-tests-").unwrap())
    }
}

impl Scratch {
    /// A path inside the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a Parquet file of row groups of at most `rows` rows and gives its path.
    pub fn parquet(&self, name: &str, batch: &RecordBatch, rows: usize) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        path
    }

    /// Writes an Arrow IPC file, which keeps every type as it is, and gives its path.
    pub fn arrow(&self, name: &str, batch: &RecordBatch) -> PathBuf {
        let path = self.join(name);
        let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        path
    }

    /// Writes a text file and gives its path.
    pub fn text(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// What lies in the directory, at any depth, hidden names too; sorted, relative.
    pub fn listing(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(self.path(), self.path(), &mut found);
        found.sort();
        found
    }
}

/// Leaves out what vanishes meanwhile: the process under test may be at work in there.
fn list(root: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        if path.is_dir() {
            list(root, &path, found);
        }
    }
}

/// A table of `tests/golden/tables`.
pub fn golden_table(name: &str) -> RecordBatch {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/tables/{name}.arrow"));
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let reader = FileReader::try_new(file, None).unwrap();
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}
