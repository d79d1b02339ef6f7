//! libFuzzer's entry to `fuzz::pdu`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pdu::run(data));
