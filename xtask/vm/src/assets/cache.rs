//! What is kept in `target/vm`: a folder for each version, and a link to the one in use.
//!
//! A folder appears by a rename when it is whole, and the link after it, so whatever is interrupted counts as
//! not done.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::AssetError;
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

/// Which version is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Whatever the cache holds; the newest only when it holds none.
    Cached,
    /// The newest that the mirror has.
    Newest,
}

impl Lookup {
    /// The newest if `update`.
    pub fn of(update: bool) -> Self {
        if update { Self::Newest } else { Self::Cached }
    }
}

/// One thing to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Asset<'a> {
    /// Its link in the cache.
    pub link: &'a str,
    /// How it is called.
    pub title: &'a str,
    /// What making it does, with the time it takes.
    pub doing: &'a str,
    /// What the user can do when it can't be made.
    pub advice: &'static str,
}

/// The folder where everything is kept.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The one in `layout`'s target directory.
    pub fn of(layout: &Layout) -> Self {
        Self { folder: super::folder(layout) }
    }

    /// A place for whatever is needed only while something is made.
    pub fn scrap(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.partial"))
    }

    /// The folder that is in use for `link`.
    pub fn get(&self, link: &str) -> Option<PathBuf> {
        let target = fs::read_link(self.folder.join(link)).ok()?;
        Some(self.folder.join(target)).filter(|folder| folder.is_dir())
    }

    /// The folder of `asset`. If there is none, or the newest is looked up, `make` finds out the version and
    /// calls [`Self::folder`]; others that make something wait meanwhile.
    ///
    /// # Errors
    /// When `make` fails, with the asset's advice.
    pub fn ensure(
        &self,
        asset: Asset<'_>,
        lookup: Lookup,
        make: impl FnOnce(&Self, &mut Progress) -> Result<PathBuf, AssetError>,
    ) -> Result<PathBuf, AssetError> {
        let cached = || self.get(asset.link).filter(|_| lookup == Lookup::Cached);
        if let Some(folder) = cached() {
            return Ok(folder);
        }
        let _lock = files::lock(&self.folder, "vm")?;
        // Another process may have made it while this one waited.
        if let Some(folder) = cached() {
            return Ok(folder);
        }
        let mut progress = Progress::labelled(format!("vm: {}", asset.title));
        progress.begin(asset.doing);
        let made = make(self, &mut progress).and_then(|folder| {
            self.link(asset.link, &folder)?;
            Ok(folder)
        });
        match made {
            Ok(folder) => {
                progress.end_timed();
                Ok(folder)
            }
            Err(source) => {
                progress.end("failed");
                let source = Box::new(source);
                Err(AssetError::Make { title: asset.title.to_owned(), advice: asset.advice, source })
            }
        }
    }

    /// The folder `name`; if it is not there, `fill` gets an empty one, which takes that name when it is
    /// filled.
    ///
    /// # Errors
    /// When `fill` fails.
    pub fn folder(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<(), AssetError>,
    ) -> Result<PathBuf, AssetError> {
        let folder = self.folder.join(name);
        if !folder.is_dir() {
            let partial = self.scrap(name);
            files::remove(&partial)?;
            files::create_folder(&partial)?;
            fill(&partial)?;
            files::rename(&partial, &folder)?;
        }
        Ok(folder)
    }

    /// Gives what was made in `partial` the name `name`, in place of what has it.
    ///
    /// # Errors
    /// When that can't be done.
    pub fn keep(&self, name: &str, partial: &Path) -> Result<PathBuf, AssetError> {
        let folder = self.folder.join(name);
        files::remove(&folder)?;
        files::rename(partial, &folder)?;
        Ok(folder)
    }

    /// Removes everything whose name begins with `prefix`, apart from `keep`.
    ///
    /// # Errors
    /// When something can't be removed.
    pub fn remove_others(&self, prefix: &str, keep: &str) -> Result<(), FileError> {
        let entries = fs::read_dir(&self.folder).map_err(FileError::of("read", &self.folder))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(prefix) && name != keep) {
                files::remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Puts `folder` in use for `link` and removes the one used before.
    fn link(&self, link: &str, folder: &Path) -> Result<(), FileError> {
        let before = self.get(link);
        let (path, new) = (self.folder.join(link), self.scrap(link));
        files::remove(&new)?;
        let name = folder.file_name().map_or(folder, Path::new);
        symlink(name, &new).map_err(FileError::of("create", &new))?;
        files::rename(&new, &path)?;
        match before {
            Some(before) if before != folder => files::remove(&before),
            _ => Ok(()),
        }
    }
}

/// A version as part of a folder's name: a colon would end the path in `LD_LIBRARY_PATH`.
pub fn in_name(version: &str) -> String {
    version.replace(':', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSET: Asset<'_> = Asset { link: "thing", title: "thing", doing: "making", advice: "try again" };

    fn cache(temp: &Path) -> Cache {
        Cache::of(&Layout { root: temp.into(), target: temp.into() })
    }

    fn ensure(cache: &Cache, lookup: Lookup, version: &str) -> Result<PathBuf, AssetError> {
        cache.ensure(ASSET, lookup, |cache, _| {
            cache.folder(version, |partial| Ok(files::write(&partial.join("file"), version)?))
        })
    }

    #[test]
    fn what_is_there_is_used_until_the_newest_is_wanted() {
        let temp = tempfile::tempdir().unwrap();
        let cache = cache(temp.path());
        let first = ensure(&cache, Lookup::Cached, "thing-1").unwrap();
        assert_eq!(fs::read_to_string(first.join("file")).unwrap(), "thing-1");
        assert_eq!(ensure(&cache, Lookup::Cached, "thing-2").unwrap(), first);
        let second = ensure(&cache, Lookup::Newest, "thing-2").unwrap();
        assert!(second.ends_with("thing-2"));
        assert!(!first.exists(), "what is no longer used is removed");
        assert_eq!(cache.get("thing").unwrap(), second);
        assert_eq!(ensure(&cache, Lookup::Newest, "thing-2").unwrap(), second);
        assert!(second.join("file").exists(), "the newest was there already");
    }

    #[test]
    fn what_failed_is_not_there_and_what_was_there_stays() {
        let temp = tempfile::tempdir().unwrap();
        let cache = cache(temp.path());
        let fail = |lookup| {
            cache.ensure(ASSET, lookup, |cache, _| {
                cache.folder("thing-2", |partial| {
                    files::write(&partial.join("half"), "")?;
                    Err(AssetError::Missing(partial.join("other half")))
                })
            })
        };
        let error = fail(Lookup::Cached).unwrap_err();
        assert!(error.to_string().contains("what to do: try again"), "{error}");
        assert_eq!(cache.get("thing"), None);
        let made = ensure(&cache, Lookup::Cached, "thing-1").unwrap();
        assert!(fail(Lookup::Newest).is_err());
        assert_eq!(cache.get("thing"), Some(made));
        let folder = ensure(&cache, Lookup::Newest, "thing-2").unwrap();
        assert!(!folder.join("half").exists(), "the half made one is not gone on with");
    }
}
