//! libFuzzer's entry to `fuzz::node`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::node::run(data));
