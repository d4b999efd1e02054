//! `cargo xtask`: sets up, builds, runs, tests and measures nodewarden.
//!
//! Every command first installs what it needs and finds missing (see [`setup`]), so a fresh machine with
//! rustup, gcc and apt needs no other preparation.

mod bench;
mod book;
mod build;
#[cfg(test)]
mod comments;
mod dist;
mod fuzz;
mod kernel_object;
mod layers;
mod pictures;
mod run;
mod setup;
mod soak;
mod test;
#[cfg(test)]
mod version;
mod vm;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use xtask_common::layout::Layout;

/// Builds, runs, tests and measures nodewarden. Start with `cargo xtask run` (as root) or `cargo xtask test`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
#[command(after_help = "Every command installs what it needs first, into the target directory and the Rust \
    toolchain; nothing else on the machine is changed. The second time there is nothing left to do.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what is missing: the compiler's library source, bpf-linker, programs for the tests.
    Setup(setup::Args),
    /// Build the kernel programs and the agent that carries them: target/debug/nodewarden.
    Build(build::Args),
    /// Build, then run the agent in the foreground with three pods on a containerd of its own (needs root).
    Run(run::Args),
    /// Run the checks, the unit tests and the end-to-end tests, and count them.
    Test(test::Args),
    /// Run the tests on other kernels, in virtual machines.
    Vm(nodewarden_vm::Args),
    /// Make the shipped binary, packages, an image, a bill of materials and the provenance: target/dist.
    Dist(dist::Args),
    /// Build the documents as a book: target/book/html.
    Book(book::Args),
    /// Make the pictures that the documents show: docs/pictures.
    Pictures(pictures::Args),
    /// Measure on this machine and compare with the bounds in docs/SPECIFICATION.md.
    Bench(bench::Args),
    /// Feed everything that reads what others write with inputs that are made to break it.
    Fuzz(fuzz::Args),
    /// Run the agent through changes, crashes and restarts for as long as you like (needs root, but not in a
    /// guest).
    Soak(soak::Args),
}

fn main() -> ExitCode {
    if let Some(compiled) = test::compiler::run() {
        return compiled;
    }
    let cli = Cli::parse();
    let layout = match Layout::find(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        Ok(layout) => layout,
        Err(error) => return report(&error),
    };
    let done = match cli.command {
        Command::Setup(args) => setup::run(&layout, &args).map_err(Into::into),
        Command::Build(args) => build::run(&layout, &args).map_err(Into::into),
        Command::Run(args) => run::run(&layout, &args).map_err(Into::into),
        Command::Test(args) => return test::run(&layout, &args).unwrap_or_else(|error| report(&error)),
        Command::Vm(args) => return vm::run(&layout, &args).unwrap_or_else(|error| report(&error)),
        Command::Dist(args) => dist::run(&layout, &args).map_err(Into::into),
        Command::Book(args) => book::run(&layout, &args).map_err(Into::into),
        Command::Pictures(args) => pictures::run(&layout, &args).map_err(Into::into),
        Command::Bench(args) => bench::run(&layout, &args).map_err(Into::into),
        Command::Fuzz(args) => return fuzz::run(&layout, &args).unwrap_or_else(|error| report(&error)),
        Command::Soak(args) => return soak::run(&layout, &args).unwrap_or_else(|error| report(&error)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err::<(), Box<dyn Error>>(error) => report(error.as_ref()),
    }
}

/// Prints the error and each of its causes.
fn report(error: &dyn Error) -> ExitCode {
    eprintln!("\nerror: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}
