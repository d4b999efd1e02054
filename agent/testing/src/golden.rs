//! The recordings of a real kubelet that tests compare with: `../shared/golden`, or the folder in
//! `NODEWARDEN_GOLDEN`, whose recordings may be of another machine, of other pods and of another size. Tests
//! that use them are in modules named `golden`: `cargo xtask test golden` selects by that.

use std::path::PathBuf;

use serde_json::Value;

const FOLDER: &str = "NODEWARDEN_GOLDEN";

/// Whether the recordings are the project's own. Only of these is it known what they contain: a test may
/// demand that something is in them.
pub fn are_our_own() -> bool {
    std::env::var_os(FOLDER).is_none()
}

/// A recording as JSON; `None`, with the test reported as skipped, where there is no such recording.
///
/// # Panics
/// When the recording is no JSON.
pub fn load(file: &str) -> Option<Value> {
    let folder = std::env::var_os(FOLDER).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden")),
        PathBuf::from,
    );
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("golden JSON")),
        Err(error) => {
            crate::skip(format_args!("{}: {error} (set {FOLDER})", path.display()));
            None
        }
    }
}
