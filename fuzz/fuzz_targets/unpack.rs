//! libFuzzer's entry to `fuzz::unpack`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::unpack::run(data));
