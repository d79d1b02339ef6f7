//! libFuzzer's entry to `fuzz::icf`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::icf::run(data));
