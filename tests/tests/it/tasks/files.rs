//! What a plan keeps of the files, so that a task opens only its own.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use tfr_tests::{Scratch, repository, run, tfr_sql};

use super::{ARRANGEMENTS, Job, PARTITIONS, assert_same_set, names, set, task, tool};

#[test]
fn task_opens_only_its_own_files() {
    let job = Job::new();
    let (name, arguments, _) = ARRANGEMENTS[0];
    let (plan, _) = job.plan(name, arguments);
    // The footers of the others are not read.
    for other in 2..8 {
        fs::remove_file(job.path("trips").join(format!("{other}.parquet"))).unwrap();
    }
    run(&mut task(&plan, 0)).success();
    tool("abandon", &plan).success();
}

/// A plan keeps what the files of all formats have shown.
#[test]
fn task_opens_only_its_own_files_of_every_format() {
    let scratch = Scratch::default();
    let of_drift = |extension: &str| fs::read(repository().join(format!("tests/data/drift/decimal/new.{extension}")));
    let texts = |rows: [&str; 4]| rows.map(|rows| rows.as_bytes().to_vec()).to_vec();
    // The types, the keys and the lines of an object are those of all files together. Files of one length are not divided.
    let mut formats = vec![
        ("csv", "", texts(["a,b\n100,x\n", "a,b\n2000,\n", "a,b\n,yyyy\n", "a,b\n4.5,z\n"])),
        ("jsonl", "", texts(["{\"a\": 1.0}", "{\"a\": 2.0}", "{\"a\": 3.0}", "{\"b\": [1]}"])),
        ("json", "", texts(["{\"a\": 1}", "{\"a\": 2}", "{\"a\": 3}", "{\n\"a\":\n4}"])),
        ("svm", "", texts(["1 1:0.5", "0 2:1.5", "1 1:2.5", "0 3:4.5"])),
        ("txt", "format=hive-text,schema=a INT", texts(["1", "2", "3", "4"])),
    ];
    formats.extend(["arrow", "avro", "orc"].map(|extension| (extension, "", vec![of_drift(extension).unwrap(); 4])));
    // The features are those of all files together, and the container is that of each.
    let records = |rows: &str, arguments: &[&str]| {
        let out = scratch.join("records");
        run(tfr_sql()
            .arg(rows)
            .args(["--mode", "overwrite", "--shards", "1", "--quiet", "--out"])
            .arg(&out)
            .args(arguments))
        .success();
        let [shard] = &names(&out).into_iter().filter(|name| name.starts_with("part-")).collect::<Vec<_>>()[..] else {
            panic!("one shard")
        };
        fs::read(out.join(shard)).unwrap()
    };
    let zlib = records("SELECT 1 AS a, 'x' AS b", &["--compression", "zlib"]);
    let plain = records("SELECT NULL::int AS a, [1.5] AS c", &[]);
    formats.push(("tfrecord", "", vec![plain, zlib, records("SELECT 3 AS a", &[]), records("SELECT [4] AS d", &[])]));
    let array = records("SELECT 1 AS a, 'x' AS b", &["--record-format", "array_record"]);
    formats.push(("array_record", "", vec![array; 4]));
    for (extension, options, files) in formats {
        let dir = scratch.join(extension);
        fs::create_dir(&dir).unwrap();
        for (number, file) in files.iter().enumerate() {
            fs::write(dir.join(format!("{number}.{extension}")), file).unwrap();
        }
        let table = format!("t={}", [dir.to_str().unwrap(), options].join(",").trim_end_matches(','));
        let command = |out: &str| {
            let mut command = tfr_sql();
            command.args(["SELECT * FROM t", "--table", &table, "--out"]).arg(scratch.join(out));
            command.args(["--shard-rows", "1", "--partitions", PARTITIONS, "--quiet"]);
            command
        };
        let (alone, together) = (format!("{extension}-alone"), format!("{extension}-together"));
        run(&mut command(&alone)).success();
        let plan = scratch.join(format!("{extension}.tfrplan"));
        run(command(&together).arg("--plan").arg(&plan)).success();
        for number in (0..4).rev() {
            run(&mut task(&plan, number)).success();
            // The tasks that are left do not read it.
            fs::remove_file(dir.join(format!("{number}.{extension}"))).unwrap();
        }
        tool("finish", &plan).success();
        assert!(set(&scratch.join(&together)) == set(&scratch.join(&alone)), "{extension}");
    }
}

