//! `mkdir -p corpus/example && cargo +nightly fuzz run example corpus/example seeds/example`, in `fuzz/`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/example.rs"]
mod example;
#[path = "../checks/records.rs"]
mod records;

fuzz_target!(|data: &[u8]| example::check(data));
