//! libFuzzer's entry to `fuzz::initiator_session`, where the target is described.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::initiator_session::run(data));
