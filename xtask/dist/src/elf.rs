//! What a program needs of the shared libraries that it is linked with: their names and the versions of their
//! symbols.

use std::collections::BTreeSet;

use object::read::elf::{Dyn, ElfFile64, FileHeader, Sym, VersionIndex};
use object::{Endianness, elf};

use crate::DistError;

/// The newest version of the GNU C library's symbols that the shipped binary may need: what Debian 11 has.
pub const NEWEST_C_LIBRARY: &str = "GLIBC_2.31";
/// The shipped binary has fewer bytes than these.
pub const LARGEST: u64 = 20_000_000;
const C_LIBRARY: &str = "GLIBC_";

/// A symbol of a library, with the version in which it is needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its version, such as `GLIBC_2.17`.
    pub version: String,
    /// The library that has it.
    pub library: String,
}

/// What the dynamic loader has to find.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Libraries, in the order in which they are looked for.
    pub libraries: Vec<String>,
    /// Versioned symbols.
    pub symbols: BTreeSet<Symbol>,
}

impl Needs {
    /// Reads them from a program.
    ///
    /// # Errors
    /// When it is no 64-bit ELF file.
    pub fn of(data: &[u8]) -> Result<Self, DistError> {
        let file = ElfFile64::<Endianness>::parse(data)?;
        let (header, endian) = (file.elf_header(), file.endian());
        let sections = header.sections(endian, data)?;
        let mut needs = Self::default();
        if let Some((dynamic, link)) = sections.dynamic(endian, data)? {
            let strings = sections.strings(endian, data, link)?;
            for entry in dynamic.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
                needs.libraries.push(text(entry.string(endian, strings)?));
            }
        }
        let Some(versions) = sections.versions(endian, data)? else { return Ok(needs) };
        let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
        for (index, symbol) in symbols.enumerate() {
            let at: VersionIndex = versions.version_index(endian, index);
            let Some(version) = versions.version(at)? else { continue };
            let Some(library) = version.file() else { continue };
            let name = text(symbol.name(endian, symbols.strings())?);
            needs.symbols.insert(Symbol { name, version: text(version.name()), library: text(library) });
        }
        Ok(needs)
    }

    /// The newest version of the GNU C library that it needs, such as `GLIBC_2.30`.
    pub fn c_library(&self) -> Option<&str> {
        let versions = self.symbols.iter().map(|symbol| symbol.version.as_str());
        versions.filter(|version| number(version).is_some()).max_by_key(|version| number(version))
    }

    /// Refuses what needs a newer C library than `allowed`.
    ///
    /// # Errors
    /// Names each symbol that is too new.
    pub fn check(&self, allowed: &str) -> Result<(), DistError> {
        let limit = number(allowed);
        let is_new = |symbol: &&Symbol| number(&symbol.version).is_some_and(|own| Some(own) > limit);
        let new = self.symbols.iter().filter(is_new);
        let symbols: Vec<_> = new.map(|symbol| format!("{}@{}", symbol.name, symbol.version)).collect();
        if symbols.is_empty() {
            return Ok(());
        }
        let needs = self.c_library().unwrap_or_default().to_owned();
        Err(DistError::CLibrary { needs, allowed: allowed.to_owned(), symbols })
    }

    /// Each library with each version of its symbols.
    pub fn versions(&self) -> BTreeSet<(&str, &str)> {
        self.symbols.iter().map(|symbol| (symbol.library.as_str(), symbol.version.as_str())).collect()
    }
}

/// Refuses a binary that is too large.
///
/// # Errors
/// With both sizes.
pub fn check_size(data: &[u8]) -> Result<(), DistError> {
    let size = data.len() as u64;
    if size < LARGEST { Ok(()) } else { Err(DistError::Size { size, allowed: LARGEST }) }
}

/// The numbers of a version of the C library, to compare it with others.
fn number(version: &str) -> Option<Vec<u32>> {
    let parts = version.strip_prefix(C_LIBRARY)?.split('.');
    parts.map(|part| part.parse().ok()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(versions: &[&str]) -> Needs {
        let symbol = |version: &&str| Symbol {
            name: format!("f{version}"),
            version: (*version).to_owned(),
            library: "libc.so.6".to_owned(),
        };
        Needs { libraries: Vec::new(), symbols: versions.iter().map(symbol).collect() }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let own = needs(&["GLIBC_2.4", "GLIBC_2.30", "GLIBC_2.3.4", "GLIBC_PRIVATE", "GCC_4.2.0"]);
        assert_eq!(own.c_library(), Some("GLIBC_2.30"));
        own.check(NEWEST_C_LIBRARY).unwrap();
        let error = needs(&["GLIBC_2.9", "GLIBC_2.34"]).check(NEWEST_C_LIBRARY).unwrap_err().to_string();
        assert!(error.contains("needs GLIBC_2.34") && error.ends_with(": fGLIBC_2.34@GLIBC_2.34"), "{error}");
    }

    #[test]
    fn this_test_itself_needs_the_c_library() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = Needs::of(&data).unwrap();
        assert!(own.libraries.iter().any(|name| name == "libc.so.6"), "{:?}", own.libraries);
        assert!(own.c_library().is_some());
        assert!(own.symbols.iter().any(|symbol| symbol.name == "malloc"), "{:?}", own.symbols);
        own.check("GLIBC_2.0").unwrap_err();
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        assert!(Needs::of(b"#!/bin/sh\n").is_err());
        assert!(check_size(&vec![0; LARGEST as usize]).is_err());
        check_size(b"small").unwrap();
    }
}
