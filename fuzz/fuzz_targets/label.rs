//! libFuzzer's entry to `fuzz::label`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::label::run(data));
