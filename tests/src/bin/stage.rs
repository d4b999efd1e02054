//! `nodewarden-stage`: runs the agent with pods on a private container runtime, interactively or as a soak
//! test.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::worker::run_if_asked()
        .or_else(nodewarden_tests::serve::run_if_asked)
        .or_else(nodewarden_tests::fixture::run_stand_in_runtime)
        .unwrap_or_else(nodewarden_tests::stage::main)
}
