//! `nodewarden-stage`: runs the agent with pods on a private container runtime, interactively or as a soak
//! test.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::stage::main()
}
