#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mainstay_gateway::fuzzing::request_state(input));
