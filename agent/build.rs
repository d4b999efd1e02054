//! Says which version the binary is: sets `NODEWARDEN_VERSION` for the compiler, the package's version with
//! git's description of the source.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    version()
}

fn version() -> Result<(), Box<dyn Error>> {
    let package = env::var("CARGO_PKG_VERSION")?;
    let version = match git(&["describe", "--always", "--dirty", "--exclude=*"]) {
        Some(commit) => format!("{package} ({commit})"),
        None => package,
    };
    println!("cargo::rustc-env=NODEWARDEN_VERSION={version}");
    // A commit changes the log of HEAD; what makes the source dirty changes one of the others.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in ["build.rs", "Cargo.toml", "src"] {
        println!("cargo::rerun-if-changed={path}");
    }
    Ok(())
}

/// What git says, or `None` without git or outside a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
