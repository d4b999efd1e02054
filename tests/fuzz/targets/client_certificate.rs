//! Runs `nodewarden_fuzz::client_certificate` with inputs of libFuzzer's making.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nodewarden_fuzz::client_certificate(input));
