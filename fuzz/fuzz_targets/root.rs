//! libFuzzer's entry to `fuzz::root`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::root::run(data));
