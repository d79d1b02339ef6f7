//! libFuzzer's entry to `fuzz::initiator_login`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::initiator_login::run(data));
