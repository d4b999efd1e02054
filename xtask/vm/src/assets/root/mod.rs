//! A Debian root file system with systemd, containerd and runc, for the tests of the systemd driver and of
//! containers.
//!
//! mmdebstrap makes it in a folder, our own files go in, mkfs.ext4 puts it into an image.

mod recipe;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::cache::{Asset, Cache, Lookup};
use super::{AssetError, Root, ext4};
use xtask_common::debian::{self, Apt, Archive, Package, Row, Suite};
use xtask_common::files::{self, FileError};
use xtask_common::layout::{self, Layout};
use xtask_common::process;
use xtask_common::progress::Progress;

pub use recipe::short;

const SUITES: [Suite; 2] = [Suite::Named(recipe::RELEASE), Suite::Security(recipe::RELEASE)];
const IMAGE: &str = "root.ext4";
const DESCRIPTION: &str = "description";
const BUSYBOX: &str = "usr/bin/busybox";
/// The packages whose versions say which root this is.
const DESCRIBED: [&str; 3] = ["systemd", "containerd", "runc"];

/// The Debian root.
///
/// # Errors
/// When its packages can't be downloaded, or without root's rights.
pub fn root(layout: &Layout, lookup: Lookup) -> Result<Root, AssetError> {
    // A changed recipe has a link of its own, so the root of an older one is not found.
    let link = link();
    let asset = Asset {
        link: &link,
        title: "Debian root with systemd",
        doing: "downloading Debian's packages, about a minute",
        advice: "let this machine reach its Debian mirror, then run again as root",
    };
    let folder =
        Cache::of(layout).ensure(asset, lookup, |cache, progress| from_debian(layout, cache, progress))?;
    let description = String::from_utf8_lossy(&files::read(&folder.join(DESCRIPTION))?).into_owned();
    Ok(Root { image: folder.join(IMAGE), description })
}

fn link() -> String {
    format!("root-{}", recipe::fingerprint())
}

