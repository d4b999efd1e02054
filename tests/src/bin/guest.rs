//! `nodewarden-guest`: what runs in a virtual machine in place of, or below, an init system.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::guest::main()
}
