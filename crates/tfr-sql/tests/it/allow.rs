//! `--allow`: what a run may open, and the ways out that are tried.

mod ways;
mod world;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::thread;

use tfr_sql::{Confinement, ExitStatus, confine};
use tfr_stores::Door;

use super::workbench::{Workbench, tell};
use world::{World, run};

/// Runs a way out with the directory for temporary files, unless it has one or is a tool.
fn try_out(world: &World, way: &ways::Way, more: &[String]) -> (ExitStatus, String) {
    let tools = ["head", "cat", "schema", "verify", "stats", "describe", "reshard", "salvage", "index"];
    let tasks = ["task", "cut", "finish", "abandon"];
    let mut arguments: Vec<_> = way.arguments.iter().chain(more).map(String::as_str).collect();
    let is_query = !tools.iter().chain(&tasks).any(|tool| way.arguments[0] == *tool);
    let temp = world.path("tmp");
    if is_query && !way.arguments.iter().any(|argument| argument == "--temp-dir") {
        arguments.extend(["--temp-dir", &temp]);
    }
    if is_query {
        arguments.extend(["--threads", "1"]);
    }
    run(&arguments)
}

#[test]
fn allow_has_no_way_out() {
    let world = World::new();
    let ways = ways::all(&world);
    assert!(ways.len() >= 200, "{} ways", ways.len());
    let succeeds = |way: &ways::Way| {
        let (status, shown) = try_out(&world, way, &world.allow());
        let mistaken = || shown.starts_with("Usage(").then(|| format!("{:?} is no way out: {shown}", way.arguments));
        world.success(&way.arguments, status, &shown).or_else(mistaken)
    };
    let found: Vec<_> = ways.iter().filter_map(succeeds).collect();
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), ways.len(), found.join("\n"));
    println!("{} ways out", ways.len());
}

/// The other tests of these ways would prove nothing if they failed for another reason.
#[test]
fn without_allow_most_ways_lead_out() {
    const EVERY: usize = 9;
    let world = World::new();
    let ways: Vec<_> = ways::all(&world).into_iter().filter(|way| way.opens).step_by(EVERY).collect();
    let done = ways.iter().filter(|way| try_out(&world, way, &[]).0 == ExitStatus::Done).count();
    assert!(done * 2 > ways.len(), "{done} of {}", ways.len());
}

/// The same ways without `--allow`, so that nothing but the kernel refuses them.
#[test]
fn kernel_alone_refuses_files_outside() {
    let world = World::new();
    let door = Door::to(&[world.path("in"), world.path("tmp")]).unwrap();
    // The rules hold for one thread and those that it starts.
    let tried = thread::spawn(move || {
        if let Confinement::Absent(reason) = confine(&door) {
            println!("skipped: {reason}");
            return (world, Vec::new());
        }
        let ways = ways::all(&world).into_iter().filter(|way| way.opens);
        let tried: Vec<_> = ways.map(|way| (try_out(&world, &way, &[]), way)).collect();
        let inside = run(&[&format!("SELECT word FROM '{}'", world.path("in/set")), "--temp-dir", &world.path("tmp")]);
        assert_eq!(inside, (ExitStatus::Done, "word\nopen\n".to_owned()));
        (world, tried)
    });
    // What is outside can be read here only.
    let (world, tried) = tried.join().unwrap();
    let success =
        |((status, shown), way): &((ExitStatus, String), ways::Way)| world.success(&way.arguments, *status, shown);
    let found: Vec<_> = tried.iter().filter_map(success).collect();
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), tried.len(), found.join("\n"));
    println!("{} ways out", tried.len());
}

#[test]
fn allow_opens_what_is_inside() {
    let world = World::new();
    let temp = world.path("tmp");
    symlink("in", world.root().join("also_in")).unwrap();
    symlink("a.csv", world.root().join("in/again.csv")).unwrap();
    let done = |arguments: &[&str]| {
        let allow = world.allow();
        let arguments: Vec<_> = arguments.iter().copied().chain(allow.iter().map(String::as_str)).collect();
        let (status, shown) = run(&arguments);
        assert_eq!(status, ExitStatus::Done, "{arguments:?}: {shown}");
        shown
    };
    for name in ["in/a.csv", "also_in/a.csv", "in/again.csv", "in/../in/a.csv", "in/mixed/ok.csv", "in/dt=*/b.csv"] {
        let query = format!("SELECT word FROM '{}'", world.path(name));
        assert_eq!(done(&[&query, "--temp-dir", &temp]), "word\nopen\n", "{name}");
    }
    let set = world.path("in/set");
    assert_eq!(done(&[&format!("SELECT word, dt FROM '{set}'"), "--temp-dir", &temp]), "word,dt\nopen,1\n");
    let row = format!("SELECT 'x' AS word, 1 AS dt FROM '{}'", world.path("in/a.csv"));
    for out in ["in/written", "in/written.parquet"] {
        done(&[&row, "--out", &world.path(out), "--temp-dir", &temp]);
    }
    done(&[&row, "--out", &set, "--mode", "append", "--partition-by", "dt", "--temp-dir", &temp]);
    done(&["SET datafusion.optimizer.prefer_hash_join = false; SELECT 1", "--temp-dir", &temp]);
    done(&["SET TIME ZONE = '+01:00'; SELECT 1", "--temp-dir", &temp]);
    done(&["verify", &set]);
    done(&["head", &set]);
    done(&["schema", &set]);
    done(&["reshard", &set, "--out", &world.path("in/moved")]);
    // Spilled rows, and a sort of records.
    done(&[
        "SELECT value, value % 97 AS k FROM range(300000) ORDER BY k, value",
        "--out",
        &world.path("in/sorted"),
        "--shuffle",
        "--memory-limit",
        "16MiB",
        "--threads",
        "1",
        "--temp-dir",
        &temp,
    ]);
}

