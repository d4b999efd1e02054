//! The order of layers: no crate depends on one above it, and no room (top-level module) imports one above
//! it.
//!
//! The order is in the table `[workspace.metadata.layers]` of the root Cargo.toml. `table` judges plain
//! values, and this module reads them from the workspace.

mod imports;
mod source;
mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use imports::Sources;
use table::{Package, Table, Violation};
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};

/// The layers can't be looked at.
#[derive(Debug, Error)]
pub enum LayersError {
    /// cargo does not describe the workspace.
    #[error(transparent)]
    Cargo(#[from] CommandError),
    /// Its description can't be read, or there is no table in it.
    #[error("the output of `cargo metadata` has no [workspace.metadata.layers] that can be read")]
    Metadata(#[from] serde_json::Error),
    /// A file can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What is used of the output of `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    metadata: Settings,
}

/// `[workspace.metadata]`.
#[derive(Debug, Deserialize)]
struct Settings {
    layers: Table,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` is for `[dependencies]`.
    kind: Option<String>,
    /// The folder of a package of this workspace.
    path: Option<PathBuf>,
}

/// Looks at the whole workspace.
///
/// # Errors
/// When the table or a file can't be read.
pub fn violations(layout: &Layout) -> Result<Vec<Violation>, LayersError> {
    let text = process::capture(layout.cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata = serde_json::from_str::<Metadata>(&text)?;
    let described = metadata.packages.into_iter();
    let packages = described.map(|package| read(layout, package)).collect::<Result<Vec<_>, _>>()?;
    let root = text_of(&layout.root.join("Cargo.toml"))?;
    Ok(table::check(&metadata.metadata.layers, &root, &packages))
}

fn read(layout: &Layout, described: Described) -> Result<Package, LayersError> {
    let folder = described.manifest_path.parent().unwrap_or(&layout.root);
    let mut sources = Sources::new();
    add_sources(&folder.join("src"), "", &mut sources)?;
    let ours = described.dependencies.into_iter().filter(|dependency| dependency.path.is_some());
    let of_product = ours.filter(|dependency| dependency.kind.as_deref() != Some("dev"));
    Ok(Package {
        name: described.name,
        folder: layout.short(folder).to_string_lossy().into_owned(),
        manifest: text_of(&described.manifest_path)?,
        dependencies: of_product.map(|dependency| dependency.name).collect(),
        sources,
    })
}

/// Adds every Rust file below `folder`, named from the first one on with `prefix` in front.
fn add_sources(folder: &Path, prefix: &str, sources: &mut Sources) -> Result<(), LayersError> {
    let failed = |source| LayersError::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            add_sources(&path, &format!("{prefix}{name}/"), sources)?;
        } else if name.ends_with(".rs") {
            sources.insert(format!("{prefix}{name}"), text_of(&path)?);
        }
    }
    Ok(())
}

fn text_of(path: &Path) -> Result<String, LayersError> {
    fs::read_to_string(path).map_err(|source| LayersError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_from_cargos_description() {
        let text = r#"{"packages":[{"name":"a","manifest_path":"/w/a/Cargo.toml","dependencies":[
            {"name":"b","kind":null,"path":"/w/b"},{"name":"serde","kind":"dev"}]}],
            "metadata":{"layers":{"crates":["b","a"]}},"version":1}"#;
        let metadata = serde_json::from_str::<Metadata>(text).unwrap();
        assert_eq!(metadata.metadata.layers.crates, ["b", "a"]);
        assert!(metadata.metadata.layers.rooms.is_empty());
        assert!(serde_json::from_str::<Metadata>(&text.replace("layers", "lairs")).is_err());
        assert!(serde_json::from_str::<Metadata>(&text.replace("\"crates\"", "\"crate\"")).is_err());
    }
}
