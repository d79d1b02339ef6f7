//! libFuzzer's entry to `fuzz::stream`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::stream::run(data));
