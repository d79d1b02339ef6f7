//! libFuzzer's entry to `fuzz::manifest`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::manifest::run(data));
