//! Formatting, lints, documentation, the order of layers, licences, advisories and the Helm chart: each
//! counts as one test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};
use xtask_common::tally::Tally;

use super::{TestError, compiler};
use crate::setup::CARGO_DENY;
use crate::{build, layers};

/// One check that a subcommand of cargo makes.
struct Check {
    name: &'static str,
    /// A subcommand that has to be installed.
    tool: Option<&'static str>,
    command: Command,
}

impl Check {
    fn new(name: &'static str, tool: Option<&'static str>, mut command: Command, arguments: &[&str]) -> Self {
        command.args(arguments);
        Self { name, tool, command }
    }
}

const CLIPPY: &str = "clippy";
const DOC: &str = "doc";
const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];
/// The features are for [`lint_what_is_compiled`].
const DOCUMENTED: [&str; 4] =
    ["--no-deps", "--document-private-items", "--features", "nodewarden-fuzz/as-tests"];

/// Lets another command of cargo do what `cargo clippy -- -D warnings` does with the crates that it compiles,
/// by the variables that clippy sets. A crate that clippy has checked before is not checked again: cargo
/// keeps these apart from what the compiler alone has checked.
///
/// # Errors
/// Why clippy can't be used.
fn lint_what_is_compiled(layout: &Layout, command: &mut Command) -> Result<(), String> {
    let driver = sysroot(layout)?.join("bin/clippy-driver");
    if !driver.exists() {
        return Err(format!("{} does not exist", driver.display()));
    }
    command.env("RUSTC_WORKSPACE_WRAPPER", driver).env(CLIPPY_ARGS.0, CLIPPY_ARGS.1);
    Ok(())
}

/// The same for the build of the unit tests, which also checks the documents of what it compiles: see
/// [`count_documents`].
///
/// # Errors
/// Why clippy or rustdoc can't be used.
pub fn lint_and_document_what_is_compiled(layout: &Layout, command: &mut Command) -> Result<(), String> {
    compiler::compile_by(layout, command, &sysroot(layout)?)?;
    command.env(CLIPPY_ARGS.0, CLIPPY_ARGS.1);
    Ok(())
}

/// What `cargo clippy -- -D warnings` sets.
const CLIPPY_ARGS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// The toolchain's folder, if it has clippy.
fn sysroot(layout: &Layout) -> Result<PathBuf, String> {
    if let Some(reason) = missing(layout, "clippy") {
        return Err(reason);
    }
    let sysroot = process::capture(layout.command("rustc").args(["--print", "sysroot"]));
    Ok(PathBuf::from(sysroot.map_err(|error| error.to_string())?.trim()))
}

/// All packages but the kernel programs.
const HOST: [&str; 3] = ["--workspace", "--exclude", "nodewarden-ebpf"];

/// Checks the code: formatting, the kernel programs' lints and documents, and layers. What lints deny is in
/// the root Cargo.toml. A check whose program is not on this machine counts as skipped.
///
/// # Errors
/// When one can't be started, or the layers can't be read.
pub fn code(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let kernel = |subcommand| build::kernel_cargo(layout, subcommand);
    let checks = [
        Check::new("fmt", Some("fmt"), cargo(layout, "fmt"), &["--all", "--check"]),
        Check::new("clippy_kernel_programs", Some("clippy"), kernel("clippy"), &DENY_WARNINGS),
        Check::new("doc_kernel_programs", None, kernel("doc"), &["--no-deps", "--document-private-items"]),
    ];
    run_all(layout, checks, tally)?;
    layers(layout, tally)
}

/// Checks the lints of all packages but the kernel programs, for runs whose unit tests are not built with
/// `unit::Scope::lint`.
///
/// # Errors
/// When cargo can't be started.
pub fn lints(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let arguments = [&HOST[..], &["--all-targets"], &DENY_WARNINGS].concat();
    run_all(layout, [Check::new(CLIPPY, Some("clippy"), cargo(layout, "clippy"), &arguments)], tally)
}

/// Counts the check that [`lints`] makes as passed or failed, when the build of the unit tests made it.
pub fn count_lints(good: bool, tally: &mut Tally) {
    count(&format!("check::{CLIPPY}"), good, tally);
}

/// Counts that check as skipped for this reason.
pub fn skip_lints(reason: String, tally: &mut Tally) {
    skip(&format!("check::{CLIPPY}"), reason, tally);
}

/// Checks that the documents of the code can be made: every item that must have one has one, and every link
/// in them leads somewhere. After [`lints`] it is quick: that reads most of the same.
///
/// # Errors
/// When cargo can't be started.
pub fn documents(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let mut documents = cargo(layout, "doc");
    // Not possible: then it checks by the compiler alone.
    drop(lint_what_is_compiled(layout, &mut documents));
    // Private items too: their links are read in the source, where most of them are.
    let check = Check::new(DOC, None, documents, &[&HOST[..], &DOCUMENTED].concat());
    run_all(layout, [check], tally)
}

/// Counts the check that [`documents`] makes, when the build of the unit tests made it of the crates with
/// these roots, and shows what is wrong.
pub fn count_documents(layout: &Layout, roots: &[PathBuf], tally: &mut Tally) {
    let mut good = true;
    for root in roots {
        let said = compiler::result(layout, root);
        let said = said.unwrap_or_else(|| "rustdoc has not checked it\n".to_owned());
        if !said.is_empty() {
            print!("{}: {said}", layout.short(root).display());
            good = false;
        }
    }
    count(&format!("check::{DOC}"), good, tally);
}

