//! libFuzzer's entry to `fuzz::iometer_results`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::iometer_results::run(data));
