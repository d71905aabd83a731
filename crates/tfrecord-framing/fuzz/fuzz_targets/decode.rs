//! `mkdir -p corpus/decode && cargo +nightly fuzz run decode corpus/decode seeds`, in `fuzz/`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/decode.rs"]
mod decode;

fuzz_target!(|data: &[u8]| decode::check(data));
