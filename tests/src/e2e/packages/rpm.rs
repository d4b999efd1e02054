//! The RPM package, by a real rpm.
//!
//! Its database knows no package of this machine, so what the package needs is compared by this test and not
//! by rpm.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use nodewarden_dist::contents::Format;

use super::made::Made;
use super::root::ThrowAwayRoot;
use crate::harness::{Capability, Context, Failure, Test, rpm_folder};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("package_rpm_is_installed_upgraded_and_erased", life)
    .timeout(180)
    .needs(&[Capability::Root, Capability::FullSpeed, Capability::Rpm])];

const CONFIG: &str = "/etc/nodewarden/config.yaml";
const ENABLED: &str = "/etc/systemd/system/multi-user.target.wants/nodewarden.service";

/// rpm in a root, from where `cargo xtask setup` unpacked it.
struct Rpm<'a> {
    root: &'a ThrowAwayRoot,
    folder: PathBuf,
}

impl Rpm<'_> {
    fn run(&self, words: &[&str]) -> Result<String, Failure> {
        // Where rpm keeps its database is a setting of the distribution.
        self.program("rpm", &[&["--dbpath", "/var/lib/rpm"], words].concat())
    }

    fn program(&self, name: &str, words: &[&str]) -> Result<String, Failure> {
        let program = self.folder.join("usr/bin").join(name);
        let libraries = self.folder.join("usr/lib/x86_64-linux-gnu");
        let settings = self.folder.join("usr/lib/rpm");
        let program = program.display().to_string();
        let variables: [(&str, &OsStr); 2] =
            [("LD_LIBRARY_PATH", libraries.as_os_str()), ("RPM_CONFIGDIR", settings.as_os_str())];
        self.root.run(&[&[program.as_str()], words].concat(), &variables)
    }
}

/// The scripts run; an upgrade keeps what the user changed and puts the new file beside it; what is erased is
/// gone.
fn life(context: &Context) -> Result<(), Failure> {
    let made = Made::of(context)?;
    let root = ThrowAwayRoot::new(context)?;
    let (first, version) = made.package(context, Format::Rpm, 1)?;
    let (second, newer) = made.package(context, Format::Rpm, 2)?;
    let [first, second] = [root.bring(&first)?, root.bring(&second)?];
    let folder = rpm_folder().ok_or_else(|| Failure::Unexpected("rpm is gone".to_owned()))?;
    let rpm = Rpm { root: &root, folder };

    let requires = rpm.run(&["--query", "--package", "--requires", &first])?;
    for (library, symbols) in made.needs.versions() {
        let wanted = format!("{library}({symbols})(64bit)");
        ensure!(requires.lines().any(|line| line == wanted), "the package does not require {wanted}");
    }
    let checked = rpm.program("rpmkeys", &["--checksig", "--nosignature", &first])?;
    ensure!(checked.contains("digests OK"), "{checked}");

    let install = ["--nodeps", "--nosignature"];
    rpm.run(&[&["--install"], &install[..], &[&first]].concat())?;
    let query = ["--query", "--queryformat", "%{VERSION}", "nodewarden"];
    ensure_eq!(rpm.run(&query)?, version, "version of the package");
    rpm.run(&["--verify", "--nodeps", "nodewarden"])?;
    let shown = root.run(&["/usr/bin/nodewarden", "--version"], &[])?;
    ensure!(shown.starts_with("nodewarden "), "the installed binary says {shown}");
    // Debian's preset enables what has no preset of its own.
    ensure!(
        fs::symlink_metadata(root.path(ENABLED)).is_ok(),
        "the script after the installation did not run"
    );

    let changed = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n";
    fs::write(root.path(CONFIG), changed).map_err(Failure::file(CONFIG))?;
    rpm.run(&[&["--upgrade"], &install[..], &[&second]].concat())?;
    ensure_eq!(rpm.run(&query)?, newer, "version after the upgrade");
    let config = fs::read_to_string(root.path(CONFIG)).map_err(Failure::file(CONFIG))?;
    ensure_eq!(config, changed, "the changed configuration");
    ensure!(fs::symlink_metadata(root.path(ENABLED)).is_ok(), "the upgrade disabled the unit");

    rpm.run(&["--erase", "--nodeps", "nodewarden"])?;
    ensure!(!root.path("/usr/bin/nodewarden").exists(), "the binary is still there");
    ensure!(fs::symlink_metadata(root.path(ENABLED)).is_err(), "the script before the removal did not run");
    let left = root.left("nodewarden");
    // What the user changed is kept under another name.
    ensure_eq!(left, ["etc/nodewarden", "etc/nodewarden/config.yaml.rpmsave"], "what is left");
    Ok(())
}
