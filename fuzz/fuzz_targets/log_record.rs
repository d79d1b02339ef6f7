//! libFuzzer's entry to `fuzz::log_record`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::log_record::run(data));
