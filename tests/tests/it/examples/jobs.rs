//! The jobs of `examples/cluster/` write their set, with programs that take the place of Slurm, Airflow and Kubernetes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use tfr_examples::{TRIPS, trips_path};
use tfr_tests::{Run, Scratch, read_shards, repository, run, tfr_sql};

/// A directory with inputs, and a `tfr-sql` that fails once for each task, for `cut` and for `finish`, in ways after which
/// a job system runs it again. If the file `broken-cut` exists, `cut` fails for good, and so do the others. The file
/// `calls` lists the commands.
struct Jobs {
    scratch: Scratch,
}

impl Jobs {
    fn new() -> Self {
        let scratch = Scratch::default();
        for directory in ["bin", "events"] {
            fs::create_dir_all(scratch.join(directory)).unwrap();
        }
        for copy in 0..4 {
            fs::copy(trips_path(), scratch.join(format!("events/{copy}.parquet"))).unwrap();
        }
        let jobs = Self { scratch };
        let text = r#"case $1 in task|cut|finish)
    echo "$1 $4" >> "ROOT/calls"
    [ -e "ROOT/broken-$1" ] && exit 1
    once="ROOT/failed-$1-$4"
    if [ ! -e "$once" ]; then
        touch "$once"
        case $4 in 0) kill -9 $$ ;; 1) kill -15 $$ ;; esac
        exit 75
    fi
esac
exec COMMAND "$@"
"#
        .replace("ROOT", &jobs.scratch.path().display().to_string())
        .replace("COMMAND", &tfr_sql().get_program().display().to_string());
        jobs.program("tfr-sql", &text);
        jobs
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.scratch.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A command in the directory that finds its programs.
    fn command(&self, program: &str) -> Command {
        let path = format!("{}:{}", self.scratch.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.current_dir(self.scratch.path()).env("PATH", path);
        command
    }

    /// Lets a command fail for good.
    fn break_command(&self, name: &str) {
        fs::write(self.scratch.join(format!("broken-{name}")), "").unwrap();
    }

    /// Replaces `sleep` by a program that writes to the file `slept`, and does not wait.
    fn skip_waiting(&self) {
        self.program("sleep", "echo \"$@\" >> slept");
    }

    /// The number of calls of a command.
    fn calls(&self, name: &str) -> usize {
        let calls = fs::read_to_string(self.scratch.join("calls")).unwrap();
        calls.lines().filter(|line| line.starts_with(name)).count()
    }

    /// Checks that the set is complete, and that each of the four tasks ran in both steps, once in vain.
    fn assert_written(&self) {
        assert_eq!(read_shards(&self.scratch.join("train")).len(), 4 * TRIPS as usize);
        assert_eq!((self.calls("task 2"), self.calls("cut"), self.calls("finish")), (3, 2, 2));
    }
}

/// `sbatch` runs a job at once.
#[test]
fn slurm_jobs_write_the_set() {
    let script = repository().join("examples/cluster/task.slurm");
    let submit = |jobs: &Jobs| {
        jobs.skip_waiting();
        jobs.program(
            "sbatch",
            r#"indices=none
while [ $# -gt 0 ]; do
    case $1 in --array=0-*) indices=$(seq 0 "${1#--array=0-}") ;; --wrap) shift; wrap=$1 ;; esac
    shift
done
for index in $indices; do
    SLURM_ARRAY_TASK_ID=$index SLURM_CPUS_PER_TASK=1 sh -c "$wrap" >&2 || exit 1
done
echo 7
"#,
        );
        run(jobs.command("sh").arg(&script))
    };
    let jobs = Jobs::new();
    submit(&jobs).success();
    jobs.assert_written();
    let slept = fs::read_to_string(jobs.scratch.join("slept")).unwrap();
    assert_eq!(slept.lines().collect::<Vec<_>>(), ["1m"; 6], "four tasks, cut and finish wait once");

    let jobs = Jobs::new();
    jobs.break_command("cut");
    assert_ne!(submit(&jobs).code, Some(0));
    assert_eq!((jobs.calls("cut"), jobs.calls("finish")), (1, 0));
}

