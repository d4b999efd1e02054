//! Which shared libraries a program needs, as the dynamic loader would find them (ld.so(8)).
//!
//! Only the loader's built-in folders are searched, since a guest has no /etc/ld.so.cache; what is found in
//! one of them here is found at the same place there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use thiserror::Error;

/// The loader's built-in folders on Debian (with the architecture's name) and elsewhere.
const FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The libraries of a program can't be found out.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// A program or library can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no x86-64 ELF file, or a damaged one.
    #[error("{} is no x86-64 program", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Why.
        source: object::Error,
    },
    /// A library is in none of the loader's folders.
    #[error(
        "{} needs {library}, which is in none of {}\n  \
         what to do: install it there, or link it statically",
        needed_by.display(),
        FOLDERS.join(", ")
    )]
    Missing {
        /// The library's name.
        library: String,
        /// Who needs it.
        needed_by: PathBuf,
    },
}

/// What an ELF file asks the loader for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The loader itself; `None` in libraries and static programs.
    pub interpreter: Option<String>,
    /// Names of libraries, in order.
    pub libraries: Vec<String>,
}

/// Every file, by its path on this machine, that `program` needs in addition to itself: the loader and all
/// libraries.
///
/// # Errors
/// When a file can't be read or a library not be found.
pub fn of(program: &Path) -> Result<BTreeSet<PathBuf>, LibraryError> {
    let mut found = BTreeSet::new();
    let mut to_read = vec![program.to_owned()];
    while let Some(path) = to_read.pop() {
        let data = fs::read(&path).map_err(|source| LibraryError::Read { path: path.clone(), source })?;
        let wants = wants(&data).map_err(|source| LibraryError::Format { path: path.clone(), source })?;
        found.extend(wants.interpreter.map(PathBuf::from));
        for library in wants.libraries {
            let place = FOLDERS.iter().map(|folder| Path::new(folder).join(&library)).find(|at| at.exists());
            let missing = || LibraryError::Missing { library, needed_by: path.clone() };
            let place = place.ok_or_else(missing)?;
            if found.insert(place.clone()) {
                to_read.push(place);
            }
        }
    }
    Ok(found)
}

/// Reads PT_INTERP and every DT_NEEDED.
///
/// # Errors
/// When `data` is no 64-bit little-endian ELF file.
pub fn wants(data: &[u8]) -> Result<Wants, object::Error> {
    let file = ElfFile64::<object::Endianness>::parse(data)?;
    let (header, endian) = (file.elf_header(), file.endian());
    let mut wants = Wants::default();
    for segment in header.program_headers(endian, data)? {
        if let Some(interpreter) = segment.interpreter(endian, data)? {
            wants.interpreter = Some(String::from_utf8_lossy(interpreter).into_owned());
        }
    }
    let sections = header.sections(endian, data)?;
    if let Some((dynamic, link)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for entry in dynamic.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
            wants.libraries.push(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
        }
    }
    Ok(wants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_itself_needs_the_c_library_and_a_loader() {
        let this = std::env::current_exe().unwrap();
        let wants = wants(&fs::read(&this).unwrap()).unwrap();
        assert!(wants.libraries.iter().any(|name| name == "libc.so.6"), "{wants:?}");
        let files = of(&this).unwrap();
        assert!(files.contains(Path::new(&wants.interpreter.unwrap())));
        assert!(files.iter().any(|path| path.ends_with("libc.so.6")), "{files:?}");
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        assert!(wants(b"#!/bin/sh\n").is_err());
        assert!(wants(&[]).is_err());
        let mut short = fs::read(std::env::current_exe().unwrap()).unwrap();
        short.truncate(100);
        assert!(wants(&short).is_err());
    }
}
