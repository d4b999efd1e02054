//! The kernel programs as the agent carries them: without the compiler's debug information, which is four
//! fifths of the file. The types and source lines that the kernel shows (`.BTF`, `.BTF.ext`) stay.

use object::build::elf::{Builder, SectionData};
use object::elf;

/// What the names of sections with debug information, and of their relocations, begin with.
const DEBUG: [&[u8]; 2] = [b".debug_", b".rel.debug_"];

/// The object file without its debug information.
///
/// # Errors
/// When it is no ELF file.
pub fn without_debug_information(file: &[u8]) -> object::build::Result<Vec<u8>> {
    let mut builder = Builder::read(file)?;
    for section in &mut builder.sections {
        section.delete |= DEBUG.iter().any(|prefix| section.name.starts_with(prefix));
    }
    // LLVM keeps the sections' names with the symbols' names; the writer wants them apart.
    let names = builder.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut written = Vec::new();
    builder.write(&mut written)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection};

    use super::*;

    fn sections(file: &[u8]) -> Vec<(String, Vec<u8>)> {
        let parsed = object::File::parse(file).unwrap();
        let section = |section: object::Section| {
            (section.name().unwrap().to_owned(), section.data().unwrap_or_default().to_vec())
        };
        parsed.sections().map(section).collect()
    }

    #[test]
    fn programs_types_and_lines_stay() {
        let layout =
            xtask_common::layout::Layout::find(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let built = layout.ebpf_target().join(crate::build::KERNEL_OBJECT);
        let Ok(file) = std::fs::read(&built) else {
            nodewarden_testing::skip("the kernel programs are not built (`cargo xtask build`)");
            return;
        };
        let small = without_debug_information(&file).unwrap();
        assert!(small.len() * 3 < file.len(), "{} of {} bytes", small.len(), file.len());
        let kept = sections(&small);
        assert!(kept.iter().any(|(name, _)| name == ".BTF.ext"));
        for (name, data) in sections(&file) {
            if name.contains("debug_") || name.starts_with(".rel") || name.contains("tab") {
                continue;
            }
            assert!(kept.contains(&(name.clone(), data)), "{name} is another one");
        }
    }

    #[test]
    fn what_is_no_object_file_is_an_error() {
        assert!(without_debug_information(b"text").is_err());
    }
}