fn from_debian(layout: &Layout, cache: &Cache, progress: &mut Progress) -> Result<PathBuf, AssetError> {
    if !layout::is_root() {
        return Err(AssetError::NotRoot);
    }
    let archive = Archive::of_this_machine()?;
    let apt = Apt::at(layout, cache.scrap("apt"))?;
    apt.update(&archive.source_lines(&SUITES), progress)?;
    let rows = apt.versions(&recipe::PACKAGES)?;
    let newest = recipe::PACKAGES
        .iter()
        .map(|package| {
            debian::newest(&rows, package).ok_or_else(|| archive.no_package(package, None, &SUITES))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let exact = newest.iter().map(|row| row.exact()).collect::<Vec<_>>().join(" ");
    let name = format!("debian-root-{}-{}", recipe::fingerprint(), short(&exact));
    let folder = cache.folder(&name, |folder| {
        let tree = folder.join("tree");
        bootstrap(layout, &archive, &folder.join("mmdebstrap"), &tree, progress)?;
        progress.begin("putting it into an image");
        furnish(&tree)?;
        ext4::make(layout, &folder.join(IMAGE), recipe::SIZE, "nodewarden", Some(&tree), progress)?;
        files::remove(&tree)?;
        Ok(files::write(&folder.join(DESCRIPTION), describe(&newest))?)
    })?;
    // Roots of other recipes would stay for ever: nothing links to them any more but their own links.
    cache.remove_others("root-", &link())?;
    cache.remove_others("debian-root-", &name)?;
    Ok(folder)
}

/// Unpacks and configures the packages into `tree`, with the mmdebstrap of this machine's release.
fn bootstrap(
    layout: &Layout,
    archive: &Archive,
    mmdebstrap: &Path,
    tree: &Path,
    progress: &mut Progress,
) -> Result<(), AssetError> {
    let package = Package { name: "mmdebstrap".to_owned(), version: None };
    archive.unpack(layout, &package, &[Suite::Own, SUITES[0]], mmdebstrap, progress)?;
    // Its mounts below the new root are in a namespace of their own: whatever happens, they end with it.
    let mut command = layout.command("unshare");
    command.args(["--mount", "--propagation", "private", "--", "perl"]);
    command.arg(mmdebstrap.join("usr/bin/mmdebstrap"));
    command.args(["--mode=root", "--format=directory", "--variant=minbase"]);
    command.arg(format!("--include={}", recipe::PACKAGES.join(",")));
    let own = process::capture(layout.command("apt-config").arg("dump"))?;
    for option in network_options(&own) {
        command.arg(format!("--aptopt={option}"));
    }
    command.args(["--aptopt=Acquire::Languages \"none\"", "--aptopt=APT::Sandbox::User \"root\""]);
    command.arg(recipe::RELEASE).arg(tree).args(archive.source_lines(&SUITES));
    command.env("LC_ALL", "C.UTF-8");
    process::follow(&mut command, |line| progress.tick(line))?;
    Ok(files::remove(mmdebstrap)?)
}

/// How this machine's apt reaches its mirrors: proxies and the like, from the output of `apt-config dump`.
fn network_options(dump: &str) -> Vec<&str> {
    let wanted = |line: &&str| line.starts_with("Acquire::http") && !line.ends_with(" \"\";");
    dump.lines().filter(wanted).map(|line| line.trim_end_matches(';')).collect()
}

/// Removes from `tree` what is never read; adds our own files, links, masks and container images.
fn furnish(tree: &Path) -> Result<(), AssetError> {
    for path in recipe::REMOVED {
        files::remove(&tree.join(path))?;
    }
    for (path, text) in recipe::FILES {
        put(tree, path, text.as_bytes())?;
    }
    for (path, target) in recipe::LINKS {
        put_link(tree, path, target)?;
    }
    for unit in recipe::MASKED {
        put_link(tree, &format!("etc/systemd/system/{unit}"), "/dev/null")?;
    }
    for generator in recipe::MASKED_GENERATORS {
        put_link(tree, &format!("etc/systemd/system-generators/{generator}"), "/dev/null")?;
    }
    let busybox = files::read(&tree.join(BUSYBOX))?;
    let images = images(&busybox).map_err(FileError::of("archive the images of", tree))?;
    Ok(put(tree, recipe::IMAGES, &images)?)
}

/// The archive of the container images.
fn images(busybox: &[u8]) -> std::io::Result<Vec<u8>> {
    let files = [("bin/busybox", 0o755, busybox)];
    let commands = recipe::COMMANDS.map(|command| format!("bin/{command}"));
    let links = commands.iter().map(|path| (path.as_str(), "busybox")).collect::<Vec<_>>();
    let image = |name, command| nodewarden_oci::Image {
        name,
        files: &files,
        links: &links,
        command,
        entrypoint: &[],
        user: "",
        stop_signal: "",
    };
    nodewarden_oci::archive(&[
        image(recipe::PAUSE_IMAGE, &["/bin/sleep", "2147483647"]),
        image(recipe::BUSYBOX_IMAGE, &["/bin/sh"]),
    ])
}

fn put(tree: &Path, path: &str, data: &[u8]) -> Result<(), FileError> {
    let path = place(tree, path)?;
    files::write(&path, data)
}

fn put_link(tree: &Path, path: &str, target: &str) -> Result<(), FileError> {
    let path = place(tree, path)?;
    symlink(target, &path).map_err(FileError::of("create", &path))
}

/// The path in `tree`, with its folder there and nothing of that name.
fn place(tree: &Path, path: &str) -> Result<PathBuf, FileError> {
    let path = tree.join(path);
    if let Some(folder) = path.parent() {
        files::create_folder(folder)?;
    }
    files::remove(&path)?;
    Ok(path)
}

/// `Debian 13 (trixie), systemd 257.8-1, …`.
fn describe(rows: &[&Row]) -> String {
    let version = |package: &&str| rows.iter().find(|row| row.package == *package).map(|row| row.exact());
    let versions = DESCRIBED.iter().filter_map(version).map(|exact| exact.replace('=', " "));
    std::iter::once(format!("Debian {}", recipe::RELEASE)).chain(versions).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn proxies_are_handed_on() {
        let dump = "APT \"\";\nAcquire \"\";\nAcquire::http \"\";\nAcquire::http::Proxy \"http://p.test:1\";\n\
            Acquire::https::Proxy \"DIRECT\";\nDir \"/\";\n";
        assert_eq!(
            network_options(dump),
            ["Acquire::http::Proxy \"http://p.test:1\"", "Acquire::https::Proxy \"DIRECT\""]
        );
    }

    #[test]
    fn our_files_take_the_place_of_debians() {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path();
        put(tree, BUSYBOX, b"busybox").unwrap();
        put(tree, "etc/machine-id", b"").unwrap();
        put_link(tree, "etc/systemd/system/default.target", "/else").unwrap();
        furnish(tree).unwrap();
        furnish(tree).unwrap();
        assert!(fs::read_to_string(tree.join("etc/machine-id")).unwrap().len() == 33);
        let target = fs::read_link(tree.join("etc/systemd/system/default.target")).unwrap();
        assert!(target.ends_with("multi-user.target"));
        assert!(fs::metadata(tree.join(recipe::IMAGES)).unwrap().len() > 1024);
    }

    #[test]
    fn the_description_has_versions() {
        let row = |package: &str| Row { package: package.into(), version: "1-1".into(), suite: "x".into() };
        let rows = [row("systemd"), row("kmod"), row("runc")];
        assert_eq!(describe(&rows.iter().collect::<Vec<_>>()), "Debian trixie, systemd 1-1, runc 1-1");
    }
}
