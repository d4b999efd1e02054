//! Runs `nodewarden_fuzz::cpu_manager_state` with inputs of libFuzzer's making.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nodewarden_fuzz::cpu_manager_state(input));
