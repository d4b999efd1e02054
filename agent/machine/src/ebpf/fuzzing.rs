//! Entry points for fuzzing: what the kernel says of its types and symbols.

use super::Layout;
use super::btf::{Btf, Type};
use super::symbols::Search;

/// Reads BTF, the layout in it, and each of its first 4096 types with their members. Returns the number of
/// names; `None` when it is no BTF.
pub fn btf(bytes: &[u8]) -> Option<usize> {
    const TYPES: u32 = 4096;
    let btf = Btf::parse(bytes).ok()?;
    let mut names = 0;
    for id in 0..TYPES.min(bytes.len() as u32) {
        names += match btf.get(id) {
            Type::Struct(found) => btf.members(found).filter(|member| !member.name.is_empty()).count(),
            Type::Enum(members) => btf.enumerators(members).count(),
            Type::Prototype(members) => btf.parameters(members).count(),
            Type::Alias(to) => usize::from(btf.plain(to) != Type::Other),
            _ => 0,
        };
    }
    Layout::from_btf(&btf);
    Btf::parse(&btf.only_hooks()).ok()?;
    Some(names)
}

/// Reads lines of `/proc/kallsyms`; the ranges of addresses that were found.
pub fn symbols(text: &str) -> Vec<(u64, u64)> {
    let mut search = Search::default();
    text.lines().for_each(|line| search.line(line));
    (0..2).filter_map(|i| search.range(i)).map(|range| (range.start, range.end)).collect()
}
