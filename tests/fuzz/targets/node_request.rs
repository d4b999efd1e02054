//! Runs `nodewarden_fuzz::node_request` with inputs of libFuzzer's making.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nodewarden_fuzz::node_request(input));
