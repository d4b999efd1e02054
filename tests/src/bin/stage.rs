//! `nodewarden-stage`: the agent with pods on a private container runtime, to look at or for hours.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::stage::main()
}
