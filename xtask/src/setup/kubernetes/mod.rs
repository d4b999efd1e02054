//! A real Kubernetes 1.20.2, compiled from Debian's source package, with Debian's etcd and kubectl: for the
//! tests with an API server.
//!
//! Debian has no package of kube-apiserver, but its source package `kubernetes` is the whole upstream tree
//! with all it depends on, so that nothing but Debian's mirror is needed. Source, compiler and cache are
//! removed when every program is built.

mod generate;
mod go;
mod repair;
mod source;

use std::path::{Path, PathBuf};

use super::StepError;
use go::{Go, Program};
use source::{Compiled, Source};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

/// The version that is built.
pub const VERSION: &str = "1.20.2";

/// Programs that are needed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// etcd, API server, controller manager, scheduler and kubectl.
    ControlPlane,
    /// The kubelet and Kubernetes' own tests of a node.
    NodeSuite,
}

/// What Debian has compiled, next to the programs that are built. kubectl is made of the same source package.
const COMPILED: &[Compiled] =
    &[Compiled::new("etcd", "etcd-server"), Compiled::new("kubectl", "kubernetes-client")];
const CONTROL_PLANE: &[Program] = &[
    Program::new("kube-apiserver", "cmd/kube-apiserver").with_open_api().takes("3 minutes"),
    Program::new("kube-controller-manager", "cmd/kube-controller-manager"),
    Program::new("kube-scheduler", "cmd/kube-scheduler"),
];
const NODE_SUITE: &[Program] = &[
    Program::new("kubelet", "cmd/kubelet").takes("a minute"),
    Program::new("agnhost", "test/images/agnhost"),
    Program::new("nnp", "test/images/nonewprivs"),
    Program::new("e2e_node.test", "test/e2e_node").with_tests(),
];

impl Set {
    fn programs(self) -> &'static [Program] {
        match self {
            Self::ControlPlane => CONTROL_PLANE,
            Self::NodeSuite => NODE_SUITE,
        }
    }

    fn compiled(self) -> &'static [Compiled] {
        match self {
            Self::ControlPlane => COMPILED,
            Self::NodeSuite => &[],
        }
    }

    /// Whether all of its programs are there. A program appears by a rename when it is whole.
    pub fn is_there(self, layout: &Layout) -> bool {
        self.missing(layout).is_empty()
            && self.compiled().iter().all(|one| program(layout, one.name).exists())
    }

    fn missing(self, layout: &Layout) -> Vec<&'static Program> {
        self.programs().iter().filter(|one| !program(layout, one.name).exists()).collect()
    }

    /// Downloads what is needed, and builds the programs that are missing.
    ///
    /// # Errors
    /// When Debian's mirror cannot be reached or a program does not build.
    pub fn install(self, layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
        let folder = layout.kubernetes();
        files::create_folder(&folder.join("bin"))?;
        for one in self.compiled().iter().filter(|one| !program(layout, one.name).exists()) {
            one.install(layout, &program(layout, one.name), progress)?;
        }
        let missing = self.missing(layout);
        if !missing.is_empty() {
            let source = Source::ensure(layout, progress)?;
            let go = Go::new(layout, &source)?;
            for one in missing {
                go.build(one, &program(layout, one.name), progress)?;
            }
        }
        if [Self::ControlPlane, Self::NodeSuite].iter().all(|set| set.missing(layout).is_empty()) {
            Source::remove(layout)?;
        }
        if self.is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(folder.join("bin"))) }
    }
}

fn program(layout: &Layout, name: &str) -> PathBuf {
    layout.kubernetes().join("bin").join(name)
}

/// `path` with `.partial` appended.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_there_when_each_program_is() {
        let temp = tempfile::tempdir().unwrap();
        let layout = Layout { root: temp.path().into(), target: temp.path().join("target") };
        files::create_folder(&layout.kubernetes().join("bin")).unwrap();
        for one in CONTROL_PLANE {
            assert!(!Set::ControlPlane.is_there(&layout));
            files::write(&program(&layout, one.name), "").unwrap();
        }
        for one in COMPILED {
            assert!(!Set::ControlPlane.is_there(&layout), "{} is missing", one.name);
            files::write(&program(&layout, one.name), "").unwrap();
        }
        assert!(Set::ControlPlane.is_there(&layout) && !Set::NodeSuite.is_there(&layout));
    }
}
