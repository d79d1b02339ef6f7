//! libFuzzer's entry to `fuzz::framer`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::framer::run(data));