fn cargo(layout: &Layout, subcommand: &str) -> Command {
    let mut command = layout.cargo();
    command.arg(subcommand);
    command
}

fn run_all<const N: usize>(layout: &Layout, checks: [Check; N], tally: &mut Tally) -> Result<(), TestError> {
    for mut check in checks {
        let name = format!("check::{}", check.name);
        match check.tool.and_then(|tool| missing(layout, tool)) {
            Some(reason) => skip(&name, reason, tally),
            None => run_one(&name, &mut check.command, tally)?,
        }
    }
    Ok(())
}

/// Makes the checks of the locked dependencies, which need cargo-deny.
///
/// # Errors
/// When it can't be started.
pub fn dependencies(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    allowed(layout, tally)?;
    advisories(layout, tally)
}

/// Renders the Helm chart with Helm's own library, and compares the plain manifests with it.
///
/// # Errors
/// When it can't be written or Helm not be started.
pub fn chart(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let name = "check::chart";
    if !layout.helm().join("helm_python").is_dir() {
        skip(name, "Helm could not be installed".to_owned(), tally);
        return Ok(());
    }
    let folder = layout.target.join("chart");
    files::remove(&folder)?;
    for (path, data) in nodewarden_dist::chart::files().files() {
        let path = folder.join(path);
        files::create_folder(path.parent().unwrap_or(&folder))?;
        files::write(&path, data)?;
    }
    let mut python = layout.command("python3");
    python.env("PYTHONPATH", layout.helm()).arg("deploy/chart/check.py");
    python.arg(folder.join("nodewarden")).arg("deploy");
    if env::var_os("NODEWARDEN_WRITE_DOCS").is_some() {
        python.arg("--write");
    }
    Ok(run_one(name, &mut python, tally)?)
}

/// Why a subcommand of cargo can't be used.
fn missing(layout: &Layout, subcommand: &str) -> Option<String> {
    // rustup's stand-in for a component that is missing knows no version.
    let probe = process::capture(layout.cargo().args([subcommand, "--version"]));
    probe.is_err().then(|| format!("cargo-{subcommand} is not installed"))
}

/// cargo-deny, which `setup` compiles; it reports errors only.
fn cargo_deny(layout: &Layout, arguments: &[&str]) -> Command {
    let mut command = layout.command(CARGO_DENY.program(layout));
    command.args(["--log-level", "error"]).args(arguments);
    command
}

/// Why cargo-deny can't be used.
fn no_cargo_deny(layout: &Layout) -> Option<String> {
    (!CARGO_DENY.is_there(layout)).then(|| format!("{} could not be installed", CARGO_DENY.name))
}

/// Compares the licences, versions and sources of the locked dependencies with `deny.toml`.
fn allowed(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let name = "check::dependencies";
    match no_cargo_deny(layout) {
        Some(reason) => skip(name, reason, tally),
        None => run_one(name, &mut cargo_deny(layout, &["check", "licenses", "bans", "sources"]), tally)?,
    }
    Ok(())
}

/// Compares the locked dependencies with the published advisories, which cargo-deny downloads.
fn advisories(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let name = "check::advisories";
    if let Some(reason) = no_cargo_deny(layout) {
        skip(name, reason, tally);
        return Ok(());
    }
    let fetched = process::capture(&mut cargo_deny(layout, &["fetch", "db"]));
    if let Err(error) = fetched {
        match database() {
            Some(folder) => {
                println!(
                    "check::advisories: {error}\n    using the database of an earlier day in {}",
                    folder.display()
                );
            }
            None => {
                skip(name, format!("the database of advisories can't be fetched: {error}"), tally);
                return Ok(());
            }
        }
    }
    let arguments = ["check", "--disable-fetch", "advisories"];
    Ok(run_one(name, &mut cargo_deny(layout, &arguments), tally)?)
}

/// Where cargo-deny keeps its databases, if it has one (its book, "The [advisories] section").
fn database() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo")))?;
    let folder = home.join("advisory-dbs");
    fs::read_dir(&folder).ok()?.flatten().any(|entry| entry.path().is_dir()).then_some(folder)
}

/// Refuses what depends on or imports a layer above it.
fn layers(layout: &Layout, tally: &mut Tally) -> Result<(), TestError> {
    let violations = layers::violations(layout)?;
    violations.iter().for_each(|violation| println!("{violation}"));
    count("check::layers", violations.is_empty(), tally);
    Ok(())
}

fn run_one(name: &str, command: &mut Command, tally: &mut Tally) -> Result<(), CommandError> {
    let good = match process::show(command) {
        Ok(()) => true,
        Err(CommandError::Failed { .. }) => false,
        Err(error) => return Err(error),
    };
    count(name, good, tally);
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

fn skip(name: &str, reason: String, tally: &mut Tally) {
    // One line, also of an error with the last lines of a program.
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    println!("test {name} ... skipped: {reason}");
    tally.skip(name, reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_counts_and_does_not_stop_the_others() {
        let mut tally = Tally::default();
        run_one("a", &mut Command::new("true"), &mut tally).unwrap();
        run_one("b", &mut Command::new("false"), &mut tally).unwrap();
        run_one("c", &mut Command::new("/no/such/program"), &mut tally).unwrap_err();
        assert_eq!(tally.summary(), "FAILED: b\n1 passed, 1 failed, 0 skipped\n");
    }

    #[test]
    fn a_reason_is_one_line() {
        let mut tally = Tally::default();
        skip("a", "`x` failed\n    because".to_owned(), &mut tally);
        assert_eq!(tally.summary().lines().next(), Some("skipped: a: `x` failed because"));
    }
}
