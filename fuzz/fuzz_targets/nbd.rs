//! libFuzzer's entry to `fuzz::nbd`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::nbd::run(data));
