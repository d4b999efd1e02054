//! Compiles `pause/pause.rs` to a static program of its own. The tests embed it and put it into container
//! images.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "pause/pause.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let variable = |name: &str| env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("pause");
    let status = Command::new(variable("RUSTC"))
        .args(["--edition", "2024", "--crate-name", "pause", "--crate-type", "bin"])
        .args(["--target", &variable("TARGET")])
        .args(["-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols", "-Crelocation-model=static"])
        .args(["-nostartfiles", "-nostdlib", "-static", "-no-pie"].map(|arg| format!("-Clink-arg={arg}")))
        .arg("-o")
        .arg(&output)
        .arg(SOURCE)
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!("rustc {SOURCE}: {other:?}"),
    }
}
