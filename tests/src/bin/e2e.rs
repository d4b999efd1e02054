//! `nodewarden-e2e`: runs the end-to-end tests. The same binary also runs as the workers and servers that a
//! test starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::worker::run_if_asked()
        .or_else(nodewarden_tests::serve::run_if_asked)
        .or_else(nodewarden_tests::fixture::run_stand_in_runtime)
        .unwrap_or_else(nodewarden_tests::e2e::main)
}
