//! Where things are: the workspace, its target directory, and what the commands put there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use thiserror::Error;

/// Names the folder of recorded kubelet values, if it is not in its usual place.
pub const GOLDEN_VARIABLE: &str = "NODEWARDEN_GOLDEN";

/// A file that only the root of the workspace has.
const WORKSPACE_MARK: &str = "Cargo.lock";

/// The places that the commands share.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The workspace root.
    pub root: PathBuf,
    /// Cargo's target directory, also when the user moved it.
    pub target: PathBuf,
}

/// The workspace could not be located.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// The path of this program itself is unknown.
    #[error("cannot find out where this program is")]
    OwnPath(#[source] io::Error),
    /// No folder above the manifest directory is a workspace.
    #[error("{0} is not a package inside the workspace")]
    NoWorkspace(PathBuf),
}

/// A cargo profile of the host programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build.
    Dev,
    /// What is measured.
    Release,
}

impl Profile {
    /// The folder inside the target directory.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }

    /// Release if `release`.
    pub fn of(release: bool) -> Self {
        if release { Self::Release } else { Self::Dev }
    }
}

impl Layout {
    /// Finds the workspace from cargo's environment and the target directory from this program's own path.
    /// `package` is the caller's folder when it was compiled, for a program that is started without cargo.
    ///
    /// # Errors
    /// When the program's own path is unknown, or the package lies in no workspace.
    pub fn find(package: &Path) -> Result<Self, LayoutError> {
        let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| package.to_owned(), PathBuf::from);
        let root = package.ancestors().find(|folder| folder.join(WORKSPACE_MARK).is_file());
        let root = root.ok_or_else(|| LayoutError::NoWorkspace(package.clone()))?.to_owned();
        let this = env::current_exe().map_err(LayoutError::OwnPath)?;
        let target = target_dir_of(&this).unwrap_or_else(|| root.join("target"));
        Ok(Self { root, target })
    }

    /// What `setup` installs.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A program that `setup` compiles: `bpf-linker`, `cargo-fuzz`, `cargo-deny`.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.tools().join("bin").join(name)
    }

    /// The target directory of the fuzz targets, apart because of their flags; with the inputs that were
    /// found.
    pub fn fuzz_target(&self) -> PathBuf {
        self.target.join("fuzz")
    }

    /// Debian's prometheus package, unpacked: `prometheus` and `promtool` are in its `usr/bin`.
    pub fn prometheus(&self) -> PathBuf {
        self.tools().join("prometheus")
    }

    /// Debian's container runtime and network plugins, unpacked: what of them the machine does not have.
    pub fn containers(&self) -> PathBuf {
        self.tools().join("containers")
    }

    /// Kubernetes' own programs, which are compiled there, in its `bin`.
    pub fn kubernetes(&self) -> PathBuf {
        self.tools().join("kubernetes")
    }

    /// Debian's gRPC for Python, unpacked: what of it the machine does not have.
    pub fn python(&self) -> PathBuf {
        self.tools().join("python")
    }

    /// Debian's rpm, unpacked: what of it the machine does not have.
    pub fn rpm(&self) -> PathBuf {
        self.tools().join("rpm")
    }

    /// Helm as a library for Python.
    pub fn helm(&self) -> PathBuf {
        self.tools().join("helm")
    }

    /// Debian's Chromium, unpacked: what of it the machine does not have.
    pub fn chromium(&self) -> PathBuf {
        self.tools().join("chromium")
    }

    /// npm's package of axe-core.
    pub fn axe(&self) -> PathBuf {
        self.tools().join("axe-core")
    }

    /// What `cargo xtask dist` makes.
    pub fn dist(&self) -> PathBuf {
        self.target.join("dist")
    }

    /// Where the programs of [`Layout::containers`] are.
    pub fn container_programs(&self) -> [PathBuf; 4] {
        ["usr/bin", "usr/sbin", "bin", "usr/lib/cni"].map(|folder| self.containers().join(folder))
    }

    /// The target directory of the kernel programs, apart so that their flags do not disturb host builds.
    pub fn ebpf_target(&self) -> PathBuf {
        self.target.join("ebpf")
    }

    /// The kernel programs as `agent/build.rs` embeds them.
    pub fn ebpf_object(&self) -> PathBuf {
        self.ebpf_target().join("nodewarden-ebpf.o")
    }

    /// A program that cargo built in `profile`.
    pub fn program(&self, profile: Profile, name: &str) -> PathBuf {
        self.target.join(profile.folder()).join(name)
    }

    /// The folder of recorded kubelet values, if it is on this machine.
    pub fn golden(&self) -> Option<PathBuf> {
        let folder = env::var_os(GOLDEN_VARIABLE).unwrap_or_else(|| "../shared/golden".into());
        self.root.join(folder).canonicalize().ok().filter(|folder| folder.is_dir())
    }

    /// `path` as a user in the workspace root would type it.
    pub fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// The cargo that runs this program, started in the workspace root.
    pub fn cargo(&self) -> Command {
        let mut cargo = self.command(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        // cargo sets these for the program that it runs, which is this one. ring's build script runs again
        // when CARGO_MANIFEST_DIR changes, so that calling `cargo xtask` and plain cargo in turn built most
        // of the workspace again.
        let of_this_program = |name: &OsString| {
            let name = name.to_string_lossy();
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
        };
        for (name, _) in env::vars_os().filter(|(name, _)| of_this_program(name)) {
            cargo.env_remove(name);
        }
        cargo
    }

    /// A command started in the workspace root.
    pub fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command.current_dir(&self.root);
        command
    }

    /// `PATH` with the programs that `setup` unpacked for the tests in front.
    pub fn path_with_tools(&self) -> OsString {
        let mut path = self.prometheus().join("usr/bin").into_os_string();
        if let Some(rest) = env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        path
    }
}

/// Cargo leaves a program in `<target>/<profile>/`. (Its mark, CACHEDIR.TAG, is missing in a target directory
/// that someone else made, such as a CI's cache.)
fn target_dir_of(program: &Path) -> Option<PathBuf> {
    let profile = program.parent()?;
    let known = [Profile::Dev, Profile::Release].iter().any(|known| profile.ends_with(known.folder()));
    profile.parent().filter(|_| known).map(Path::to_owned)
}

/// Whether this process has root's rights (its effective user is 0).
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_cargo_does_not_see_what_cargo_set_for_this_program() {
        let layout = Layout { root: "/w".into(), target: "/w/target".into() };
        let cargo = layout.cargo();
        let removed: Vec<_> =
            cargo.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(
            env::var_os("CARGO_MANIFEST_DIR").is_none() || removed.contains(&"CARGO_MANIFEST_DIR".as_ref())
        );
    }

    #[test]
    fn the_target_directory_holds_the_profile_of_this_program() {
        for (program, target) in [
            ("/w/target/debug/xtask", Some("/w/target")),
            ("/cache/release/xtask", Some("/cache")),
            ("/usr/local/bin/xtask", None),
        ] {
            assert_eq!(target_dir_of(Path::new(program)).as_deref(), target.map(Path::new));
        }
    }

    #[test]
    fn paths_are_short_only_inside_the_workspace() {
        let layout = Layout { root: "/w".into(), target: "/w/target".into() };
        let program = layout.program(Profile::Dev, "nodewarden");
        assert_eq!(layout.short(&program), Path::new("target/debug/nodewarden"));
        assert_eq!(layout.short(Path::new("/else/x")), Path::new("/else/x"));
    }
}
