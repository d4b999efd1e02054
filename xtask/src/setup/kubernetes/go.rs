//! Builds programs of the source tree with Go, in GOPATH mode (as modules the tree's own list would need
//! updates).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::Source;
use super::{StepError, VERSION, generate, partial};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};
use xtask_common::progress::Progress;

/// The import path of the tree.
pub const TREE: &str = "k8s.io/kubernetes";

/// Leaves out the clients of public clouds, which are a good part of what there is to compile (Kubernetes'
/// `legacy-cloud-providers`).
const TAGS: &str = "providerless";

/// A program of the source tree.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub name: &'static str,
    /// Its folder in the tree.
    package: &'static str,
    test: bool,
    open_api: bool,
    takes: &'static str,
}

impl Program {
    pub const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package, test: false, open_api: false, takes: "half a minute" }
    }

    /// A package of tests, compiled with what its tests embed.
    pub const fn with_tests(self) -> Self {
        Self { test: true, ..self }
    }

    /// It serves the description of the API, which is generated.
    pub const fn with_open_api(self) -> Self {
        Self { open_api: true, ..self }
    }

    /// How long compiling takes on two cores.
    pub const fn takes(self, takes: &'static str) -> Self {
        Self { takes, ..self }
    }
}

/// The compiler with its folders.
#[derive(Debug)]
pub struct Go<'a> {
    layout: &'a Layout,
    source: &'a Source,
    path: PathBuf,
}

impl<'a> Go<'a> {
    /// # Errors
    /// When the tree cannot be linked to where the compiler looks for it.
    pub fn new(layout: &'a Layout, source: &'a Source) -> Result<Self, StepError> {
        let path = layout.kubernetes().join("gopath");
        let link = path.join("src").join(TREE);
        files::create_folder(&path.join("src/k8s.io"))?;
        files::remove(&link)?;
        std::os::unix::fs::symlink(&source.tree, &link).map_err(FileError::of("link", &link))?;
        Ok(Self { layout, source, path })
    }

    /// The tree as it is seen in `GOPATH`.
    pub fn tree(&self) -> PathBuf {
        self.path.join("src").join(TREE)
    }

    /// Where generators are put, and what they write besides.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Builds `program` to `destination`.
    ///
    /// # Errors
    /// When a generator or the compiler fails.
    pub fn build(
        &self,
        program: &Program,
        destination: &Path,
        progress: &mut Progress,
    ) -> Result<(), StepError> {
        progress.begin(&format!("compiling {}, about {}", program.name, program.takes));
        if program.open_api {
            generate::open_api(self, progress)?;
        }
        if program.test {
            generate::embedded_files(self, progress)?;
        }
        let unfinished = partial(destination);
        let verb: &[&str] = if program.test { &["test", "-c"] } else { &["build"] };
        let mut command = self.command(verb);
        // Debug information that the linker would leave out: a sixth of the compiler's work.
        command.args(["-v", "-trimpath", "-tags", TAGS, "-gcflags=all=-dwarf=false"]);
        command.args(["-ldflags", &link_flags()]);
        command.arg("-o").arg(&unfinished).arg(format!("./{}", program.package));
        self.follow(&mut command, progress)?;
        Ok(files::rename(&unfinished, destination)?)
    }

    /// Builds a generator that the tree brings along, and returns its path.
    ///
    /// # Errors
    /// When the compiler fails.
    pub fn generator(&self, package: &str, progress: &mut Progress) -> Result<PathBuf, StepError> {
        let name = package.rsplit('/').next().unwrap_or(package);
        let program = self.path.join(name);
        let mut command = self.command(&["build"]);
        command.arg("-o").arg(&program).arg(format!("./vendor/{package}"));
        self.follow(&mut command, progress)?;
        Ok(program)
    }

    fn command(&self, verb: &[&str]) -> Command {
        let mut command = self.in_tree(self.source.go.join("bin/go"));
        command.args(verb);
        command
    }

    /// A program that is started in the tree, with Go's environment.
    pub fn in_tree(&self, program: PathBuf) -> Command {
        let mut command = self.layout.command(program);
        command.current_dir(self.tree());
        // Go takes the folder's name from here: the link's, not that of the folder that it leads to.
        command.env("PWD", self.tree());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.source.go.join("bin")).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        command.env("GOROOT", &self.source.go).env("GOPATH", &self.path);
        command.env("GOCACHE", self.layout.kubernetes().join("cache"));
        command.envs([("GO111MODULE", "off"), ("CGO_ENABLED", "0"), ("GOFLAGS", ""), ("GOENV", "off")]);
        // The compiler collects its garbage less often, and takes more memory for that.
        command.env("GOGC", "400");
        command
    }

    /// Runs a program, showing that time passes.
    ///
    /// # Errors
    /// When it fails.
    pub fn follow(&self, command: &mut Command, progress: &mut Progress) -> Result<(), CommandError> {
        process::follow(command, |line| progress.tick(line))
    }
}

/// No symbols, and the version, which would otherwise be that of an unknown commit.
fn link_flags() -> String {
    let minor = VERSION.split('.').nth(1).unwrap_or_default();
    let values = [
        ("gitVersion", format!("v{VERSION}")),
        ("gitMajor", "1".to_owned()),
        ("gitMinor", minor.to_owned()),
        ("gitTreeState", "archive".to_owned()),
    ];
    let mut flags = "-s -w".to_owned();
    for package in ["component-base/version", "client-go/pkg/version"] {
        for (name, value) in &values {
            flags.push_str(&format!(" -X {TREE}/vendor/k8s.io/{package}.{name}={value}"));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_know_their_version() {
        let flags = link_flags();
        assert!(
            flags.contains(" -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitVersion=v1.20.2 ")
        );
        assert!(flags.contains("client-go/pkg/version.gitMinor=20"));
    }
}
