//! The files of a drop-in directory (`--config-dir`), in the order in which they are merged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// Extension of drop-in files; other files are ignored.
const EXTENSION: &str = "conf";

/// All `*.conf` files below `directory` in the order of Go's `filepath.WalkDir`, which the kubelet uses:
/// entries of a directory by name, including subdirectories. Symbolic links to directories are not followed.
///
/// # Errors
/// A directory cannot be read.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let mut found = Vec::new();
    walk(directory, &mut found)
        .map_err(|(path, source)| ConfigError::Directory { path, source })
        .map(|()| found)
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |source| (directory.to_owned(), source);
    let mut entries =
        fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|e| e == EXTENSION) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_lexical_order() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("15-more")).unwrap();
        for name in ["20-b.conf", "10-a.conf", "15-more/z.conf", "readme.md", "9.conf", "30.conf.bak"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let names: Vec<String> = files(directory.path())
            .unwrap()
            .iter()
            .map(|p| p.strip_prefix(directory.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["10-a.conf", "15-more/z.conf", "20-b.conf", "9.conf"]);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = files(Path::new("/nonexistent/kubelet.conf.d")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/kubelet.conf.d"), "{error}");
    }
}
