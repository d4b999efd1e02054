//! `nodewarden-bench`: figures with their bounds, measured on this machine (and the workers and servers it starts).

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::worker::run_if_asked()
        .or_else(nodewarden_tests::serve::run_if_asked)
        .unwrap_or_else(nodewarden_tests::bench::main)
}
