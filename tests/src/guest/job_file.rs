//! Reading the job.

use std::path::Path;

use super::GuestError;
use nodewarden_guest_job::Job;

/// Reads the job from `path`.
///
/// # Errors
/// When it is not there or makes no sense.
pub fn read(path: &Path) -> Result<Job, GuestError> {
    let text = std::fs::read(path).map_err(GuestError::read(path))?;
    serde_json::from_slice(&text).map_err(|source| GuestError::Job { path: path.to_owned(), source })
}
