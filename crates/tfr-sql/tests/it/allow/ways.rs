//! The ways out that are tried: families of spellings, statements, options and tools.

use super::world::{SECRET, World};

/// A way out.
pub struct Way {
    pub arguments: Vec<String>,
    /// Whether the kernel refuses it, too: it opens a file outside of the allowed directories.
    pub opens: bool,
}

fn way(arguments: &[&str]) -> Way {
    Way { arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(), opens: true }
}

/// As [`way`], of one that is refused before a file is opened.
fn refused(arguments: &[&str]) -> Way {
    Way { opens: false, ..way(arguments) }
}

/// Spellings of a file outside.
fn files(world: &World) -> Vec<String> {
    let root = world.root().display();
    let (fd, own) = (world.descriptor(), std::process::id());
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count());
    let root_relative = world.path("");
    let root_relative = root_relative.trim_matches('/');
    let mut spellings: Vec<_> = [
        "secret/s.csv",
        "in/../secret/s.csv",
        "in/./../secret/./s.csv",
        "in/dt=1/../../secret/s.csv",
        "in/none/../../secret/s.csv",
        "in/a.csv/../../secret/s.csv",
        "in/dir/../secret/s.csv",
        "in/link.csv",
        "in/absolute.csv",
        "in/chain.csv",
        "in/dir/s.csv",
        "in/up/secret/s.csv",
        "in/up/in/up/secret/s.csv",
        "in/parts/dt=9/s.csv",
        "in/mixed/x.csv",
        "in/fd.csv",
        "in/loop",
    ]
    .map(|name| world.path(name))
    .into();
    spellings.extend([
        format!("{root}/in/root{root}/secret/s.csv"),
        format!("{root}/in/slash{root}/secret/s.csv"),
        format!("/proc/self/root{root}/secret/s.csv"),
        format!("/proc/{own}/root{root}/secret/s.csv"),
        format!("/proc/self/cwd/{up}{root_relative}/secret/s.csv"),
        format!("{up}{root_relative}/secret/s.csv"),
        format!("./{up}{root_relative}/in/../secret/s.csv"),
        format!("/{root}//secret///s.csv"),
        format!("/proc/self/fd/{fd}"),
        format!("/proc/{own}/fd/{fd}"),
        format!("/proc/thread-self/fd/{fd}"),
        format!("/proc/self/task/{own}/fd/{fd}"),
        format!("/dev/fd/{fd}"),
        format!("file://{root}/secret/s.csv"),
        format!("file://{root}/in/../secret/s.csv"),
        format!("file://{root}/in/%2e%2e/secret/s.csv"),
        format!("file://{root}/in/dir/s.csv"),
        format!("file://localhost{root}/secret/s.csv"),
        format!("FILE://{root}/secret/s.csv"),
    ]);
    spellings
}

/// Files of the system. Some have a length of 0, so that nothing opens them, or are read by the system itself.
const SYSTEM: [&str; 6] =
    ["/proc/self/environ", "/proc/self/maps", "/proc/1/environ", "/etc/passwd", "/etc/hosts", "/sys/fs/cgroup/"];

/// Spellings of several files, some of them outside.
fn groups(world: &World) -> Vec<String> {
    [
        "secret",
        "secret/",
        "secret/*.csv",
        "secret/s?.csv",
        "s*t/s.csv",
        "s[e]cret/s.csv",
        "*/s.csv",
        "**/s.csv",
        "in/*.csv",
        "in/d*/s.csv",
        "in/dir/",
        "in/dir/*.csv",
        "in/up/secret/",
        "in/parts/",
        "in/parts/dt=*/s.csv",
        "in/mixed/",
        "in/mixed/*.csv",
        "in/../secret/*.csv",
        "in/*/../../secret/s.csv",
        "in/mixed/../../s*/",
    ]
    .map(|name| world.path(name))
    .into()
}

/// Shard sets that are outside, or have a part outside.
fn sets(world: &World) -> Vec<String> {
    ["secret/set", "in/dir/set", "in/up/secret/set", "in/evil", "in/evil/", "in/evil/dt=1", "in/broken", "in/parts"]
        .map(|name| world.path(name))
        .into()
}

