//! Families about images and their file system, from the last check.

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{ImageView, ImagesView};

/// Writes the families of images.
pub(super) fn write(out: &mut Exposition<'_>, view: &ImagesView) {
    // Without a response of the runtime the number of images is unknown, so no zero is written.
    if view.problem.is_empty() || !view.images.is_empty() {
        let mut family = |family: Own, sum: fn(&ImageView) -> u64| {
            let mut writer = out.family(family.desc());
            for state in ImageView::STATES {
                let value = view.images.iter().filter(|own| own.state() == state).map(sum).sum();
                writer.sample(&[], &[("state", state)], Value::Int(value), &[]);
            }
        };
        family(Own::Images, |_| 1);
        family(Own::ImageBytes, |own| own.image.size);
    }
    let Some(fs) = &view.fs else { return };
    for (family, value) in [
        (Own::ImageFsCapacity, fs.capacity),
        (Own::ImageFsAvailable, fs.available),
        (Own::ImageFsInodes, fs.inodes),
        (Own::ImageFsInodesFree, fs.inodes_free),
        (Own::GcWanted, view.wanted),
    ] {
        out.single(family.desc(), Value::Int(value));
    }
}
