//! `mkdir -p corpus/scan && cargo +nightly fuzz run scan corpus/scan seeds`, in `fuzz/`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/scan.rs"]
mod scan;

fuzz_target!(|data: &[u8]| scan::check(data));
