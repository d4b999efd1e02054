//! The version is written once, in the workspace's `Cargo.toml`; what cannot derive it from there is compared
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Written before the tag of the agent's image.
const IMAGE: &str = "nodewarden:";
/// The beginning of a release's heading in the changelog.
const RELEASE: &str = "## [";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tags of the agent's image in a text.
fn image_tags(text: &str) -> Vec<&str> {
    let is_tag = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    // The name of a service account begins with its namespace.
    let images = text.match_indices(IMAGE).filter(|(at, _)| !text[..*at].ends_with("serviceaccount:"));
    let tags = images.map(|(at, _)| &text[at + IMAGE.len()..]);
    let tags = tags.map(|rest| &rest[..rest.find(|c| !is_tag(c)).unwrap_or(rest.len())]);
    tags.filter(|tag| !tag.is_empty()).collect()
}

#[test]
fn image_tags_are_the_workspaces_version() {
    for file in ["deploy/daemonset.yaml", "deploy/augment.yaml", "deploy/undo.yaml"] {
        let text = read(&root().join(file));
        let tags = image_tags(&text);
        assert!(tags.contains(&VERSION), "{file} names no image of version {VERSION}: {tags:?}");
        assert!(tags.iter().all(|tag| *tag == VERSION), "{file}: {tags:?}, not {VERSION}");
    }
}

#[test]
fn the_newest_release_of_the_changelog_is_the_workspaces_version() {
    let text = read(&root().join("CHANGELOG.md"));
    let mut releases = text.lines().filter_map(|line| line.strip_prefix(RELEASE)?.split(']').next());
    let newest = releases.find(|name| *name != "Unreleased");
    assert_eq!(newest, Some(VERSION), "CHANGELOG.md: newest release");
}

#[test]
fn every_package_takes_the_workspaces_version() {
    let mut found = 0;
    for manifest in manifests(&root()) {
        let text = read(&manifest);
        let Some(package) =
            text.split("\n[").find(|section| section.trim_start_matches('[').starts_with("package]"))
        else {
            continue;
        };
        found += 1;
        assert!(
            package.lines().any(|line| line.trim() == "version.workspace = true"),
            "{} has a version of its own",
            manifest.display()
        );
    }
    assert!(found > 3, "{found} manifests");
}

/// The `Cargo.toml` files of the source tree, without those below the target directory.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().unwrap().is_dir()
            && name != "target"
            && !name.as_encoded_bytes().starts_with(b".")
        {
            found.extend(manifests(&path));
        } else if name == "Cargo.toml" {
            found.push(path);
        }
    }
    found
}

#[test]
fn tags_are_found() {
    let text =
        "image: nodewarden:1.2.3\n# -t nodewarden:0.1.0-rc.1 .\nnodewarden: {mode: observe}\nx-nodewarden:\n";
    assert_eq!(image_tags(text), ["1.2.3", "0.1.0-rc.1"]);
}
