//! HDFS with faults: a real namenode and two datanodes (`tests/hdfs/run`), and servers that are none.

mod writing;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tfr_tests::{HdfsCluster, Scratch, finish, run};

/// Rows of a kilobyte: more than a run reads ahead of its output, and enough for three blocks.
const MANY: usize = 80_000;
const SOME: usize = 3_000;

struct Table {
    scratch: Scratch,
    path: PathBuf,
    text: String,
}

impl Table {
    fn new(rows: usize) -> Self {
        let scratch = Scratch::default();
        let row = |id: usize| format!("{id},{}\n", format!("{:07}", id * 7919 % 1_000_003).repeat(150));
        let text: String = ["id,v\n".to_owned()].into_iter().chain((0..rows).map(row)).collect();
        let path = scratch.text("big.csv", &text);
        Self { scratch, path, text }
    }
}

fn select(query: &str) -> Command {
    let mut command = HdfsCluster::tfr_sql();
    command.args([query, "--format", "csv"]);
    command
}

/// A query that is stopped by its full output: most of the file was not read yet.
struct Stopped(Child);

impl Stopped {
    fn start(url: &str) -> (Self, Vec<u8>) {
        let mut command = select(&format!("SELECT * FROM '{url}'"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut beginning = vec![0; 1000];
        child.stdout.as_mut().unwrap().read_exact(&mut beginning).unwrap();
        (Self(child), beginning)
    }

    /// Returns the exit code, the rest of the output, and the messages.
    fn finish(mut self) -> (Option<i32>, Vec<u8>, String) {
        let (mut rest, mut messages) = (Vec::new(), String::new());
        self.0.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        (finish(self.0), rest, messages)
    }
}

/// The steps share a cluster, which takes seconds to start.
#[test]
fn hdfs_with_faults_is_read_exactly_or_refused() {
    let mut hdfs = match HdfsCluster::start() {
        Ok(hdfs) => hdfs,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let table = Table::new(MANY);
    damaged_replica(&mut hdfs, &Table::new(SOME));
    lost_datanode(&mut hdfs, &table);
    replaced_file(&mut hdfs, &table);
    open_files(&mut hdfs, &table);
    permissions(&mut hdfs);
    name_service(&mut hdfs, &table);
    absent_namenode(&mut hdfs, &table);
}

fn damaged_replica(hdfs: &mut HdfsCluster, table: &Table) {
    for (name, at) in [("first", 0), ("middle", 500_000), ("last", 1_048_575)] {
        let path = format!("/damaged/{name}.csv");
        let url = hdfs.put(&table.path, &path);
        let replica = hdfs.replica(&path);
        let file = fs::File::options().read(true).write(true).open(&replica).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        // Either replica may be the first.
        for _ in 0..6 {
            let read = run(&mut select(&format!("SELECT * FROM '{url}'"))).success();
            assert!(read.stdout == table.text, "{name}");
        }
    }
}

fn lost_datanode(hdfs: &mut HdfsCluster, table: &Table) {
    let url = hdfs.put(&table.path, "/lost.csv");
    let (query, mut read) = Stopped::start(&url);
    hdfs.ask(&["stop-datanode"]);
    let (code, rest, messages) = query.finish();
    read.extend(rest);
    assert_eq!(code, Some(0), "{messages}");
    assert!(read == table.text.as_bytes());
    hdfs.ask(&["start-datanode"]);
}

fn replaced_file(hdfs: &mut HdfsCluster, table: &Table) {
    let other = table.scratch.text("other.csv", &table.text.replace("79", "97"));
    for how in ["rename", "put"] {
        let url = hdfs.put(&table.path, "/replaced.csv");
        hdfs.put(&other, "/other.csv");
        let (query, mut read) = Stopped::start(&url);
        match how {
            "rename" => drop(hdfs.ask(&["rename", "/other.csv", "/replaced.csv"])),
            _ => drop(hdfs.put(&other, "/replaced.csv")),
        }
        let (code, rest, messages) = query.finish();
        read.extend(rest);
        assert_eq!(code, Some(1), "{how}: {messages}");
        assert!(messages.contains("/replaced.csv: the file changed while it was read"), "{how}: {messages}");
        assert!(table.text.as_bytes().starts_with(&read), "{how}");
    }
}

fn open_files(hdfs: &mut HdfsCluster, table: &Table) {
    let small = table.scratch.text("small.csv", "id,v\n1,2\n");
    hdfs.put(&small, "/open/a.csv");
    // With complete blocks and without any.
    for local in [&table.path, &small] {
        hdfs.ask(&["write", local.to_str().unwrap(), "/open/b.csv", "1048576"]);
        hdfs.ask(&["put", small.to_str().unwrap(), "/open/c.csv._COPYING_", "1048576"]);
        for location in ["/open/b.csv", "/open/"] {
            let refused = run(&mut select(&format!("SELECT count(*) FROM '{}'", hdfs.file(location)))).exits_with(1);
            assert!(refused.stderr.contains("/open/b.csv is still being written"), "{}", refused.stderr);
        }
        hdfs.ask(&["close", "/open/b.csv"]);
        let read = run(&mut select(&format!("SELECT count(*) AS n FROM '{}'", hdfs.file("/open/")))).success();
        let rows = fs::read_to_string(local).unwrap().lines().count();
        assert_eq!(read.stdout, format!("n\n{rows}\n"));
    }
}

fn permissions(hdfs: &mut HdfsCluster) {
    hdfs.ask(&["mode", "/lost.csv", "600"]);
    let query = format!("SELECT count(*) FROM '{}'", hdfs.file("/lost.csv"));
    let refused = run(select(&query).env("HADOOP_USER_NAME", "bob")).exits_with(1);
    let expected =
        "refuses access: AccessControlException (Permission denied: user=bob, access=READ, inode=\"/lost.csv\"";
    assert!(refused.stderr.contains(expected) && !refused.stderr.contains("\tat "), "{}", refused.stderr);
    run(&mut select(&query)).success();
}

/// A service of two namenodes, the first of which is not there; a variable, and blanks.
fn name_service(hdfs: &mut HdfsCluster, table: &Table) {
    let absent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let property = |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>");
    let properties = [
        property("fs.defaultFS", "viewfs://cl"),
        property("dfs.ha.namenodes.ns1", "nn1, nn2"),
        property("dfs.namenode.rpc-address.ns1.nn1", &absent.to_string()),
        property("dfs.namenode.rpc-address.ns1.nn2", "${nn}"),
        property("nn", hdfs.address()),
        property("fs.viewfs.mounttable.cl.link./mounted", "hdfs://ns1/open"),
    ];
    let conf = table.scratch.join("conf");
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("core-site.xml"), format!("<configuration>{}</configuration>", properties.concat())).unwrap();
    for url in ["hdfs://ns1/open/a.csv", "viewfs://cl/mounted/a.csv", "viewfs:///*/a.csv"] {
        let read = run(select(&format!("SELECT * FROM '{url}'")).env("HADOOP_CONF_DIR", &conf)).success();
        assert_eq!(read.stdout, "id,v\n1,2\n", "{url}");
    }
    for (list, code) in [("hdfs://ns1/open/", 0), ("hdfs://ns1/other/", 1)] {
        let mut query = select("SELECT * FROM 'hdfs://ns1/open/a.csv'");
        query.args(["--allow", list, "--temp-dir"]).arg(table.scratch.path()).arg("--allow").arg(table.scratch.path());
        run(query.env("HADOOP_CONF_DIR", &conf)).exits_with(code);
    }
}

fn absent_namenode(hdfs: &mut HdfsCluster, table: &Table) {
    hdfs.ask(&["stop-namenode"]);
    let mut command = select(&format!("SELECT * FROM '{}'", hdfs.file("/open/a.csv")));
    let mut waiting = command.arg("-v").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(waiting.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(messages.any(|line| line.contains("the request is repeated")));
    hdfs.ask(&["start-namenode"]);
    let (mut read, rest) = (String::new(), messages.collect::<Vec<_>>());
    waiting.stdout.take().unwrap().read_to_string(&mut read).unwrap();
    assert_eq!(finish(waiting), Some(0), "{}", rest.join("\n"));
    assert_eq!(read, fs::read_to_string(table.scratch.join("small.csv")).unwrap());
}

#[test]
fn hdfs_without_a_namenode_is_an_error_with_a_hint() {
    for (url, messages) in [
        (
            "hdfs://none.invalid/a.csv",
            &["hdfs://none.invalid cannot be reached: none.invalid:8020: ", "HADOOP_CONF_DIR"][..],
        ),
        ("hdfs:///a.csv", &["the URL has no host, and fs.defaultFS is not set"]),
        ("hdfs://alice@node/a.csv", &["the URL of HDFS contains a user", "set HADOOP_USER_NAME"]),
        ("viewfs://cl/a.csv", &["there are no mounts (fs.viewfs.mounttable.cl.link.*)"]),
    ] {
        let refused = run(&mut select(&format!("SELECT * FROM '{url}'"))).exits_with(1);
        for message in messages {
            assert!(refused.stderr.contains(message) && !refused.stderr.contains("alice"), "{url}: {}", refused.stderr);
        }
    }
}
