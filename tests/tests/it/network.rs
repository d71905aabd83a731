//! No command opens a connection unless it is given a URL. A library that the loader puts before the C library records
//! each internet socket that a command asks for.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tfr_tests::{Scratch, repository, run, tfr_sql};

const RECORDER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
    if (domain == AF_INET || domain == AF_INET6) {
        FILE *sockets = fopen(getenv("SOCKETS"), "a");
        fprintf(sockets, "socket\n");
        fclose(sockets);
    }
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    return next(domain, type, protocol);
}
"#;

/// Builds the library. Whoever builds the command has a C compiler.
fn recorder(scratch: &Scratch) -> PathBuf {
    let library = scratch.join("recorder.so");
    let source = scratch.text("recorder.c", RECORDER);
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl")).success();
    library
}

#[cfg(target_os = "linux")]
#[test]
fn network_is_not_used_without_a_url() {
    let scratch = Scratch::default();
    let (recorder, sockets) = (recorder(&scratch), scratch.join("sockets"));
    let command = |arguments: &[&str]| {
        let mut command = tfr_sql();
        command.current_dir(scratch.path()).args(arguments);
        command.env("LD_PRELOAD", &recorder).env("SOCKETS", &sockets);
        command
    };
    let trips = repository().join("examples/data/trips.parquet");
    let query = format!("SELECT * FROM '{}'", trips.display());
    for arguments in [
        &[query.as_str(), "--dry-run", "--out", "set"][..],
        &[query.as_str(), "--out", "set", "--shards", "2", "--shuffle", "--emit", "tfds,stats"],
        &["SELECT count(*) FROM 'set'"],
        &["verify", "set"],
        &["head", "set"],
        &["describe", "set", "--replace"],
        &["schema", "set"],
        &["doctor"],
    ] {
        run(&mut command(arguments)).success();
        assert!(!sockets.exists(), "{arguments:?}");
    }
    // The recorder sees the sockets of this library's HTTP client. Nothing listens on port 1.
    run(&mut command(&["SELECT * FROM 'http://127.0.0.1:1/a.csv'"])).exits_with(1);
    assert!(fs::read_to_string(&sockets).is_ok_and(|sockets| !sockets.is_empty()));
}