/// A plan keeps the files of a function, and a task reads those of its partition together.
#[test]
fn task_opens_only_its_own_files_of_the_function_files() {
    let scratch = Scratch::default();
    for (number, text) in ["a", "bb", "", "cccc", "ddddd", "ee"].iter().enumerate() {
        fs::create_dir_all(scratch.join(format!("in/day={number}"))).unwrap();
        fs::write(scratch.join(format!("in/day={number}/x.txt")), text).unwrap();
    }
    let queries = [
        ("content", "SELECT path, content, day FROM files('in/**/*.txt') WHERE size > 0"),
        ("names", "SELECT path, size, day FROM files('in/**/*.txt') WHERE day <> 4"),
        ("join", "SELECT f.content, n.day FROM files('in/**/*.txt') f JOIN files('in/*/x.txt') n ON f.day = n.day + 1"),
    ];
    for (name, query) in queries {
        let command = |out: &str| {
            let mut command = tfr_sql();
            command.current_dir(scratch.path()).args([query, "--shard-rows", "2", "--partitions", "3", "--quiet"]);
            command.args(["--out", out]);
            command
        };
        let [alone, together, plan] = ["alone", "together", "tfrplan"].map(|what| format!("{name}.{what}"));
        run(&mut command(&alone)).success();
        run(command(&together).args(["--plan", &plan])).success();
        let tasks = if name == "names" { 1 } else { 3 };
        for index in 0..tasks {
            run(&mut task(&scratch.join(&plan), index)).success();
            if name == "content" {
                // The tasks that are left do not read it.
                fs::rename(scratch.join(format!("in/day={index}")), scratch.join(format!("day={index}"))).unwrap();
            }
        }
        tool("finish", &scratch.join(&plan)).success();
        assert_same_set(name, &scratch.join(&together), &scratch.join(&alone));
        for index in 0..tasks {
            let _ = fs::rename(scratch.join(format!("day={index}")), scratch.join(format!("in/day={index}")));
        }
    }
}

/// A plan that cannot keep one scan keeps none, and every task plans the query as it was planned.
#[test]
fn tasks_list_again_if_a_plan_cannot_keep_all_files() {
    let scratch = Scratch::default();
    fs::create_dir(scratch.join("in")).unwrap();
    fs::create_dir(scratch.join("t")).unwrap();
    fs::write(scratch.join("in/x.txt"), "x").unwrap();
    fs::write(scratch.join("t/0.csv"), "a\ny\n").unwrap();
    // In the year 2302: nanoseconds since 1970 have no 64-bit number.
    let late = UNIX_EPOCH + Duration::from_secs(10_500_000_000);
    fs::File::options().write(true).open(scratch.join("t/0.csv")).unwrap().set_modified(late).unwrap();
    let query = "SELECT upper(f.path) AS a FROM files('in/*') f UNION ALL SELECT a FROM 't/'";
    let command = |out: &str| {
        let mut command = tfr_sql();
        command.current_dir(scratch.path()).args([query, "--shard-rows", "1", "--partitions", "2", "--quiet"]);
        command.args(["--out", out]);
        command
    };
    run(&mut command("alone")).success();
    run(command("together").args(["--plan", "plan"])).success();
    let plan = scratch.join("plan");
    for index in 0..2 {
        run(&mut task(&plan, index)).success();
    }
    tool("finish", &plan).success();
    assert_same_set(query, &scratch.join("together"), &scratch.join("alone"));
}

