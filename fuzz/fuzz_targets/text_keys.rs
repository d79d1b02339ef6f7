//! libFuzzer's entry to `fuzz::text_keys`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::text_keys::run(data));
