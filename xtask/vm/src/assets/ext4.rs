//! ext4 images: empty ones, and ones filled from a folder.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::AssetError;
use super::cache::{Asset, Cache, Lookup};
use xtask_common::files::FileError;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// How large the empty image is, in bytes.
const SCRATCH_SIZE: u64 = 1 << 30;
const SCRATCH: Asset<'_> = Asset {
    link: "scratch",
    title: "empty disk",
    doing: "formatting",
    advice: "install e2fsprogs, which has mkfs.ext4, then run again",
};
const IMAGE: &str = "scratch.ext4";

/// An empty image of 1 GiB.
///
/// # Errors
/// When it can't be made.
pub fn scratch(layout: &Layout) -> Result<PathBuf, AssetError> {
    let folder = Cache::of(layout).ensure(SCRATCH, Lookup::Cached, |cache, progress| {
        cache.folder("scratch-1", |folder| {
            make(layout, &folder.join(IMAGE), SCRATCH_SIZE, "scratch", None, progress)
        })
    })?;
    Ok(folder.join(IMAGE))
}

/// Makes an image of `size` bytes, sparse, with the files of the folder `from`.
///
/// # Errors
/// When mkfs.ext4 is not there or fails.
pub fn make(
    layout: &Layout,
    image: &Path,
    size: u64,
    label: &str,
    from: Option<&Path>,
    progress: &mut Progress,
) -> Result<(), AssetError> {
    let file = File::create(image).map_err(FileError::of("create", image))?;
    file.set_len(size).map_err(FileError::of("write", image))?;
    let mut command = layout.command(program());
    // Tables that the guest's kernel would have to zero in the background are left out of its way.
    command.args(["-q", "-F", "-m", "0", "-L", label, "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    if let Some(from) = from {
        command.arg("-d").arg(from);
    }
    process::follow(command.arg(image), |line| progress.tick(line))?;
    Ok(())
}

/// mkfs.ext4, also when the folder of root's programs is not on the path.
fn program() -> PathBuf {
    let name = "mkfs.ext4";
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(name));
    let known = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    on_path.chain(known).find(|program| program.is_file()).unwrap_or_else(|| name.into())
}

/// The bytes that an image takes on the disk.
#[cfg(test)]
fn used(image: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(image).map_or(0, |meta| meta.blocks() * 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask_common::files;

    #[test]
    fn an_image_is_sparse_and_has_the_files() {
        let temp = tempfile::tempdir().unwrap();
        let layout = Layout { root: temp.path().into(), target: temp.path().into() };
        files::create_folder(&temp.path().join("from/folder")).unwrap();
        files::write(&temp.path().join("from/folder/file"), "text of the file").unwrap();
        let image = temp.path().join("image");
        let mut progress = Progress::labelled("test");
        let from = temp.path().join("from");
        make(&layout, &image, 64 << 20, "test", Some(&from), &mut progress).unwrap();
        let data = files::read(&image).unwrap();
        assert_eq!(data.len(), 64 << 20);
        assert_eq!(data[0x438..0x43a], [0x53, 0xef], "the magic number of ext4");
        assert!(data.windows(16).any(|part| part == b"text of the file"));
        assert!(used(&image) < 16 << 20, "{}", used(&image));
    }
}
