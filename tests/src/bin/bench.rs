//! `nodewarden-bench`: measures figures on this machine and compares them with their bounds. The same binary
//! also runs as the workers and servers that a bench starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::worker::run_if_asked()
        .or_else(nodewarden_tests::serve::run_if_asked)
        .or_else(nodewarden_tests::fixture::run_stand_in_runtime)
        .unwrap_or_else(nodewarden_tests::bench::main)
}
