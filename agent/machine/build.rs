//! Puts the kernel programs into this crate.
//!
//! The programs are the object that `cargo xtask build` makes; `NODEWARDEN_EBPF_OBJECT` names another one.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Names an object other than the one in the target directory.
const OBJECT: &str = "NODEWARDEN_EBPF_OBJECT";
/// Where the object is inside the target directory, and its name in `OUT_DIR`.
const OBJECT_FOLDER: &str = "ebpf";
const OBJECT_NAME: &str = "nodewarden-ebpf.o";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");
    embed(&out)
}

fn embed(out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={OBJECT}");
    let object = object_path(out)?;
    println!("cargo::rerun-if-changed={}", object.display());
    if !object.exists() {
        println!(
            "cargo::error=the kernel programs are not built yet ({}): run `cargo xtask build` once",
            object.display()
        );
        return Ok(());
    }
    fs::copy(&object, out.join(OBJECT_NAME)).map_err(|error| format!("{}: {error}", object.display()))?;
    Ok(())
}

/// The object in the target directory that this build is part of. An editor may have a target directory of
/// its own; there the object of the workspace's usual one serves.
fn object_path(out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(named) = env::var_os(OBJECT) {
        return Ok(PathBuf::from(named));
    }
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?);
    let usual = package.ancestors().nth(2).ok_or("the package has no workspace")?.join("target");
    // OUT_DIR is <target>/<profile>/build/<package>/out.
    let this = out.ancestors().nth(4);
    let [in_this, in_usual] =
        [this.unwrap_or(&usual), &usual].map(|folder| folder.join(OBJECT_FOLDER).join(OBJECT_NAME));
    Ok(if in_usual.exists() && !in_this.exists() { in_usual } else { in_this })
}
