//! The modules that a guest loads, each behind those it depends on.
//!
//! Debian runs depmod(8) when a kernel is installed, so an unpacked one has no modules.dep; what a module
//! depends on is also in its own section `.modinfo` (`MODULE_INFO` in the kernel's include/linux/module.h,
//! written by scripts/mod/modpost.c).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};
use thiserror::Error;

use super::unpack::Format;
use crate::assets::AssetError;
use xtask_common::files;

/// A module can't be used.
#[derive(Debug, Error)]
pub enum ModuleError {
    /// It is compressed in an unknown way.
    #[error("it is compressed in a way unknown here")]
    Format,
    /// It is damaged.
    #[error("it can't be decompressed")]
    Unpack(#[source] io::Error),
    /// It is no ELF file.
    #[error("it is no kernel module")]
    Elf(#[source] object::Error),
    /// It has no `.modinfo`.
    #[error("it does not say what it depends on")]
    NoInformation,
}

/// A module, decompressed.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// The ELF file.
    pub data: Vec<u8>,
}

/// Reads the modules `wanted` and what they depend on from among `files`, in an order in which they can be
/// loaded. What is not there is built into the kernel, or it has it not: either way there is nothing to load.
///
/// # Errors
/// When a module can't be read.
pub fn load(files: &[PathBuf], wanted: &[&str]) -> Result<Vec<Module>, AssetError> {
    let paths = files.iter().filter_map(|path| Some((module_name(path)?, path))).collect::<BTreeMap<_, _>>();
    let mut loaded = BTreeMap::new();
    let order = order(wanted, |name| {
        let Some(path) = paths.get(name) else { return Ok(None) };
        let data = files::read(path)?;
        let module = |source| AssetError::Module { path: path.to_path_buf(), source };
        let data = unsigned(decompress(path, data).map_err(module)?);
        let dependencies = dependencies(&data).map_err(module)?;
        loaded.insert(name.to_owned(), data);
        Ok::<_, AssetError>(Some(dependencies))
    })?;
    let module = |name: String| Some(Module { data: loaded.remove(&name)?, name });
    Ok(order.into_iter().filter_map(module).collect())
}

/// `virtio_pci` of `…/virtio-pci.ko.xz`: names have underscores, files may have hyphens.
fn module_name(path: &Path) -> Option<String> {
    let (name, suffix) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(suffix, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

fn decompress(path: &Path, data: Vec<u8>) -> Result<Vec<u8>, ModuleError> {
    if path.extension().is_some_and(|end| end == "ko") {
        return Ok(data);
    }
    let format = Format::of(&data).ok_or(ModuleError::Format)?;
    format.unpack(&data).map_err(ModuleError::Unpack)
}

/// What ends a signed module; before it are 12 bytes whose last four are the length of the signature before
/// them, big-endian (Linux: `module_signature.h`).
const SIGNED: &[u8] = b"~Module signature appended~\n";
const SIGNATURE_FACTS: usize = 12;

/// The module without its signature, which an emulated machine takes a tenth of its boot to check.
fn unsigned(mut module: Vec<u8>) -> Vec<u8> {
    let content = module.strip_suffix(SIGNED).and_then(|rest| {
        let (_, length) = rest.split_last_chunk::<4>()?;
        let signature = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        rest.len().checked_sub(SIGNATURE_FACTS)?.checked_sub(signature)
    });
    module.truncate(content.unwrap_or(module.len()));
    module
}

/// What a module must be loaded after.
fn dependencies(module: &[u8]) -> Result<Vec<String>, ModuleError> {
    let file = object::File::parse(module).map_err(ModuleError::Elf)?;
    let section = file.section_by_name(".modinfo").ok_or(ModuleError::NoInformation)?;
    Ok(depends(section.data().map_err(ModuleError::Elf)?))
}

/// The field `depends` of `.modinfo`, whose fields are `name=value` and end with a zero.
fn depends(information: &[u8]) -> Vec<String> {
    let fields = information.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let lists = fields.filter_map(|field| Some(field.strip_prefix("depends=")?.to_owned()));
    let names = lists.flat_map(|list| list.split(',').map(|name| name.replace('-', "_")).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty()).collect()
}

/// `wanted` with all that it depends on, dependencies first and nothing twice; `read` returns what a module
/// depends on, or `None` if there is no such module. The kernel's build refuses cycles; here they end.
fn order<E>(
    wanted: &[&str],
    mut read: impl FnMut(&str) -> Result<Option<Vec<String>>, E>,
) -> Result<Vec<String>, E> {
    /// What is still to be done, the next at the end.
    enum Todo {
        Visit(String),
        Append(String),
    }
    let mut order = Vec::new();
    let mut seen = BTreeMap::new();
    let mut todo = wanted.iter().rev().map(|name| Todo::Visit((*name).to_owned())).collect::<Vec<_>>();
    while let Some(next) = todo.pop() {
        match next {
            Todo::Append(name) => order.push(name),
            Todo::Visit(name) if seen.contains_key(&name) => {}
            Todo::Visit(name) => {
                seen.insert(name.clone(), ());
                if let Some(dependencies) = read(&name)? {
                    todo.push(Todo::Append(name));
                    todo.extend(dependencies.into_iter().rev().map(Todo::Visit));
                }
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_signature_is_taken_off() {
        let signed = |length: u32| {
            let facts = [&[0, 0, 2, 0, 0, 0, 0, 0][..], &length.to_be_bytes()].concat();
            [b"\x7fELF module", &b"signature"[..], &facts, SIGNED].concat()
        };
        for (module, content) in [
            (signed(9), &b"\x7fELF module"[..]),
            // A length that cannot be is left for the kernel to refuse.
            (signed(22), &signed(22)),
            (b"\x7fELF module".to_vec(), b"\x7fELF module"),
            (SIGNED.to_vec(), SIGNED),
        ] {
            assert_eq!(unsigned(module), content);
        }
    }

    fn ordered(wanted: &[&str], known: &[(&str, &[&str])]) -> Vec<String> {
        let read = |name: &str| {
            let found = known.iter().find(|(known, _)| *known == name);
            Ok::<_, ()>(found.map(|(_, names)| names.iter().map(|&name| name.to_owned()).collect()))
        };
        order(wanted, read).unwrap()
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let known: [(&str, &[&str]); 6] = [
            ("bridge", &["stp", "llc"]),
            ("stp", &["llc"]),
            ("llc", &[]),
            ("virtio_net", &["net_failover"]),
            ("net_failover", &["failover"]),
            ("failover", &[]),
        ];
        assert_eq!(
            ordered(&["virtio_net", "ext4", "bridge", "llc"], &known),
            ["failover", "net_failover", "virtio_net", "llc", "stp", "bridge"]
        );
    }

    #[test]
    fn what_a_built_in_module_depends_on_is_left_out() {
        assert_eq!(ordered(&["a"], &[("a", &["built_in"])]), ["a"]);
    }

    proptest! {
        #[test]
        fn each_stands_behind_its_dependencies(edges in proptest::collection::vec((0usize..12, 0usize..12), 0..40)) {
            let names = (0..12).map(|number| format!("m{number}")).collect::<Vec<_>>();
            // Only towards smaller numbers: no cycles.
            let needs = |number: usize| {
                edges.iter().filter(|(a, b)| *a == number && b < a).map(|(_, b)| names[*b].clone()).collect()
            };
            let wanted = names.iter().map(String::as_str).collect::<Vec<_>>();
            let read = |name: &str| Ok::<_, ()>(Some(needs(name[1..].parse().unwrap())));
            let order = order(&wanted, read).unwrap();
            prop_assert_eq!(order.len(), 12);
            let at = |name: &String| order.iter().position(|other| other == name).unwrap();
            for (number, name) in names.iter().enumerate() {
                let needed: Vec<String> = needs(number);
                prop_assert!(needed.iter().all(|needed| at(needed) < at(name)));
            }
        }
    }

    #[test]
    fn names_of_files() {
        for (path, name) in [
            ("/x/kernel/net/bridge/bridge.ko", Some("bridge")),
            ("virtio-blk.ko.xz", Some("virtio_blk")),
            ("loop.ko.zst", Some("loop")),
            ("modules.order", None),
            ("x.ko.sig", None),
        ] {
            assert_eq!(module_name(Path::new(path)).as_deref(), name);
        }
    }

    #[test]
    fn the_field_depends() {
        assert_eq!(depends(b"license=GPL\0depends=stp,llc\0name=bridge\0"), ["stp", "llc"]);
        assert_eq!(depends(b"depends=\0alias=depends\0"), Vec::<String>::new());
        assert_eq!(depends(b"depends=a-b"), ["a_b"]);
        assert_eq!(depends(b""), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_module_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        for (name, data, expected) in [
            ("loop.ko", &b"no elf"[..], "it is no kernel module"),
            ("loop.ko.xz", b"no xz", "it is compressed in a way unknown here"),
            ("loop.ko.zst", b"\x28\xb5\x2f\xfd", "it can't be decompressed"),
        ] {
            let path = temp.path().join(name);
            std::fs::write(&path, data).unwrap();
            let Err(AssetError::Module { source, .. }) = load(&[path], &["loop"]) else { panic!("{name}") };
            assert_eq!(source.to_string(), expected);
        }
    }
}
