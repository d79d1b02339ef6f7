//! libFuzzer's entry to `fuzz::application_client`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::application_client::run(data));