#[test]
fn allow_of_the_environment_and_of_arguments_both_hold() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("in")).unwrap();
    fs::write(bench.path().join("in/a.csv"), "x\n1\n").unwrap();
    fs::create_dir(bench.path().join("tmp")).unwrap();
    let shown = |variable: &str, arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.args(["--temp-dir", "tmp"]).env("TFR_SQL_ALLOW", variable);
        tell(&command.output().unwrap())
    };
    let (inside, users) = ("SELECT x FROM 'in/a.csv'", "SELECT count(*) AS n FROM 'users.csv'");
    assert_eq!(shown("in,tmp", &[inside]), "exit 0\n-- stdout\nx\n1\n");
    assert!(shown("in,tmp", &[users]).starts_with("exit 1\n-- stderr\nerror: users.csv: not allowed\n"));
    // An option does not widen what the environment allows.
    assert!(shown("in,tmp", &[users, "--allow", "."]).starts_with("exit 1\n"));
    assert!(shown(".", &[users, "--allow", "in", "--allow", "tmp"]).starts_with("exit 1\n"));
    assert!(shown(".", &[users, "--allow", "users.csv", "--allow", "tmp"]).starts_with("exit 0\n"));
    for unusable in ["", "in,,tmp", "in,none"] {
        assert!(shown(unusable, &[inside]).starts_with("exit 2\n"), "{unusable:?}");
    }
}

#[test]
fn allow_of_temporary_files_is_decided_at_the_start() {
    let bench = Workbench::new();
    let shown = bench.tell(&["SELECT 1 AS x", "--allow", "."]);
    assert!(shown.starts_with("exit 2\n-- stderr\nerror: ") && shown.contains("--temp-dir"), "{shown}");
}

#[test]
fn allow_of_a_pipe_names_its_descriptor() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("tmp")).unwrap();
    let count = |allowed: &[&str]| {
        let mut command = bench.command(&["SELECT count(*) AS n FROM t", "--table", "t=-", "--temp-dir", "tmp"]);
        command.args(["--allow", "tmp"]).args(allowed).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that refuses the pipe does not read it.
        let _ = child.stdin.take().unwrap().write_all(b"x\n1\n2\n");
        tell(&child.wait_with_output().unwrap())
    };
    assert_eq!(count(&["--allow", "-"]), "exit 0\n-- stdout\nn\n2\n");
    assert_eq!(count(&["--allow", "/dev/stdin"]), "exit 0\n-- stdout\nn\n2\n");
    assert!(count(&[]).starts_with("exit 1\n-- stderr\nerror: standard input: not allowed\n"));
}

#[test]
fn allow_travels_with_a_plan() {
    let world = World::new();
    let (input, plan) = (world.path("in/a.csv"), world.path("in/p.plan"));
    let allow = world.allow();
    let query = format!("SELECT * FROM '{input}'");
    let (out, temp) = (world.path("in/planned"), world.path("tmp"));
    let mut planning = vec![query.as_str(), "--out", &out, "--plan", &plan, "--partitions", "1", "--temp-dir", &temp];
    planning.extend(allow.iter().map(String::as_str));
    let (status, shown) = run(&planning);
    assert_eq!(status, ExitStatus::Done, "{shown}");
    fs::remove_file(&input).unwrap();
    symlink("../secret/s.csv", &input).unwrap();
    // The task has no --allow of its own.
    let (status, shown) = run(&["task", &plan, "--index", "0", "--temp-dir", &temp]);
    assert_eq!(status, ExitStatus::Failed, "{shown}");
    assert!(shown.contains("not allowed"), "{shown}");
    fs::remove_file(&input).unwrap();
    fs::write(&input, "id,word\n1,open\n").unwrap();
    let (status, shown) = run(&["task", &plan, "--index", "0", "--temp-dir", &world.path("secret")]);
    assert_eq!(status, ExitStatus::Usage, "{shown}");
    assert_eq!(run(&["abandon", &plan]).0, ExitStatus::Done);
}

#[test]
fn verbose_tells_whether_the_kernel_enforces_it() {
    let bench = Workbench::new();
    let shown = bench.tell(&["SELECT 1 AS x", "--allow", ".", "--temp-dir", ".", "-v"]);
    assert!(shown.contains("the kernel enforces the paths") || shown.contains("does not enforce the paths"), "{shown}");
}