/// A plan keeps the files of a table format: which of their rows are deleted, how their columns are called, and the values
/// that are no part of them. Every task reads the metadata of a table whose files are not Parquet.
#[test]
fn tasks_read_tables_of_table_formats_as_planned() {
    let scratch = Scratch::default();
    let tables =
        ["delta/tables/dv_part", "delta/tables/map_id", "iceberg/tables/v3_dv_part", "iceberg/tables/posdel_avro"];
    for (number, table) in tables.iter().enumerate() {
        let table = repository().join("tests/data").join(table);
        let query =
            format!("SET datafusion.optimizer.repartition_file_min_size = 0; SELECT * FROM '{}'", table.display());
        let command = |out: &Path| {
            let mut command = tfr_sql();
            command
                .args([&query, "--null", "mask", "--shard-rows", "3", "--partitions", "3", "--quiet", "--out"])
                .arg(out);
            command
        };
        let [alone, together, plan] =
            ["alone", "together", "tfrplan"].map(|what| scratch.join(format!("{number}.{what}")));
        run(&mut command(&alone)).success();
        run(command(&together).arg("--plan").arg(&plan)).success();
        let file = fs::read(&plan).unwrap();
        let header: Value = serde_json::from_slice(file.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        for index in 0..header["tasks"].as_u64().unwrap() {
            run(&mut task(&plan, u32::try_from(index).unwrap())).success();
        }
        tool("finish", &plan).success();
        assert_same_set(&table.display().to_string(), &together, &alone);
    }
}

/// A plan keeps the parts of files that are divided: at places that a manifest lists, or where a scan will find records.
/// Both sides of the join have parts of the same files; each task reads one of them whole.
#[test]
fn tasks_read_parts_of_files_of_records() {
    let scratch = Scratch::default();
    let rows = "SELECT value AS a, concat('text ', value % 7) AS b FROM generate_series(1, 3000)";
    for (name, arguments) in [
        ("plain", &[][..]),
        ("gzip", &["--compression", "gzip"]),
        ("arrays", &["--record-format", "array_record"]),
        ("directories", &["--partition-by", "b"]),
    ] {
        run(tfr_sql().arg(rows).args(["--shards", "2", "--quiet", "--out"]).arg(scratch.join(name)).args(arguments))
            .success();
    }
    // Without a manifest.
    fs::create_dir(scratch.join("foreign")).unwrap();
    for shard in names(&scratch.join("plain")).iter().filter(|name| name.starts_with("part-")) {
        fs::copy(scratch.join("plain").join(shard), scratch.join("foreign").join(shard)).unwrap();
    }
    for name in ["plain", "gzip", "arrays", "directories", "foreign"] {
        let table = format!("t={}", scratch.join(name).display());
        for (number, query) in
            ["SELECT * FROM t", "SELECT l.a, r.b FROM t l JOIN t r ON l.a = r.a + 1"].iter().enumerate()
        {
            let query = format!("SET datafusion.optimizer.repartition_file_min_size = 1; {query}");
            let command = |out: &Path| {
                let mut command = tfr_sql();
                command.args([&query, "--table", &table, "--out"]).arg(out);
                command.args(["--shard-rows", "100", "--partitions", "3", "--quiet"]);
                command
            };
            let [alone, together] = ["alone", "together"].map(|what| scratch.join(format!("{name}-{number}-{what}")));
            run(&mut command(&alone)).success();
            let plan = scratch.join(format!("{name}-{number}.tfrplan"));
            run(command(&together).arg("--plan").arg(&plan)).success();
            for index in 0..3 {
                run(&mut task(&plan, index)).success();
            }
            tool("finish", &plan).success();
            assert_same_set(&format!("{name}: {query}"), &together, &alone);
        }
    }
}

/// The tasks agree on where the parts of a damaged file begin: the first one reads all of it, and fails.
#[test]
fn task_reports_damage_in_the_part_of_another() {
    let scratch = Scratch::default();
    let rows = "SELECT value AS a, repeat('x', 50) AS b FROM generate_series(1, 3000)";
    run(tfr_sql().arg(rows).args(["--shards", "1", "--quiet", "--out"]).arg(scratch.join("set"))).success();
    fs::create_dir(scratch.join("foreign")).unwrap();
    let mut bytes = fs::read(scratch.join("set/part-00000-of-00001.tfrecord")).unwrap();
    // A header in the second of three parts.
    let mut header = 0;
    while header < bytes.len() / 2 {
        header += 16 + u64::from_le_bytes(bytes[header..header + 8].try_into().unwrap()) as usize;
    }
    bytes[header + 8] ^= 1;
    fs::write(scratch.join("foreign/0.tfrecord"), bytes).unwrap();
    let table = format!("t={},infer_records=5", scratch.join("foreign").display());
    let query = "SET datafusion.optimizer.repartition_file_min_size = 1; SELECT * FROM t";
    let plan = scratch.join("damage.tfrplan");
    let mut command = tfr_sql();
    command.args([query, "--table", &table, "--out"]).arg(scratch.join("out")).arg("--plan").arg(&plan);
    run(command.args(["--shard-rows", "500", "--partitions", "3", "--quiet"])).success();
    let refused = run(&mut task(&plan, 0)).exits_with(1);
    assert!(refused.stderr.contains(&format!("byte {header}")), "{}", refused.stderr);
    run(&mut task(&plan, 1)).success();
    run(&mut task(&plan, 2)).success();
    assert!(tool("finish", &plan).exits_with(75).stderr.contains("task 0"));
}

/// Tables of which a plan does not keep everything are listed and compared by every task.
#[test]
fn task_rejects_new_files_of_tables_that_it_lists() {
    let job = Job::new();
    fs::create_dir(job.path("dates")).unwrap();
    // Its dates are in the hybrid calendar.
    let add = |name: &str| {
        fs::copy(repository().join("tests/data/calendar/spark2.parquet"), job.path("dates").join(name)).unwrap();
    };
    add("0.parquet");
    let plan = job.path("dates.tfrplan");
    let query = format!("SELECT * FROM '{}'", job.path("dates").display());
    let mut command = tfr_sql();
    command.arg(query).arg("--out").arg(job.path("out")).args(["--shard-rows", "9", "--quiet", "--plan"]).arg(&plan);
    run(&mut command).success();
    add("1.parquet");
    let refused = run(&mut task(&plan, 0)).exits_with(1);
    let expected = "1.parquet: changed since the tasks were planned: expected no such file, found ";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    tool("abandon", &plan).success();
}
