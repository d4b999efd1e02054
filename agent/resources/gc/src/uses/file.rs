//! The file of the images' times: `images.json` in the state directory.
//!
//! A damaged file is renamed and the times start again, which keeps every image for the minimum age.

use std::collections::BTreeMap;
use std::path::Path;

use nodewarden_model::ImageUse;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};

use super::Uses;

const NAME: &str = "images.json";
const FORMAT: Format = Format::new("images", 1);

/// The file. Its methods block on the disk.
#[derive(Debug)]
pub struct UsesFile(StateFile);

impl UsesFile {
    /// Opens the file in `state_dir` and returns its times; empty, with the error, if it cannot be read. A
    /// missing file is not an error.
    pub fn open(state_dir: &Path) -> (Self, Uses, Option<StateFileError>) {
        type Images = BTreeMap<String, ImageUse>;
        let (file, images, problem) = StateFile::open::<Images>(state_dir.join(NAME), FORMAT);
        (Self(file), Uses { images: images.unwrap_or_default(), last_save: None }, problem)
    }

    /// Writes the times before it returns. If the file has the same content already, nothing is written and
    /// `false` is returned.
    ///
    /// # Errors
    /// The file cannot be written; the previous one stays.
    pub fn save(&self, uses: &Uses) -> Result<bool, StateFileError> {
        self.0.save(&uses.images)
    }
}

#[cfg(test)]
mod tests;
