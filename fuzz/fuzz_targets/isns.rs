//! libFuzzer's entry to `fuzz::isns`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::isns::run(data));
