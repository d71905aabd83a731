//! Plans that several processes carry out: the set is that of one process, whatever is killed or run twice.

mod files;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tfr_examples::trips_path;
use tfr_tests::{Run, Scratch, read_shards, run, tfr_sql};

const PARTITIONS: &str = "4";

/// Ways to arrange the rows, and whether the tasks sort them first.
const ARRANGEMENTS: [(&str, &[&str], bool); 9] = [
    ("rows", &["--shard-rows", "300", "--compression", "gzip"], false),
    ("count", &["--shards", "5", "--emit", "stats,index"], true),
    ("shuffle", &["--shuffle", "--seed", "3", "--shards", "6"], true),
    ("split", &["--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--shards", "train=3,val=2"], true),
    ("row splits", &["--split", "train=rest,val=300rows", "--shuffle", "--shards", "train=3,val=2"], true),
    ("directories", &["--partition-by", "city", "--shard-rows", "200"], true),
    ("ordered", &["--shards", "3"], false),
    ("arrays", &["--shard-rows", "300", "--record-format", "array_record", "--emit", "stats"], false),
    ("array groups", &["--shuffle", "--shards", "3", "--record-format", "array_record", "--compression", "zstd"], true),
];

/// Files of trips, a table of zones to join them with, and directories for plans and sets.
struct Job {
    scratch: Scratch,
}

