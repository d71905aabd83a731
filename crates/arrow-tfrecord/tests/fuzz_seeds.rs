//! The checks of the fuzz targets, over the seeds.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "what a failed test has printed is shown")]

use std::{fs, path::Path};

#[path = "../fuzz/checks/example.rs"]
mod example;
#[path = "../fuzz/checks/infer.rs"]
mod infer;
#[path = "../fuzz/checks/records.rs"]
mod records;

/// Checks every seed of a target; a failure is that of the seed named last.
fn check_seeds(target: &str, check: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut checked = 0;
    for seed in fs::read_dir(seeds).unwrap() {
        let path = seed.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(path).unwrap());
        checked += 1;
    }
    assert!(checked > 30);
}

#[test]
fn example_holds_for_every_seed() {
    check_seeds("example", example::check);
}

#[test]
fn infer_holds_for_every_seed() {
    check_seeds("infer", infer::check);
}
