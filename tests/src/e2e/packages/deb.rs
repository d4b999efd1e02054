//! The Debian package, by this machine's own dpkg.

use std::fs;

use nodewarden_dist::contents::Format;

use super::made::Made;
use super::root::ThrowAwayRoot;
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("package_deb_is_installed_upgraded_and_purged", life)
    .timeout(180)
    .needs(&[Capability::Root, Capability::FullSpeed, Capability::Dpkg])];

const CONFIG: &str = "/etc/nodewarden/config.yaml";
const ENABLED: &str = "/etc/systemd/system/multi-user.target.wants/nodewarden.service";
const STATE: &str = "/var/lib/nodewarden";

/// Mode observe is enabled and the binary runs; an upgrade keeps what the user changed; a removal keeps
/// configuration and state; a purge leaves nothing.
fn life(context: &Context) -> Result<(), Failure> {
    let made = Made::of(context)?;
    let root = ThrowAwayRoot::new(context)?;
    let (first, version) = made.package(context, Format::Deb, 1)?;
    let (second, newer) = made.package(context, Format::Deb, 2)?;
    let [first, second] = [root.bring(&first)?, root.bring(&second)?];
    let dpkg = |words: &[&str]| root.run(&[&["dpkg"], words].concat(), &[]);
    let field =
        |name: &str| root.run(&["dpkg-query", "-W", "-f", &format!("${{{name}}}"), "nodewarden"], &[]);

    dpkg(&["--install", &first])?;
    ensure_eq!(field("Version")?, version, "version of the package");
    ensure_eq!(field("db:Status-Status")?, "installed", "state of the package");
    ensure_eq!(dpkg(&["--verify", "nodewarden"])?, "", "files that differ from the package");
    let shown = root.run(&["/usr/bin/nodewarden", "--version"], &[])?;
    ensure!(shown.starts_with("nodewarden "), "the installed binary says {shown}");
    for file in [CONFIG, "/etc/nodewarden/manage.yaml"] {
        root.run(&["/usr/bin/nodewarden", "config", "check", file], &[])?;
    }
    let link = fs::read_link(root.path(ENABLED)).map_err(Failure::file(ENABLED))?;
    ensure!(link.ends_with("systemd/system/nodewarden.service"), "{ENABLED} points to {}", link.display());
    let other = ENABLED.replace("nodewarden.service", "nodewarden-manage.service");
    ensure!(!root.path(&other).exists(), "mode manage is enabled");

    let changed = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n";
    fs::write(root.path(CONFIG), changed).map_err(Failure::file(CONFIG))?;
    fs::create_dir_all(root.path(STATE)).map_err(Failure::file(STATE))?;
    fs::write(root.path(STATE).join("journal"), "kept").map_err(Failure::file(STATE))?;
    let kept = || -> Result<(), Failure> {
        let config = fs::read_to_string(root.path(CONFIG)).map_err(Failure::file(CONFIG))?;
        ensure_eq!(config, changed, "the changed configuration");
        ensure!(root.path(STATE).join("journal").exists(), "the state is gone");
        Ok(())
    };
    dpkg(&["--install", &second])?;
    ensure_eq!(field("Version")?, newer, "version after the upgrade");
    kept()?;

    dpkg(&["--remove", "nodewarden"])?;
    ensure_eq!(field("db:Status-Status")?, "config-files", "state after the removal");
    ensure!(!root.path("/usr/bin/nodewarden").exists(), "the binary is still there");
    kept()?;
    dpkg(&["--install", &second])?;
    kept()?;
    // The link is one of the root: from here it may point to nothing.
    let enabled = fs::symlink_metadata(root.path(ENABLED)).is_ok();
    ensure!(enabled, "not enabled after it was installed again");
    let mask = fs::symlink_metadata(root.path("/etc/systemd/system/nodewarden.service"));
    ensure!(mask.is_err(), "masked after it was installed again");

    dpkg(&["--purge", "nodewarden"])?;
    let left = root.left("nodewarden");
    ensure!(left.is_empty(), "a purge leaves {left:?}");
    Ok(())
}
