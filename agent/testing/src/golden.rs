//! The recordings of a real kubelet that tests compare with (`../shared/golden`, or the folder in
//! `NODEWARDEN_GOLDEN`). Tests that use them stand in modules named `golden`: `cargo xtask test golden` selects by that.

use std::path::PathBuf;

use serde_json::Value;

/// A recording as JSON; `None`, and said so, where the recordings are not at hand.
/// # Panics
/// When the recording is no JSON.
pub fn load(file: &str) -> Option<Value> {
    let folder = std::env::var_os("NODEWARDEN_GOLDEN").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden")),
        PathBuf::from,
    );
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("golden JSON")),
        Err(error) => {
            crate::skip(format_args!("{}: {error} (set NODEWARDEN_GOLDEN)", path.display()));
            None
        }
    }
}