/// Queries over a location.
fn queries(location: &str, inside: &str) -> Vec<Way> {
    let table = format!("t={location}");
    vec![
        way(&[&format!("SELECT * FROM '{location}'")]),
        way(&[&format!("SELECT * FROM \"{location}\"")]),
        way(&[&format!("SELECT path, size, content FROM files('{location}')")]),
        way(&[&format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'; SELECT * FROM t")]),
        way(&["SELECT * FROM t", "--table", &table]),
        way(&[&format!("SELECT * FROM '{inside}' WHERE word IN (SELECT word FROM '{location}')")]),
    ]
}

fn inputs(world: &World) -> Vec<Way> {
    let inside = world.path("in/a.csv");
    let locations = files(world).into_iter().chain(groups(world)).chain(sets(world));
    let mut ways: Vec<_> = locations.flat_map(|location| queries(&location, &inside)).collect();
    let outside = world.path("secret/s.csv");
    let typed = format!("CREATE EXTERNAL TABLE t (id INT, word TEXT) STORED AS CSV LOCATION '{outside}'; ");
    ways.extend([
        way(&[&format!("EXPLAIN SELECT * FROM '{outside}'")]),
        way(&[&format!("DESCRIBE '{outside}'")]),
        way(&[&format!("WITH t AS (SELECT * FROM '{outside}') SELECT word FROM t")]),
        way(&[&format!("SELECT word FROM '{inside}' UNION ALL SELECT word FROM '{outside}'")]),
        way(&[&format!("SELECT (SELECT max(word) FROM '{outside}') FROM '{inside}'")]),
        way(&[&format!("SELECT * FROM '{inside}', LATERAL (SELECT * FROM '{outside}') AS t")]),
        way(&[&format!("{typed}SELECT * FROM t")]),
        way(&[&format!("{typed}SELECT count(*) FROM t, t AS u")]),
        way(&[&format!("SELECT count(*) FROM '{outside}'")]),
        // The kernel lets a process ask for the length of a file.
        refused(&[&format!("SELECT max(size) FROM files('{outside}')")]),
        way(&["SELECT * FROM t", "--table", &format!("t={inside},path={outside}")]),
        way(&[&format!("SELECT * FROM '{}'", world.path("in/set")), "--table", &format!("t={outside}")]),
        way(&[
            "SELECT * FROM t",
            "--table",
            &format!("t={},schema={}", world.path("in/set/dt=1/*.tfrecord"), world.path("secret/schema.pbtxt")),
        ]),
        way(&[
            "SELECT * FROM t",
            "--table",
            &format!("t={},schema={}", world.path("in/set/dt=1/*.tfrecord"), world.path("in/other/schema.pbtxt")),
        ]),
        way(&["--file", &world.path("secret/query.sql")]),
        way(&["--file", &world.path("in/dir/query.sql")]),
    ]);
    // A scheme whose store is not allowed is refused before anything is sent.
    let urls = [
        "s3://bucket/a.csv",
        "s3a://bucket/a.csv",
        "gs://bucket/a.csv",
        "az://files/a.csv",
        "abfss://files@account.dfs.core.windows.net/a.csv",
        "http://127.0.0.1:9/a.csv",
        "https://localhost/a.csv",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:9/a.csv",
        "hdfs://node/a.csv",
    ];
    ways.extend(
        urls.iter().chain(&SYSTEM).flat_map(|url| queries(url, &inside)).map(|way| Way { opens: false, ..way }),
    );
    ways.extend(
        ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]
            .iter()
            .map(|location| refused(&["SELECT * FROM t", "--table", &format!("t={location}")])),
    );
    ways
}

fn outputs(world: &World) -> Vec<Way> {
    let row = "SELECT 1 AS x, 1 AS dt";
    let mut ways = Vec::new();
    let directories = [
        "secret/made",
        "secret/empty",
        "secret/deep/made",
        "in/../secret/made",
        "in/dir/made",
        "in/dir/empty",
        "in/up/secret/made",
        "in/up/made",
        "in/new",
        "made",
        "in/none/../../secret/made",
        "in/broken/dt=1",
    ];
    for name in directories {
        let out = world.path(name);
        let in_url = format!("file://{out}");
        ways.push(way(&[row, "--out", &out]));
        ways.push(way(&[row, "--out", &in_url]));
        ways.push(way(&[row, "--out", &out, "--partition-by", "dt"]));
        // These links have the names of directories. That of a file is inside.
        let is_link = name == "in/new" || name == "in/broken/dt=1";
        for extension in [".csv", ".parquet", ".json", ".arrow", ".csv/"].iter().filter(|_| !is_link) {
            ways.push(way(&[row, "--out", &format!("{out}{extension}")]));
        }
    }
    let (secret_set, evil) = (world.path("secret/set"), world.path("in/evil"));
    let row = "SELECT 'x' AS word, 1 AS dt";
    for mode in ["overwrite", "append"] {
        ways.push(way(&[row, "--out", &secret_set, "--mode", mode, "--partition-by", "dt"]));
        ways.push(way(&[row, "--out", &world.path("in/dir/set"), "--mode", mode, "--partition-by", "dt"]));
        ways.push(refused(&[row, "--out", &evil, "--mode", mode, "--partition-by", "dt"]));
        ways.push(refused(&[row, "--out", &world.path("in/broken"), "--mode", mode, "--partition-by", "dt"]));
    }
    let (inside, outside) = (world.path("in/made"), world.path("secret/made"));
    ways.extend([
        way(&[row, "--out", &world.path("in/new.csv"), "--mode", "overwrite"]),
        way(&[row, "--out", &world.path("in/new.csv")]),
        // The directory that is allowed is itself replaced, which needs its parent.
        way(&[row, "--out", &world.path("in"), "--mode", "overwrite"]),
        refused(&[row, "--out", "s3://bucket/made/"]),
        refused(&[row, "--out", "gs://bucket/made/"]),
        refused(&[row, "--out", "s3://bucket/made.parquet"]),
        way(&[row, "--out", &inside, "--plan", &format!("{outside}.plan")]),
        way(&[row, "--out", &inside, "--plan", &world.path("in/dir/made.plan")]),
        refused(&[
            row,
            "--out",
            &inside,
            "--plan",
            &world.path("in/made.plan"),
            "--scratch",
            &world.path("secret/empty"),
        ]),
        refused(&[row, "--out", &inside, "--plan", &world.path("in/made.plan"), "--scratch", &world.path("in/dir")]),
        way(&[row, "--out", &inside, "--map-file", &world.path("secret/map.toml")]),
        way(&[row, "--out", &inside, "--map-file", &world.path("in/dir/map.toml")]),
        way(&[row, "--temp-dir", &world.path("secret")]),
        way(&[row, "--temp-dir", &world.path("in/dir")]),
        way(&[row, "--temp-dir", &world.path("in/../secret")]),
    ]);
    let statements = [
        format!("COPY (SELECT 1 AS x) TO '{outside}.csv'"),
        format!("COPY (SELECT 1 AS x) TO '{outside}' STORED AS PARQUET"),
        format!("COPY (SELECT 1 AS x) TO '{outside}' STORED AS TFRECORD; SELECT 1"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO '{outside}.csv'"),
        format!("CREATE EXTERNAL TABLE t (x INT) STORED AS CSV LOCATION '{outside}'; INSERT INTO t SELECT 1"),
        format!("CREATE TABLE t AS SELECT * FROM '{}'; SELECT * FROM t", world.path("secret/s.csv")),
        format!("CREATE VIEW t AS SELECT * FROM '{}'; SELECT * FROM t", world.path("secret/s.csv")),
        format!("CREATE UNBOUNDED EXTERNAL TABLE t (x INT) STORED AS CSV LOCATION '{outside}'; SELECT 1"),
        format!("INSERT INTO '{outside}' SELECT 1"),
        format!("CREATE FUNCTION f AS '{outside}'; SELECT 1"),
        "SHOW ALL".to_owned(),
    ];
    ways.extend(statements.iter().map(|statement| refused(&[statement])));
    ways
}

fn settings(world: &World) -> Vec<Way> {
    let outside = world.path("secret");
    let settings = [
        ("datafusion.runtime.temp_directory", outside.as_str()),
        ("DataFusion.Runtime.Temp_Directory", outside.as_str()),
        ("datafusion.runtime.memory_limit", "100G"),
        ("datafusion.runtime.max_temp_directory_size", "1000G"),
        ("datafusion.runtime.metadata_cache_limit", "100G"),
        ("datafusion.runtime.list_files_cache_limit", "100G"),
        ("datafusion.catalog.location", outside.as_str()),
        ("datafusion.catalog.format", "csv"),
        ("datafusion.catalog.create_default_catalog_and_schema", "false"),
        ("datafusion.catalog.information_schema", "true"),
        ("datafusion.execution.batch_size", "1"),
        ("datafusion.execution.target_partitions", "4096"),
        ("datafusion.execution.meta_fetch_concurrency", "1000"),
        ("datafusion.execution.collect_statistics", "false"),
        ("datafusion.execution.listing_table_ignore_subdirectory", "false"),
        ("datafusion.execution.planning_concurrency", "1000"),
        ("datafusion.execution.keep_partition_by_columns", "true"),
        ("datafusion.execution.max_spill_file_size_bytes", "1000000"),
        ("datafusion.sql_parser.dialect", "mysql"),
        ("datafusion.sql_parser.recursion_limit", "100000"),
        ("datafusion.explain.show_statistics", "true"),
        ("datafusion.optimizer.max_passes", "1000"),
    ];
    settings.iter().map(|(name, value)| refused(&[&format!("SET {name} = '{value}'; SELECT 1")])).collect()
}

fn tools(world: &World) -> Vec<Way> {
    let mut ways = Vec::new();
    for path in sets(world) {
        let saved = world.path("in/saved");
        let (idx, html) = (format!("{path}/dt=1/*.tfrecord"), world.path("in/stats.html"));
        ways.extend([
            way(&["head", &path]),
            way(&["cat", &path]),
            way(&["schema", &path]),
            way(&["verify", &path]),
            way(&["stats", &path, "--html", &html]),
            way(&["describe", &path, "--out", &world.path("in/described")]),
            way(&["reshard", &path, "--out", &saved]),
            way(&["salvage", &path, "--out", &saved]),
            way(&["index", &path]),
            refused(&["head", &idx]),
            refused(&["verify", &path, "--remove-leftovers"]),
        ]);
    }
    let (set, outside) = (world.path("in/set"), world.path("secret/made"));
    ways.extend([
        way(&["describe", &set, "--out", &outside]),
        way(&["describe", &set, "--out", &world.path("in/dir")]),
        way(&["reshard", &set, "--out", &outside]),
        way(&["salvage", &set, "--out", &world.path("in/dir/made")]),
        way(&["stats", &set, "--html", &format!("{outside}.html")]),
        way(&["stats", &set, "--proto", &world.path("in/dir/made.pb")]),
        refused(&["head", "-"]),
        refused(&["head", "s3://bucket/a.tfrecord"]),
        refused(&["verify", "http://127.0.0.1:9/a.tfrecord"]),
        refused(&["task", &world.path("secret/p.plan"), "--index", "0"]),
        refused(&["cut", &world.path("in/dir/p.plan")]),
        refused(&["finish", &world.path("secret/p.plan")]),
        refused(&["abandon", &world.path("in/../secret/p.plan")]),
    ]);
    ways
}

pub fn all(world: &World) -> Vec<Way> {
    let ways: Vec<_> = [inputs(world), outputs(world), settings(world), tools(world)].into_iter().flatten().collect();
    // The word is in no argument, so that none of the messages has it by repeating one.
    assert!(ways.iter().flat_map(|way| &way.arguments).all(|argument| !argument.contains(SECRET)));
    ways
}
