//! xtask in the place of the compiler (cargo's RUSTC_WORKSPACE_WRAPPER), while the unit tests are built:
//! clippy compiles each of our packages, and rustdoc checks the documents of each whose tests are compiled.
//!
//! `cargo doc` checks the same, and has the compiler read every dependency once more for it: several minutes
//! of a CPU.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use xtask_common::layout::Layout;

/// The environment variable that has this program take the compiler's place: the toolchain's folder of
/// programs.
const PROGRAMS: &str = "NODEWARDEN_XTASK_COMPILES_WITH";
/// Where the results of rustdoc go.
const RESULTS: &str = "NODEWARDEN_XTASK_DOCUMENTS";

/// Has `cargo` compile by this program, with the clippy and rustdoc of the toolchain at `sysroot`.
///
/// # Errors
/// Why this program or the toolchain's can't be used.
pub fn compile_by(layout: &Layout, cargo: &mut Command, sysroot: &Path) -> Result<(), String> {
    let programs = sysroot.join("bin");
    for program in ["clippy-driver", "rustdoc"].map(|name| programs.join(name)) {
        if !program.exists() {
            return Err(format!("{} does not exist", program.display()));
        }
    }
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    cargo.env("RUSTC_WORKSPACE_WRAPPER", own).env(PROGRAMS, programs).env(RESULTS, results(layout));
    Ok(())
}

/// Where the results of rustdoc are.
fn results(layout: &Layout) -> PathBuf {
    layout.target.join("documents")
}

/// What rustdoc said of the crate whose root is the file `source`, when its tests were last compiled by this
/// program: empty if all is well, `None` if they never were.
pub fn result(layout: &Layout, source: &Path) -> Option<String> {
    let source = source.strip_prefix(&layout.root).unwrap_or(source);
    fs::read_to_string(results(layout).join(file_name(source))).ok()
}

fn file_name(source: &Path) -> String {
    source.to_string_lossy().replace('/', "-")
}

/// Does the compiler's work if cargo has started this program for that; `None` if it has not.
pub fn run() -> Option<ExitCode> {
    let programs = PathBuf::from(env::var_os(PROGRAMS)?);
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let mut clippy = Command::new(programs.join("clippy-driver"));
    clippy.args(&arguments);
    let text = arguments.iter().map(|argument| argument.to_str()).collect::<Option<Vec<_>>>();
    let document = text.as_deref().and_then(documented);
    let Some((results, (source, options))) = env::var_os(RESULTS).zip(document) else {
        // Comes back only if it can't be started.
        return Some(not_started(&clippy.exec()));
    };
    match clippy.status() {
        Ok(status) if status.success() => {}
        // It has said why.
        Ok(_) => return Some(ExitCode::FAILURE),
        Err(error) => return Some(not_started(&error)),
    }
    let said = document_with(&programs.join("rustdoc"), source, &options);
    let folder = Path::new(&results);
    let saved =
        fs::create_dir_all(folder).and_then(|()| fs::write(folder.join(file_name(Path::new(source))), said));
    if let Err(error) = saved {
        // Without a result the check fails.
        eprintln!("cannot write below {}: {error}", folder.display());
    }
    Some(ExitCode::SUCCESS)
}

fn not_started(error: &io::Error) -> ExitCode {
    eprintln!("cannot start clippy-driver: {error}");
    ExitCode::FAILURE
}

/// Runs rustdoc, and returns what it says: nothing if all is well.
fn document_with(rustdoc: &Path, source: &str, options: &[&str]) -> String {
    let mut command = Command::new(rustdoc);
    command.arg(source).args(options).args(["--document-private-items", "--check", "-Z", "unstable-options"]);
    // `--check` is unstable; this lets the stable rustdoc do it, for this call alone.
    let output = command.env("RUSTC_BOOTSTRAP", "1").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => String::new(),
        Ok(output) => {
            format!("rustdoc ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => format!("cannot start rustdoc: {error}\n"),
    }
}

/// The root of a crate whose tests are to be compiled with these arguments, and what of them is for rustdoc.
/// Every library and program of ours has its tests compiled exactly once. `None` for other compilations.
fn documented<'a>(arguments: &[&'a str]) -> Option<(&'a str, Vec<&'a str>)> {
    /// Followed by their value.
    const TAKEN: [&str; 5] = ["--crate-name", "--cfg", "--check-cfg", "--extern", "-L"];
    let mut options = Vec::new();
    let (mut source, mut tests) = (None, false);
    let mut rest = arguments.iter().copied();
    while let Some(argument) = rest.next() {
        if TAKEN.contains(&argument) {
            options.extend([argument, rest.next()?]);
        } else if argument.starts_with("--edition=") || argument.contains("=rustdoc::") {
            options.push(argument);
        } else if argument == "--test" {
            tests = true;
        } else if argument.ends_with(".rs") && !argument.starts_with('-') {
            source = Some(argument);
        }
    }
    Some((source.filter(|_| tests)?, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGUMENTS: [&str; 22] = [
        "/t/bin/rustc",
        "--crate-name",
        "nodewarden_qos",
        "--edition=2024",
        "agent/resources/qos/src/lib.rs",
        "--error-format=json",
        "--emit=dep-info,link",
        "-C",
        "lto=off",
        "--warn=clippy::todo",
        "--deny=rustdoc::broken_intra_doc_links",
        "--test",
        "--cfg",
        "feature=\"testing\"",
        "-C",
        "metadata=8a82105ec3b9b8c2",
        "--out-dir",
        "/w/target/debug/deps",
        "-L",
        "dependency=/w/target/debug/deps",
        "--extern",
        "thiserror=/w/target/debug/deps/libthiserror-6c.rlib",
    ];

    #[test]
    fn rustdoc_reads_what_the_tests_are_compiled_of() {
        let (source, options) = documented(&ARGUMENTS).unwrap();
        assert_eq!(source, "agent/resources/qos/src/lib.rs");
        let expected = [
            "--crate-name",
            "nodewarden_qos",
            "--edition=2024",
            "--deny=rustdoc::broken_intra_doc_links",
            "--cfg",
            "feature=\"testing\"",
            "-L",
            "dependency=/w/target/debug/deps",
            "--extern",
            "thiserror=/w/target/debug/deps/libthiserror-6c.rlib",
        ];
        assert_eq!(options, expected);
    }

    #[test]
    fn a_crate_is_documented_with_its_tests_only() {
        let library = ARGUMENTS.map(|argument| if argument == "--test" { "--crate-type" } else { argument });
        assert_eq!(documented(&library), None);
        assert_eq!(documented(&["rustc", "-vV"]), None);
        assert_eq!(documented(&["rustc", "-", "--crate-name", "___", "--print=file-names"]), None);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let source = temp.path().join("lib.rs");
        let said = |text: &str| {
            fs::write(&source, text).unwrap();
            let options = ["--crate-name", "x", "--edition=2024", "--deny=rustdoc::broken_intra_doc_links"];
            document_with(Path::new("rustdoc"), source.to_str().unwrap(), &options)
        };
        assert_eq!(said("//! See [`a`].\nfn a() {}\n"), "");
        let found = said("//! Text.\n/// See [`b`].\nfn a() {}\n");
        assert!(found.contains("unresolved link to `b`"), "{found}");
    }
}
