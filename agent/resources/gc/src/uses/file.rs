//! The times on disk, in `images.json` of the state directory.
//!
//! A damaged file is set aside and the times begin anew, which keeps every image for the minimum age.

use std::collections::BTreeMap;
use std::path::Path;

use super::Uses;
use nodewarden_model::ImageUse;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};

pub(super) const NAME: &str = "images.json";
const FORMAT: Format = Format::new("images", 1);

/// The file. Calls block on the disk.
#[derive(Debug)]
pub struct UsesFile(StateFile);

impl UsesFile {
    /// The file in `state_dir` and the times in it; none of them, and why, where it cannot be read. No file is no error.
    pub fn open(state_dir: &Path) -> (Self, Uses, Option<StateFileError>) {
        type Images = BTreeMap<String, ImageUse>;
        let (file, images, problem) = StateFile::open::<Images>(state_dir.join(NAME), FORMAT);
        (Self(file), Uses { images: images.unwrap_or_default(), told: None }, problem)
    }

    /// Has the times on disk when it returns. What is there already is not written again: `false`.
    ///
    /// # Errors
    /// The file cannot be written; the one before it stays.
    pub fn save(&self, uses: &Uses) -> Result<bool, StateFileError> {
        self.0.save(&uses.images)
    }
}
