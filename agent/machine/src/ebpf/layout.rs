//! Where the running kernel keeps the fields the programs need, read from its BTF once at start.
//!
//! Rust cannot emit CO-RE relocations, so offsets are data: they reach the programs as constants before loading.

use std::collections::BTreeMap;
use std::path::Path;

use super::btf::{Btf, Struct, Type};
use super::error::KernelError;
use super::fields::FIELDS;
use nodewarden_model::Topic;

/// The kernel's own types.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Offsets and enum values of the running kernel.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Global of the programs → value.
    pub globals: BTreeMap<&'static str, u32>,
    /// What this kernel lacks, by topic, in words.
    pub missing: BTreeMap<Topic, Vec<String>>,
    /// Index of a controller in css_set.subsys, by its kernel name (`memory`, `cpu`, `io`).
    pub subsystems: BTreeMap<&'static str, u32>,
}

impl Layout {
    /// Reads the running kernel's layout.
    ///
    /// # Errors
    /// When the kernel shows no BTF at all; a missing field is no error but a topic that stays off.
    pub fn read() -> Result<Self, KernelError> {
        let path = Path::new(VMLINUX);
        let btf = Btf::from_file(path).map_err(|source| KernelError::Btf { path: path.into(), source })?;
        Ok(Self::from_btf(&btf))
    }

    fn from_btf(btf: &Btf) -> Self {
        let mut layout = Self::default();
        for field in FIELDS {
            match field.paths.iter().find_map(|path| offset_of(btf, path)) {
                Some((offset, _)) => {
                    layout.globals.insert(field.global, offset);
                }
                None => layout.lacks(field.topics, field.paths[0]),
            }
        }
        match rss_counters(btf) {
            Some((offset, stride)) => {
                layout.globals.insert("OFF_MM_RSS", offset);
                layout.globals.insert("RSS_STRIDE", stride);
            }
            None => layout.lacks(&[Topic::Oom], "mm_struct.rss_stat"),
        }
        match structure(btf, "upid") {
            Some(upid) => {
                layout.globals.insert("UPID_SIZE", upid.size);
            }
            None => layout.lacks(&[Topic::Process], "upid"),
        }
        if !gives_a_task(btf, "btf_trace_mark_victim", 1) {
            layout.lacks(&[Topic::Oom], "task in the tracepoint oom:mark_victim (Linux 6.9)");
        }
        for name in ["memory", "cpu", "io"] {
            if let Some(index) = enum_value(btf, "cgroup_subsys_id", &format!("{name}_cgrp_id")) {
                layout.subsystems.insert(name, index);
            }
        }
        if let Some(index) = layout.subsystems.get("memory") {
            layout.globals.insert("MEMCG_SUBSYS", *index);
        } else {
            layout.lacks(&[Topic::Oom], "enum cgroup_subsys_id.memory_cgrp_id");
        }
        layout
    }

    fn lacks(&mut self, topics: &[Topic], what: &str) {
        for topic in topics {
            self.missing.entry(*topic).or_default().push(what.to_owned());
        }
    }
}

/// The structure of a name, if the kernel has one with members.
fn structure(btf: &Btf, name: &str) -> Option<Struct> {
    btf.named(name).find_map(|t| match t {
        Type::Struct(s) if btf.members(s).next().is_some() => Some(s),
        _ => None,
    })
}

/// Byte offset of `struct.member.member` and the type there.
fn offset_of(btf: &Btf, path: &str) -> Option<(u32, Type)> {
    let mut names = path.split('.');
    let mut at = structure(btf, names.next()?)?;
    let mut offset = 0;
    let mut names = names.peekable();
    loop {
        let (bits, found) = member(btf, at, names.next()?)?;
        offset += bits / 8;
        if names.peek().is_none() {
            return Some((offset, found));
        }
        match found {
            Type::Struct(s) => at = s,
            _ => return None,
        }
    }
}

/// A member of a structure, looked for inside anonymous ones too: its bit offset and its type without modifiers.
fn member(btf: &Btf, of: Struct, name: &str) -> Option<(u32, Type)> {
    btf.members(of).find_map(|m| match (m.name, btf.plain(m.type_id)) {
        (own, found) if own == name => Some((m.offset, found)),
        ("", Type::Struct(inner)) => member(btf, inner, name).map(|(bits, found)| (m.offset + bits, found)),
        _ => None,
    })
}

/// Offset of the mm's first rss counter and the distance to the next: an array of percpu_counter since 6.2
/// (their approximate `count`), before that `struct mm_rss_stat` with an array of longs.
fn rss_counters(btf: &Btf) -> Option<(u32, u32)> {
    let (offset, found) = offset_of(btf, "mm_struct.rss_stat")?;
    match found {
        Type::Array => {
            let (count, _) = offset_of(btf, "percpu_counter.count")?;
            Some((offset + count, structure(btf, "percpu_counter")?.size))
        }
        Type::Struct(s) => Some((offset + member(btf, s, "count")?.0 / 8, 8)),
        _ => None,
    }
}

/// Whether argument `n` (0 is the tracepoint's private data) of a BTF tracepoint is a pointer. Before Linux 6.9
/// oom:mark_victim gave only a pid.
fn gives_a_task(btf: &Btf, tracepoint: &str, n: usize) -> bool {
    let prototype = btf.named(tracepoint).find_map(|t| match t {
        Type::Alias(pointer) => match btf.plain(pointer) {
            Type::Pointer(to) => Some(btf.plain(to)),
            _ => None,
        },
        _ => None,
    });
    matches!(prototype, Some(Type::Prototype(p)) if matches!(btf.parameter(p, n), Some(Type::Pointer(_))))
}

/// Value of an enumerator.
fn enum_value(btf: &Btf, name: &str, enumerator: &str) -> Option<u32> {
    btf.named(name).find_map(|t| match t {
        Type::Enum(e) => btf.enumerators(e).find(|(name, _)| *name == enumerator).map(|(_, value)| value),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_has_every_field() {
        if !Path::new(VMLINUX).exists() {
            nodewarden_testing::skip("this kernel shows no BTF");
            return;
        }
        let layout = Layout::read().unwrap();
        assert_eq!(layout.globals.len() + layout.missing.values().flatten().count(), FIELDS.len() + 4);
        assert_eq!(layout.globals.get("OFF_CSS_CGROUP"), Some(&0), "css.cgroup is the first field");
        let btf = Btf::from_file(Path::new(VMLINUX)).unwrap();
        assert!(!gives_a_task(&btf, "btf_trace_sched_switch", 1), "preempt is a bool");
        assert!(gives_a_task(&btf, "btf_trace_sched_switch", 2));
        assert!(!gives_a_task(&btf, "btf_trace_no_such_thing", 1));
        assert!(layout.globals["OFF_TASK_TGID"] == layout.globals["OFF_TASK_PID"] + 4);
    }
}
