//! Formatting, lints, the order of layers and licences: each counts as one test.

use std::process::Command;

use super::TestError;
use crate::layers;
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};
use xtask_common::tally::Tally;

/// Each check: the cargo subcommand that makes it, and its arguments.
const CHECKS: [(&str, &[&str]); 3] = [
    ("fmt", &["--all", "--check"]),
    ("clippy", &["--workspace", "--exclude", "nodewarden-ebpf", "--all-targets", "--", "-D", "warnings"]),
    // Without advisories, whose database comes from the network.
    ("deny", &["--log-level", "error", "check", "licenses", "bans", "sources"]),
];

/// Makes the checks that this machine has the programs for.
///
/// # Errors
/// When one can't be started.
pub fn run(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    for (subcommand, arguments) in CHECKS {
        let name = format!("check::{subcommand}");
        // rustup's stand-in for a component that is missing can't tell its version.
        if process::capture(layout.cargo().args([subcommand, "--version"])).is_err() {
            let reason = format!("cargo-{subcommand} is not installed");
            println!("test {name} ... skipped: {reason}");
            tally.skip(name, reason);
        } else {
            check(&name, layout.cargo().arg(subcommand).args(arguments), tally)?;
        }
    }
    layers(layout, tally)
}

/// Refuses what depends on or imports a layer above it.
fn layers(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let violations = layers::violations(layout)?;
    violations.iter().for_each(|violation| println!("{violation}"));
    count("check::layers", violations.is_empty(), tally);
    Ok(())
}

fn count(name: &str, good: bool, tally: &mut Tally) {
    if good {
        println!("test {name} ... ok");
        tally.pass();
    } else {
        println!("test {name} ... FAILED");
        tally.fail(name);
    }
}

fn check(name: &str, command: &mut Command, tally: &mut Tally) -> Result<(), CommandError> {
    let good = match process::show(command) {
        Ok(()) => true,
        Err(CommandError::Failed { .. }) => false,
        Err(error) => return Err(error),
    };
    count(name, good, tally);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_counts_and_does_not_stop_the_others() {
        let mut tally = Tally::default();
        check("a", &mut Command::new("true"), &mut tally).unwrap();
        check("b", &mut Command::new("false"), &mut tally).unwrap();
        check("c", &mut Command::new("/no/such/program"), &mut tally).unwrap_err();
        assert_eq!(tally.summary(), "FAILED: b\n1 passed, 1 failed, 0 skipped\n");
    }
}
