//! `nodewarden-e2e`: the end-to-end tests (and the workers and servers they start).

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::worker::run_if_asked()
        .or_else(nodewarden_tests::serve::run_if_asked)
        .unwrap_or_else(nodewarden_tests::e2e::main)
}
