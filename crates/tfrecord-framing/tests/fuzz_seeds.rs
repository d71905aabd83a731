//! Runs the checks of the fuzz targets over the seeds.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "what a failed test has printed is shown")]

use std::{fs, path::Path};

#[path = "../fuzz/checks/decode.rs"]
mod decode;
#[path = "../fuzz/checks/scan.rs"]
mod scan;

/// Checks every seed. On failure, the last seed printed is the culprit.
fn check_seeds(check: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
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
fn decode_holds_for_every_seed() {
    check_seeds(decode::check);
}

#[test]
fn scan_holds_for_every_seed() {
    check_seeds(scan::check);
}
