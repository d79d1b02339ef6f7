//! libFuzzer's entry to `fuzz::list`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::list::run(data));
