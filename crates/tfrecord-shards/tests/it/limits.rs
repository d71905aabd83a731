//! Full disks, few file handles, mount points, a target that somebody works in.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{Capabilities, SaveMode, SetState, ShardedWriterBuilder, Sharding, check};

use crate::child::{Child, arguments, assert_success};
use crate::support::{begin, count, ids, names, whole, write};

/// Writes a set that needs more than the megabyte it may have.
fn overfill(out: &Path, compression: Compression) -> tfrecord_shards::Error {
    let batch = ids((0..400_000).map(|id: i64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)));
    let builder = ShardedWriterBuilder::new(batch.schema())
        .with_sharding(count(2))
        .with_compression(compression, Level::default())
        .with_mode(SaveMode::Overwrite);
    let mut writer = builder.build(out).unwrap();
    writer.write(&batch).and_then(|()| writer.finish()).unwrap_err()
}

#[test]
#[ignore = "runs out of disk, as the child of the other tests"]
fn run_on_a_full_disk() {
    let (out, argument) = arguments();
    let error = overfill(&out, argument.parse().unwrap());
    assert_eq!(
        error.to_string(),
        format!("{}: cannot write", fs::canonicalize(out.parent().unwrap()).unwrap().join("shards").display())
    );
}

#[test]
fn full_disk_leaves_nothing() {
    for compression in ["none", "gzip", "zlib"] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        // Blocks of 512 or 1024 bytes, as the shell likes.
        let child = Child::new("limits::run_on_a_full_disk", &out, compression);
        assert_success(&child.run_in_shell("trap '' XFSZ; ulimit -f 1000"));
        assert_eq!(names(dir.path()), [""; 0]);

        write(&out, SaveMode::Error, "old").unwrap();
        assert_success(&child.run_in_shell("trap '' XFSZ; ulimit -f 1000"));
        assert_eq!(whole(&out).as_deref(), Some("old"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

/// Runs a child whose target is a mount point; not where mounting is not allowed.
fn run_on_a_mount_point(test: &'static str, mount: &str) {
    if !Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mount namespaces here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    fs::create_dir(&out).unwrap();
    // The shell starts another one, in a namespace where it may mount.
    let script = format!("mount {mount} \"$OUT\"; exec \"$0\" \"$@\"");
    let child = Child::new(test, &out, "");
    assert_success(
        &child.run_in_shell(&format!("set -- sh -ec '{script}' \"$0\" \"$@\"; set -- -rm \"$@\"; exec unshare \"$@\"")),
    );
}

#[test]
fn full_mount_point_is_left_unchanged() {
    run_on_a_mount_point("limits::run_on_a_full_mount_point", "-t tmpfs -o size=1m none");
}

#[test]
#[ignore = "needs a mount point, as the child of another test"]
fn run_on_a_full_mount_point() {
    let (out, _) = arguments();
    overfill(&out, Compression::None);
    assert_eq!(names(&out), [""; 0]);
    write(&out, SaveMode::Error, "old").unwrap();
    overfill(&out, Compression::Gzip);
    assert_eq!(whole(&out).as_deref(), Some("old"));
}

#[test]
fn mount_point_is_written_in_place() {
    run_on_a_mount_point("limits::run_in_place", "-t tmpfs none");
}

#[test]
fn bind_mount_is_written_in_place() {
    run_on_a_mount_point("limits::run_in_place", "--bind \"$(mktemp -d -p \"$OUT\"/..)\"");
}

#[test]
fn target_in_a_read_only_directory_is_written_in_place() {
    if !Command::new("setpriv").args(["--reuid=65534", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: cannot become another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let child = Child::new("limits::run_in_place", dir.path().join("shards"), "");
    let setup = "mkdir \"$OUT\"; chmod 777 \"$OUT\"; chmod 555 \"$OUT\"/..; set -- --reuid=65534 \"$0\" \"$@\"; exec setpriv \"$@\"";
    assert_success(&child.run_in_shell(setup));
}

#[test]
#[ignore = "needs a target that cannot be renamed, as the child of other tests"]
fn run_in_place() {
    let (out, _) = arguments();
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    assert!(commit.create_shard(0, 0).unwrap().path().starts_with(fs::canonicalize(&out).unwrap()));
    drop(commit);
    for (mode, tag) in [(SaveMode::Error, "old"), (SaveMode::Overwrite, "new")] {
        write(&out, mode, tag).unwrap();
        assert_eq!(whole(&out).as_deref(), Some(tag));
    }
    assert_eq!(names(&out).len(), 4);
}

#[test]
fn process_inside_the_target_sees_the_set() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let child = Child::new("limits::run_from_inside", &out, "");
    assert_success(&child.run_in_shell("mkdir -p \"$OUT\"; cd \"$OUT\""));
}

#[test]
#[ignore = "needs a working directory of its own, as the child of another test"]
fn run_from_inside() {
    let (out, _) = arguments();
    assert_eq!(env::current_dir().unwrap(), fs::canonicalize(out).unwrap());
    for (mode, tag) in [(SaveMode::Error, "old"), (SaveMode::Overwrite, "new")] {
        write(Path::new("."), mode, tag).unwrap();
        assert_eq!(whole(Path::new(".")).as_deref(), Some(tag));
    }
}

#[test]
fn small_shards_do_not_use_up_file_handles() {
    let dir = tempfile::tempdir().unwrap();
    let child = Child::new("limits::run_with_few_handles", dir.path().join("shards"), "");
    assert_success(&child.run_in_shell("ulimit -n 64"));
}

#[test]
#[ignore = "needs a limit, as the child of another test"]
fn run_with_few_handles() {
    let (out, _) = arguments();
    let batch = ids(0..200);
    let builder = ShardedWriterBuilder::new(batch.schema()).with_sharding(Sharding::Rows(1));
    let mut writer = builder.clone().build(&out).unwrap();
    writer.write(&batch).unwrap();
    assert_eq!(writer.finish().unwrap().totals.shards, 200);

    let many = builder.with_sharding(count(100)).with_mode(SaveMode::Overwrite);
    many.build(&out).unwrap_err();
    assert!(matches!(check(&out).unwrap(), SetState::Whole(manifest) if manifest.totals.shards == 200));
}