impl Job {
    fn new() -> Self {
        let scratch = Scratch::default();
        fs::create_dir(scratch.join("trips")).unwrap();
        for copy in 0..8 {
            fs::copy(trips_path(), scratch.join("trips").join(format!("{copy}.parquet"))).unwrap();
        }
        let zones = "SELECT value AS zone, concat('zone ', value % 7) AS name FROM generate_series(0, 299)";
        run(tfr_sql().arg(zones).arg("--out").arg(scratch.join("zones.parquet"))).success();
        Self { scratch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    fn query(&self, name: &str) -> String {
        let trips = self.path("trips");
        let joined = format!(
            "SELECT t.*, z.name AS zone_name FROM '{}/*.parquet' t JOIN '{}' z ON t.zone_id = z.zone WHERE fare > 8",
            trips.display(),
            self.path("zones.parquet").display()
        );
        if name == "ordered" { format!("{joined} ORDER BY trip_id, fare, distance_km") } else { joined }
    }

    fn command(&self, name: &str, out: &Path, arguments: &[&str]) -> Command {
        let mut command = tfr_sql();
        command
            .arg(self.query(name))
            .arg("--out")
            .arg(out)
            .args(["--partitions", PARTITIONS, "--quiet"])
            .args(arguments);
        command
    }

    /// Plans tasks, and returns the plan file and the number of tasks.
    fn plan(&self, name: &str, arguments: &[&str]) -> (PathBuf, u32) {
        let file = self.path(&format!("{name}.tfrplan"));
        run(self.command(name, &self.path("together").join(name), arguments).arg("--plan").arg(&file)).success();
        let plan = fs::read(&file).unwrap();
        let header: Value = serde_json::from_slice(plan.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        (file, header["tasks"].as_u64().unwrap() as u32)
    }
}

fn task(plan: &Path, index: u32) -> Command {
    let mut command = tfr_sql();
    command.arg("task").arg(plan).args(["--index", &index.to_string(), "--threads", "1", "--quiet"]);
    command
}

fn tool(name: &str, plan: &Path) -> Run {
    run(tfr_sql().arg(name).arg(plan).arg("--quiet"))
}

/// Every file of a set with its bytes; of the manifest, without what differs between any two runs.
fn set(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            let mut bytes = fs::read(&path).unwrap();
            if name == "_manifest.json" {
                let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
                for key in ["run", "created", "manifest_crc32c"] {
                    assert!(!manifest[key].take().is_null(), "{key}");
                }
                bytes = manifest.to_string().into_bytes();
            }
            found.insert(name, bytes);
        }
    }
    found
}

#[track_caller]
fn assert_same_set(name: &str, found: &Path, expected: &Path) {
    let (found, expected) = (set(found), set(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
    for (file, bytes) in found {
        assert!(bytes == expected[&file], "{name}: {file} differs");
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn tasks_write_the_set_of_one_process() {
    let job = Job::new();
    for (name, arguments, sorts) in ARRANGEMENTS {
        let (alone, together) = (job.path("alone").join(name), job.path("together").join(name));
        run(&mut job.command(name, &alone, arguments)).success();
        let (plan, tasks) = job.plan(name, arguments);
        assert_eq!(tasks, if name == "ordered" { 1 } else { 4 }, "{name}");
        for index in (0..tasks).rev() {
            run(&mut task(&plan, index)).success();
        }
        if sorts {
            tool("cut", &plan).success();
            // The last one is left to the end.
            for index in 0..tasks - 1 {
                run(&mut task(&plan, index)).success();
            }
        }
        tool("finish", &plan).success();
        assert_same_set(name, &together, &alone);
        assert!(fs::read_to_string(&plan).unwrap().contains("\"published\""));
        run(tfr_sql().arg("verify").arg(&together)).success();
    }
    assert_eq!(names(&job.path("together")), names(&job.path("alone")), "nothing is left over");
}

#[test]
fn a_plan_keeps_its_time() {
    let job = Job::new();
    let (plan, out) = (job.path("now.tfrplan"), job.path("now"));
    let query = format!(
        "SELECT trip_id, CAST(now() AS VARCHAR) AS at, CAST(current_date AS VARCHAR) AS day FROM '{}/*.parquet' WHERE now() > TIMESTAMP '2020-01-01'",
        job.path("trips").display()
    );
    let arguments = ["--partitions", "2", "--shuffle", "--shards", "2", "--quiet", "--plan"];
    run(tfr_sql().arg(query).arg("--out").arg(&out).args(arguments).arg(&plan)).success();
    for _ in ["sort", "write"] {
        for index in 0..2 {
            run(&mut task(&plan, index)).success();
        }
        tool("cut", &plan).success();
    }
    tool("finish", &plan).success();
    let times = format!("SELECT count(*) AS rows, count(DISTINCT at) AS times FROM '{}'", out.display());
    assert_eq!(run(tfr_sql().arg(times)).success().stdout, "rows,times\n16000,1\n");
}

/// Copies of inputs have the same size and time, and other inodes.
#[test]
fn copies_of_inputs_are_read() {
    let job = Job::new();
    let (name, arguments, _) = ARRANGEMENTS[0];
    let (plan, tasks) = job.plan(name, arguments);
    for file in fs::read_dir(job.path("trips")).unwrap().map(|file| file.unwrap().path()) {
        let (copy, time) = (file.with_extension("copy"), file.metadata().unwrap().modified().unwrap());
        fs::copy(&file, &copy).unwrap();
        fs::File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();
        fs::rename(&copy, &file).unwrap();
    }
    for index in 0..tasks {
        run(&mut task(&plan, index)).success();
    }
    tool("finish", &plan).success();
    // Another time means other rows.
    let (plan, _) = job.plan("changed", arguments);
    let file = job.path("trips/0.parquet");
    fs::File::options().write(true).open(file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let refused = run(&mut task(&plan, 0)).exits_with(1);
    assert!(refused.stderr.contains("changed since the tasks were planned"), "{}", refused.stderr);
}

/// Waits until a condition holds, or the child ends.
fn until(child: &mut Child, condition: impl Fn() -> bool) {
    while !condition() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

/// The files of attempts in the staging directory of a set.
fn attempts(out: &Path) -> usize {
    let staging = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tfr-"));
    let below = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let parent = out.parent().unwrap();
    let inner = below(parent).into_iter().filter(|path| staging(path)).flat_map(|path| below(&path));
    inner.filter(|path| staging(path)).map(|path| below(&path).len()).sum()
}

#[test]
fn killed_and_repeated_tasks_leave_no_trace() {
    let job = Job::new();
    for (name, arguments, sorts) in [ARRANGEMENTS[0], ARRANGEMENTS[2]] {
        let (alone, together) = (job.path("alone").join(name), job.path("together").join(name));
        run(&mut job.command(name, &alone, arguments)).success();
        let (plan, tasks) = job.plan(name, arguments);
        for step in 0..if sorts { 2 } else { 1 } {
            for index in 0..tasks {
                let before = attempts(&together);
                // One is killed at once, or when it has created its first file, or more of them, up to the report. Then two
                // run at the same time.
                let mut killed = task(&plan, index).stderr(Stdio::null()).spawn().unwrap();
                until(&mut killed, || attempts(&together) >= before + index as usize);
                killed.kill().unwrap();
                killed.wait().unwrap();
                let mut twice = [0, 1].map(|_| task(&plan, index).spawn().unwrap());
                for child in &mut twice {
                    assert!(child.wait().unwrap().success(), "{name}: task {index}");
                }
            }
            if sorts && step == 0 {
                tool("cut", &plan).success();
            }
        }
        tool("finish", &plan).success();
        assert_same_set(name, &together, &alone);
    }
    assert_eq!(names(&job.path("together")), names(&job.path("alone")), "nothing is left over");
}

#[test]
fn plan_waits_for_its_tasks() {
    let job = Job::new();
    let (name, arguments, _) = ARRANGEMENTS[2];
    let out = job.path("together").join(name);
    let (plan, _) = job.plan(name, arguments);
    run(&mut task(&plan, 2)).success();
    for name in ["cut", "finish"] {
        let missing = tool(name, &plan);
        assert_eq!(missing.code, Some(75), "{}", missing.stderr);
        assert_eq!(missing.stderr.trim_end(), "error: not reported: tasks 0, 1, 3");
    }
    let none = run(&mut task(&plan, 4));
    assert_eq!(none.code, Some(1));
    insta::assert_snapshot!(none.stderr.trim_end(), @"error: there is no task 4: expected one of 4, from 0");
    // Planning again would leave what is staged behind.
    let again = run(job.command(name, &out, arguments).arg("--plan").arg(&plan));
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("hint: finish or abandon it first"), "{}", again.stderr);

    tool("abandon", &plan).success();
    // With the directory that was created for the set.
    assert!(!plan.exists() && !job.path("together").exists());
}

#[test]
fn task_rejects_inputs_changed_since_the_plan() {
    let job = Job::new();
    let (name, arguments, _) = ARRANGEMENTS[0];
    let (plan, _) = job.plan(name, arguments);
    run(&mut task(&plan, 0)).success();
    // The plan has the files: one that comes later is not read.
    fs::copy(trips_path(), job.path("trips").join("8.parquet")).unwrap();
    run(&mut task(&plan, 1)).success();
    // The same bytes, but another file.
    fs::copy(trips_path(), job.path("trips").join("0.parquet")).unwrap();
    fs::remove_file(job.path("trips").join("7.parquet")).unwrap();
    let refused = run(&mut task(&plan, 0));
    assert_eq!(refused.code, Some(1));
    let [error, "", hint] = refused.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", refused.stderr) };
    assert!(error.contains("0.parquet: changed since the tasks were planned: expected "), "{error}");
    assert_eq!(hint, "hint: abandon the plan and plan the tasks again");
    let missing = run(&mut task(&plan, 3)).exits_with(1);
    assert!(missing.stderr.contains("7.parquet: changed since the tasks were planned"), "{}", missing.stderr);
    // Neither is an input of this task.
    run(&mut task(&plan, 2)).success();
    // Every task reads the table of zones as a whole.
    let zones = fs::File::options().write(true).open(job.path("zones.parquet")).unwrap();
    zones.set_modified(std::time::UNIX_EPOCH).unwrap();
    let refused = run(&mut task(&plan, 2)).exits_with(1);
    assert!(refused.stderr.contains("zones.parquet: changed since the tasks were planned"), "{}", refused.stderr);
    tool("abandon", &plan).success();
}

#[test]
fn plan_file_that_is_cut_or_damaged_is_refused() {
    let job = Job::new();
    let (name, arguments, _) = ARRANGEMENTS[0];
    let (plan, _) = job.plan(name, arguments);
    let whole = fs::read(&plan).unwrap();
    let refused = |bytes: &[u8], place: &str| {
        fs::write(&plan, bytes).unwrap();
        let refused = run(&mut task(&plan, 0)).exits_with(1);
        assert!(refused.stderr.contains("damaged at byte"), "{place}: {}", refused.stderr);
    };
    refused(&whole[..whole.len() - 1], "cut");
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap();
    let second = line + 1 + whole[line + 1..].iter().position(|byte| *byte == b'\n').unwrap();
    for (place, range) in [("the plan", line + 100..line + 101), ("the groups", second + 1..whole.len())] {
        let mut damaged = whole.clone();
        damaged[range].iter_mut().for_each(|byte| *byte ^= 1);
        refused(&damaged, place);
    }
    fs::write(&plan, &whole).unwrap();
    run(&mut task(&plan, 0)).success();
    tool("abandon", &plan).success();
}

/// A small table is the one that each task reads whole, whatever its format and its place in the query.
#[test]
fn tasks_join_small_tables_of_every_format() {
    let job = Job::new();
    let trips = format!("'{}/*.parquet'", job.path("trips").display());
    let zones = job.path("zones.parquet");
    for name in ["zones.csv", "zones.jsonl", "zones.arrow"] {
        let copy = format!("SELECT * FROM '{}'", zones.display());
        run(tfr_sql().arg(copy).arg("--out").arg(job.path(name))).success();
        let zones = format!("'{}'", job.path(name).display());
        let queries = [
            format!("SELECT t.trip_id, z.name FROM {trips} t JOIN {zones} z ON t.zone_id = z.zone"),
            format!("SELECT t.trip_id, z.name FROM {zones} z JOIN {trips} t ON t.zone_id = z.zone"),
            format!("SELECT t.trip_id, z.name FROM {trips} t LEFT JOIN {zones} z ON t.zone_id = z.zone"),
            format!("SELECT trip_id FROM {trips} WHERE zone_id IN (SELECT zone FROM {zones})"),
            format!(
                "SELECT trip_id FROM {trips} t WHERE NOT EXISTS (SELECT 1 FROM {zones} z WHERE z.zone = t.zone_id)"
            ),
        ];
        for query in queries {
            let out = job.path("together").join("joined");
            let plan = job.path("joined.tfrplan");
            let mut command = tfr_sql();
            command.arg(&query).arg("--out").arg(&out).args(["--partitions", PARTITIONS, "--shard-rows", "900"]);
            let planned = run(command.arg("--plan").arg(&plan)).success();
            assert!(planned.stderr.contains("joined.tfrplan: 4 tasks"), "{query}: {}", planned.stderr);
            tool("abandon", &plan).success();
        }
    }
}

/// If several rows of the small table have a key, their order is open where its files are read by several threads.
#[test]
fn tasks_join_tables_with_equal_keys() {
    let job = Job::new();
    fs::create_dir(job.path("tags")).unwrap();
    for part in 0..4 {
        let rows: String = (0..300).map(|zone| format!("{zone},tag {part}\n")).collect();
        fs::write(job.path("tags").join(format!("{part}.csv")), format!("zone,tag\n{rows}")).unwrap();
    }
    let query = format!(
        "SELECT t.trip_id, g.tag FROM '{}/*.parquet' t JOIN '{}/*.csv' g ON t.zone_id = g.zone",
        job.path("trips").display(),
        job.path("tags").display()
    );
    let command = |out: &Path| {
        let mut command = tfr_sql();
        command.arg(&query).arg("--out").arg(out).args(["--partitions", PARTITIONS, "--shard-rows", "9000", "--quiet"]);
        command
    };
    let (alone, together, plan) = (job.path("alone"), job.path("together"), job.path("equal.tfrplan"));
    run(&mut command(&alone)).success();
    run(command(&together).arg("--plan").arg(&plan)).success();
    for index in 0..4 {
        run(&mut task(&plan, index)).success();
    }
    tool("finish", &plan).success();
    assert_eq!(names(&together), names(&alone));
    let sorted = |dir: &Path| {
        let mut rows: Vec<_> = read_shards(dir).iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows
    };
    let rows = sorted(&together);
    assert!(rows.len() > 8 * 2000, "{}", rows.len());
    assert!(rows == sorted(&alone), "other rows");
}

#[test]
fn plan_names_what_makes_one_task() {
    let job = Job::new();
    let trips = format!("'{}/*.parquet'", job.path("trips").display());
    let zones = format!("'{}'", job.path("zones.parquet").display());
    let planned = |query: &str, partitions: &str| {
        let plan = job.path("one.tfrplan");
        let mut command = tfr_sql();
        command.arg(query).arg("--out").arg(job.path("one")).args(["--shard-rows", "900", "--partitions", partitions]);
        let planned = run(command.arg("--plan").arg(&plan)).success();
        tool("abandon", &plan).success();
        planned.stderr.trim_end().rsplit_once("one.tfrplan: ").unwrap().1.to_owned()
    };
    let queries = [
        format!("SELECT trip_id FROM {trips} ORDER BY trip_id"),
        format!("SELECT trip_id FROM {trips} WHERE zone_id NOT IN (SELECT zone FROM {zones})"),
        format!("SELECT count(*) AS n FROM (SELECT DISTINCT city FROM {trips})"),
        format!("SELECT zone FROM {zones}"),
    ];
    let notes: Vec<_> = queries.iter().map(|query| planned(query, PARTITIONS)).collect();
    insta::assert_snapshot!(notes.join("\n"), @r"
    1 task, because SortPreservingMergeExec needs the rows of all partitions
    1 task, because HashJoinExec needs the rows of all partitions
    1 task, because AggregateExec needs the rows of all partitions
    1 task
    ");
    // As was asked for.
    assert_eq!(planned(&queries[0], "1"), "1 task");
}

#[test]
fn remove_leftovers_deletes_abandoned_sorted_rows() {
    let job = Job::new();
    let (sorted, out) = (job.path("sorted"), job.path("out"));
    fs::create_dir(&sorted).unwrap();
    let mut plan = job.command("rows", &out, &["--shuffle", "--scratch"]);
    run(plan.arg(&sorted).arg("--plan").arg(job.path("plan"))).success();
    run(&mut task(&job.path("plan"), 0)).success();
    let remove = || run(tfr_sql().args(["verify", "--remove-leftovers"]).arg(&sorted));
    remove().exits_with(1);
    let [staged] = &names(&sorted)[..] else { panic!("{:?}", names(&sorted)) };
    // The directory of the tasks has the same name.
    fs::write(sorted.join(staged).join(staged).join("lease"), "2026-01-01T00:00:00Z").unwrap();
    remove().success();
    assert_eq!(names(&sorted), Vec::<String>::new());
}

#[test]
fn plan_rejects_queries_with_dependent_tasks() {
    let job = Job::new();
    let trips = format!("'{}/*.parquet'", job.path("trips").display());
    let refused = |query: &str| {
        let mut command = tfr_sql();
        command.arg(query).arg("--out").arg(job.path("out")).args(["--partitions", PARTITIONS, "--quiet", "--plan"]);
        let refused = run(command.arg(job.path("plan")));
        assert_eq!(refused.code, Some(1), "{query}");
        assert!(!job.path("out").exists() && !job.path("plan").exists(), "{query}");
        refused.stderr
    };
    insta::assert_snapshot!(refused(&format!("SELECT city, count(*) AS n FROM {trips} GROUP BY city")), @r"
    error: the tasks of this query would have to exchange rows: AggregateExec

    hint: write an intermediate table without tasks, or use --partitions 1, which makes one task of the query
    ");
    insta::assert_snapshot!(refused(&format!("SELECT *, random() AS r FROM {trips}")), @r"
    error: the rows of this query may differ from task to task: an expression has another value each time, such as random()

    hint: use --partitions 1, which makes one task of the query
    ");
    let zones = format!("'{}'", job.path("zones.parquet").display());
    let limited = format!("SELECT * FROM {trips} t JOIN (SELECT * FROM {zones} LIMIT 5) z ON t.zone_id = z.zone");
    insta::assert_snapshot!(refused(&limited), @r"
    error: the rows of this query may differ from task to task: LIMIT chooses rows

    hint: use --partitions 1, which makes one task of the query
    ");
    let in_subquery = format!("SELECT * FROM {trips} WHERE zone_id IN (SELECT zone FROM {zones} LIMIT 5)");
    assert_eq!(refused(&in_subquery), refused(&limited));
    // Each task would number the zones in an order of its own.
    let numbered = format!("(SELECT zone, row_number() OVER () AS number FROM (SELECT DISTINCT zone FROM {zones}))");
    let joined = format!("SELECT t.trip_id, z.number FROM {numbered} z JOIN {trips} t ON t.zone_id = z.zone");
    insta::assert_snapshot!(refused(&joined), @r"
    error: the rows of this query may differ from task to task: BoundedWindowAggExec depends on the order of rows

    hint: write the rows of that subquery to a table first
    ");
    // Zones without trips are known only when all partitions of the trips are read.
    let outer = format!("SELECT * FROM {zones} z LEFT JOIN {trips} t ON t.zone_id = z.zone");
    insta::assert_snapshot!(refused(&outer), @r"
    error: the tasks of this query would have to exchange rows: HashJoinExec

    hint: write an intermediate table without tasks, or use --partitions 1, which makes one task of the query
    ");
}
