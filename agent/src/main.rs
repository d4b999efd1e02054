//! The `nodewarden` binary: arguments to subcommands, nothing else.

fn main() {}
