//! `mkdir -p corpus/infer && cargo +nightly fuzz run infer corpus/infer seeds/infer`, in `fuzz/`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/infer.rs"]
mod infer;
#[path = "../checks/records.rs"]
mod records;

fuzz_target!(|data: &[u8]| infer::check(data));
