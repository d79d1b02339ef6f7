//! libFuzzer's entry to `fuzz::catalog`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::catalog::run(data));
