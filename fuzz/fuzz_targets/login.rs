//! libFuzzer's entry to `fuzz::login`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::login::run(data));
