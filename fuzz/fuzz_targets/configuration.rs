#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mainstay::fuzzing::configuration(input));
