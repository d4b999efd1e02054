//! The test programs of the workspace: cargo builds them and names them, and each lists its tests.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};

/// The test program of one library or binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The package's name without `nodewarden-`.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// The package's folder, in which its tests run.
    pub folder: PathBuf,
    /// The root of the library or binary.
    pub root: PathBuf,
}

/// What is used of a line of `cargo --message-format=json`.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    executable: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    #[serde(default)]
    package_id: String,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    #[serde(default)]
    src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// The command that builds the tests of every package but the kernel programs. Programs with `test = false`
/// are left out: they would have the library that they call compiled a second time, which for the end-to-end
/// tests takes 45 s of a CPU.
pub fn build_command(layout: &Layout) -> Command {
    let mut command = layout.cargo();
    command.args(["test", "--workspace", "--exclude", "nodewarden-ebpf", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics");
    command
}

/// Runs it.
///
/// # Errors
/// When cargo can't be started or something does not compile.
pub fn build(mut command: Command) -> Result<Vec<Program>, CommandError> {
    let mut programs = Vec::new();
    let status = process::each_output_line(&mut command, |line| programs.extend(program(line)))?;
    if status.success() {
        Ok(programs)
    } else {
        // cargo has shown why.
        Err(CommandError::Failed { command: process::line(&command), status, tail: String::new() })
    }
}

/// The test program that a line of cargo's is about.
fn program(line: &str) -> Option<Program> {
    let message = serde_json::from_str::<Message>(line).ok()?;
    let is_test = message.profile.is_some_and(|profile| profile.test);
    if message.reason != "compiler-artifact" || !is_test {
        return None;
    }
    let target = message.target?;
    let name = package_name(&message.package_id).unwrap_or(target.name);
    Some(Program {
        name: name.strip_prefix("nodewarden-").unwrap_or(&name).to_owned(),
        path: message.executable?,
        folder: message.manifest_path.parent()?.to_owned(),
        root: target.src_path,
    })
}

/// `path+file:///w/tests#nodewarden-tests@0.1.0`, or `path+file:///w/xtask#0.1.0` where the folder has the
/// package's name (cargo: Package ID Specifications).
fn package_name(id: &str) -> Option<String> {
    let (path, fragment) = id.split_once('#')?;
    let name = match fragment.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    Some(name.to_owned())
}

impl Program {
    /// A command that runs it as cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// The names of its tests, as it knows them itself.
    ///
    /// # Errors
    /// When it can't be run.
    pub fn tests(&self) -> Result<Vec<String>, CommandError> {
        let list = process::capture(self.command().args(["--list", "--format", "terse"]))?;
        Ok(list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// What is in front of a test's name where tests of several packages are shown.
    pub fn prefix(&self) -> String {
        format!("{}::", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/agent/gc#nodewarden-gc@0.1.0",
        "manifest_path":"/w/agent/gc/Cargo.toml","target":{"kind":["lib"],"name":"nodewarden_gc","src_path":"/w/agent/gc/src/lib.rs"},
        "profile":{"opt_level":"0","test":true},"executable":"/w/target/debug/deps/nodewarden_gc-1"}"#;

    #[test]
    fn cargo_names_the_test_programs() {
        let found = program(LINE).unwrap();
        let expected = Program {
            name: "gc".into(),
            path: "/w/target/debug/deps/nodewarden_gc-1".into(),
            folder: "/w/agent/gc".into(),
            root: "/w/agent/gc/src/lib.rs".into(),
        };
        assert_eq!(found, expected);
        assert_eq!(found.prefix(), "gc::");
        for other in [
            LINE.replace("\"test\":true", "\"test\":false"),
            LINE.replace("\"/w/target/debug/deps/nodewarden_gc-1\"", "null"),
            LINE.replace("compiler-artifact", "build-script-executed"),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
            "Compiling x".to_owned(),
        ] {
            assert_eq!(program(&other), None, "{other}");
        }
    }

    #[test]
    fn a_package_is_named_by_its_folder_too() {
        assert_eq!(package_name("path+file:///w/xtask#0.1.0").as_deref(), Some("xtask"));
        assert_eq!(package_name("path+file:///w/agent#nodewarden@0.1.0").as_deref(), Some("nodewarden"));
    }
}
