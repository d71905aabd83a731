//! The jobs of `examples/cluster/` write their set, with programs that take the place of Slurm, Airflow and Kubernetes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use tfr_examples::{TRIPS, trips_path};
use tfr_tests::{Run, Scratch, read_shards, repository, run, tfr_sql};

/// A directory with inputs, and a `tfr-sql` that fails once for each task, for `cut` and for `finish`, in ways after which
/// a job system runs it again. If the file `broken` exists, `cut` fails for good. The file `calls` lists the commands.
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
    [ $1 = cut ] && [ -e "ROOT/broken" ] && exit 1
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

    fn break_cut(&self) {
        fs::write(self.scratch.join("broken"), "").unwrap();
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
        jobs.program("sleep", "echo \"$@\" >> slept");
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
    jobs.break_cut();
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
    jobs.break_cut();
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

/// The fields of `tasks.k8s.yaml` that decide what runs.
struct IndexedJob {
    shell: String,
    attempts: usize,
    final_codes: Vec<i32>,
}

impl IndexedJob {
    fn read() -> Self {
        let text = fs::read_to_string(repository().join("examples/cluster/tasks.k8s.yaml")).unwrap();
        let field = |name: &str| {
            let of_field = |line: &str| line.trim().strip_prefix(name).map(|value| value.trim().to_owned());
            text.lines().find_map(of_field).unwrap_or_else(|| panic!("no {name}"))
        };
        let command = field("command:");
        let shell = command.strip_prefix("[sh, -c, \"").and_then(|text| text.strip_suffix("\"]")).unwrap();
        let codes = field("values:");
        let codes = codes.trim_matches(['[', ']']).split(", ");
        Self {
            shell: shell.to_owned(),
            attempts: 1 + field("backoffLimitPerIndex:").parse::<usize>().unwrap(),
            final_codes: codes.map(|code| code.parse().unwrap()).collect(),
        }
    }

    /// Runs an index until it succeeds, as often as Kubernetes does.
    fn run(&self, jobs: &Jobs, index: usize) -> bool {
        for _ in 0..self.attempts {
            let mut pod = jobs.command("sh");
            match run(pod.args(["-c", &self.shell]).env("JOB_COMPLETION_INDEX", index.to_string())).code {
                Some(0) => return true,
                Some(code) if self.final_codes.contains(&code) => return false,
                _ => {}
            }
        }
        false
    }
}

#[test]
fn kubernetes_job_writes_the_set() {
    let (jobs, job) = (Jobs::new(), IndexedJob::read());
    let tfr_sql = |arguments: &[&str]| run(jobs.command("tfr-sql").args(arguments));
    let query = ["SELECT * FROM 'events/*.parquet'", "--out", "train", "--shuffle", "--partitions", "4"];
    tfr_sql(&[&query[..], &["--plan", "train.tfrplan"]].concat()).success();
    for step in ["cut", "finish"] {
        assert!((0..4).all(|index| job.run(&jobs, index)), "before {step}");
        assert_eq!(tfr_sql(&[step, "train.tfrplan"]).code, Some(75));
        tfr_sql(&[step, "train.tfrplan"]).success();
    }
    jobs.assert_written();
    // The plan is no more: each attempt would fail in the same way.
    let before = jobs.calls("task 3");
    assert!(!job.run(&jobs, 3));
    assert_eq!(jobs.calls("task 3"), before + 1);
}
