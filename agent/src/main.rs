//! The `nodewarden` binary: arguments to subcommands, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewarden::cli::main()
}
