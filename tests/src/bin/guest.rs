//! `nodewarden-guest`: runs a job in a virtual machine, either as process 1 or as a service of the init
//! system.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden_tests::guest::main()
}
