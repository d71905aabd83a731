//! [`HdfsCluster`]: a real HDFS of one namenode and two datanodes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::programs::{repository, tfr_sql};
use crate::s3::without_stores;

/// A namenode and two datanodes in a process of Java, which ends with the test.
pub struct HdfsCluster {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
    directory: tempfile::TempDir,
}

impl HdfsCluster {
    /// Starts HDFS with the jars in `HDFS_JARS`, in some seconds.
    ///
    /// # Errors
    /// `HDFS_JARS` is not set, or there is no Java.
    pub fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    /// The same with settings of Hadoop, as `name=value`.
    ///
    /// # Errors
    /// `HDFS_JARS` is not set, or there is no Java.
    pub fn start_with(settings: &[&str]) -> Result<Self, String> {
        let jars = std::env::var_os("HDFS_JARS").ok_or("HDFS_JARS is not set: see tests/hdfs/run")?;
        let directory = tempfile::tempdir().unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new("java");
        command
            .args(["-Xmx700m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(Path::new(&jars).join("*"));
        command.arg(repository().join("tests/hdfs/Hdfs.java")).arg(directory.path().join("files")).args(settings);
        command.current_dir(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().map_err(|error| format!("no java: {error}"))?;
        let (commands, answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut cluster = Self { process, commands, answers, url: String::new(), directory };
        cluster.url = cluster.line();
        Ok(cluster)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let log = || fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        assert!(!line.is_empty(), "HDFS has ended:\n{}", log());
        line.trim_end().to_owned()
    }

    /// Asks HDFS for something, as `tests/hdfs/Hdfs.java` understands it.
    #[track_caller]
    pub fn ask(&mut self, words: &[&str]) -> String {
        writeln!(self.commands, "{}", words.join("\t")).unwrap();
        let answer = self.line();
        answer
            .strip_prefix("ok\t")
            .or(answer.strip_prefix("ok"))
            .unwrap_or_else(|| panic!("{words:?}: {answer}"))
            .to_owned()
    }

    /// Writes a file with blocks of a mebibyte, and returns its URL.
    pub fn put(&mut self, local: &Path, path: &str) -> String {
        self.ask(&["put", local.to_str().unwrap(), path, "1048576"]);
        self.file(path)
    }

    /// Returns the local file of a replica of the file's first block.
    pub fn replica(&mut self, path: &str) -> PathBuf {
        self.ask(&["replica", path]).into()
    }

    /// Returns the URL of a path.
    pub fn file(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Returns the address of the namenode, with its port.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("hdfs://")
    }

    /// Returns the command, without settings of other stores.
    pub fn tfr_sql() -> Command {
        without_stores(tfr_sql())
    }
}

impl Drop for HdfsCluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