/// Runs the Airflow file with the directory in the place of `/data`, and without the minute between attempts.
fn airflow(jobs: &Jobs, execute: impl Fn(&Jobs) -> Run) -> Run {
    let text = fs::read_to_string(repository().join("examples/cluster/airflow_tasks.py")).unwrap();
    let text = text.replace("/data", &jobs.scratch.path().display().to_string());
    fs::create_dir_all(jobs.scratch.join("dags")).unwrap();
    fs::write(jobs.scratch.join("dags/train.py"), text.replace("timedelta(minutes=1)", "timedelta(0)")).unwrap();
    execute(jobs)
}

fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A package takes the place of Airflow.
#[test]
fn airflow_tasks_write_the_set() {
    if !exists("python3") {
        return eprintln!("skipped: there is no python3");
    }
    let with_stub = |jobs: &Jobs| {
        let package = jobs.scratch.join("stub/airflow");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("__init__.py"), include_str!("airflow.py")).unwrap();
        run(jobs.command("python3").arg("dags/train.py").env("PYTHONPATH", jobs.scratch.join("stub")))
    };
    let jobs = Jobs::new();
    airflow(&jobs, with_stub).success();
    jobs.assert_written();

    let jobs = Jobs::new();
    jobs.break_command("cut");
    let failed = airflow(&jobs, with_stub);
    assert!(failed.stderr.contains("AirflowFailException: tfr-sql cut ended with exit code 1"), "{}", failed.stderr);
    assert_eq!((jobs.calls("cut"), jobs.calls("finish")), (1, 0));
}

/// Where Airflow is installed.
#[test]
fn airflow_runs_the_tasks() {
    if !exists("airflow") {
        return eprintln!("skipped: there is no airflow");
    }
    let jobs = Jobs::new();
    let of_airflow = |jobs: &Jobs, arguments: &[&str]| {
        let mut command = jobs.command("airflow");
        command.args(arguments).env("AIRFLOW_HOME", jobs.scratch.join("airflow"));
        command.env("AIRFLOW__CORE__DAGS_FOLDER", jobs.scratch.join("dags"));
        run(command.env("AIRFLOW__CORE__LOAD_EXAMPLES", "False"))
    };
    airflow(&jobs, |jobs| {
        of_airflow(jobs, &["db", "migrate"]).success();
        of_airflow(jobs, &["dags", "test", "train", "2026-01-01"])
    })
    .success();
    jobs.assert_written();
}

/// A program takes the place of `kubectl`, and runs the tasks of a Job as Kubernetes does.
#[test]
fn kubernetes_jobs_write_the_set() {
    if !exists("python3") {
        return eprintln!("skipped: there is no python3");
    }
    let example = repository().join("examples/cluster");
    let prepare = || {
        let jobs = Jobs::new();
        jobs.skip_waiting();
        fs::write(jobs.scratch.join("kubectl.py"), include_str!("kubectl.py")).unwrap();
        let text = format!("exec python3 '{}' \"$@\"", jobs.scratch.join("kubectl.py").display());
        jobs.program("kubectl", &text);
        jobs
    };
    let submit = |jobs: &Jobs| run(jobs.command("sh").arg(example.join("tasks.k8s.sh")));

    let jobs = prepare();
    submit(&jobs).success();
    jobs.assert_written();
    let slept = fs::read_to_string(jobs.scratch.join("slept")).unwrap();
    assert_eq!(slept.lines().collect::<Vec<_>>(), ["1m"; 2], "cut and finish wait once");

    // The plan is no more: each attempt would fail in the same way.
    let before = jobs.calls("task 3");
    let create = r#"sed 's/completions: 64/completions: 4/' "$1" | kubectl create -f -"#;
    run(jobs.command("sh").args(["-c", create, "sh"]).arg(example.join("tasks.k8s.yaml"))).success();
    assert_eq!(jobs.calls("task 3"), before + 1);

    let jobs = prepare();
    jobs.break_command("cut");
    assert_ne!(submit(&jobs).code, Some(0));
    assert_eq!((jobs.calls("cut"), jobs.calls("finish")), (1, 0));

    let jobs = prepare();
    jobs.break_command("task");
    let failed = submit(&jobs);
    assert!(failed.stderr.contains("the Job train-sort has failed"), "{}", failed.stderr);
    assert_eq!((jobs.calls("task"), jobs.calls("finish")), (4, 0));
}
