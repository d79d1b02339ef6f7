//! libFuzzer's entry to `fuzz::cdb`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::cdb::run(data));
