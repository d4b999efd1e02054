//! The offsets of the kernel's fields that the programs need, read from the BTF of the running kernel once at
//! start.
//!
//! Rust cannot emit CO-RE relocations, so offsets are data: they are set in the programs as constants before
//! loading.

use std::collections::BTreeMap;

use super::btf::{Btf, Struct, Type};
use super::prototype;
use nodewarden_model::{Need, Program, Topic};

/// Offsets and enum values of the running kernel.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Global of the programs → value.
    pub globals: BTreeMap<&'static str, u32>,
    /// Description of what this kernel lacks, by topic.
    pub missing: BTreeMap<Topic, Vec<String>>,
    /// By the name of a program: the one to attach, itself or another one for this kernel; or why there is
    /// none, in words.
    programs: BTreeMap<&'static str, Result<Program, String>>,
    /// Index of a controller in css_set.subsys, by its kernel name (`memory`, `cpu`, `io`).
    pub subsystems: BTreeMap<&'static str, u32>,
    /// What this kernel lacks for reading what all cgroups have in use at once, see `usage`.
    pub no_usages: Option<String>,
}

/// What the iterator over cgroups needs.
const USAGES: [Need; 7] = [
    Need::Field { global: "OFF_CGROUP_KN", paths: &["cgroup.kn"] },
    Need::Field { global: "OFF_KN_ID", paths: &["kernfs_node.id"] },
    Need::Field { global: "OFF_CGROUP_SUBSYS", paths: &["cgroup.subsys"] },
    Need::Controller { global: "MEMCG_SUBSYS", name: "memory" },
    Need::Field { global: "OFF_MEMCG_USAGE", paths: &["mem_cgroup.memory.usage"] },
    Need::Controller { global: "PIDS_SUBSYS", name: "pids" },
    Need::Field { global: "OFF_PIDS_COUNTER", paths: &["pids_cgroup.counter"] },
];

/// The function whose arguments are those of the iterator over cgroups, in kernels that have it.
pub(super) const CGROUP_ITERATOR: &str = "bpf_iter_cgroup";

impl Layout {
    /// Takes the layout from a kernel's BTF. A missing field is not an error: the topics that need it stay
    /// off.
    pub fn from_btf(btf: &Btf<'_>) -> Self {
        let mut layout = Self::default();
        for topic in Topic::ALL {
            let spec = topic.spec();
            for need in spec.needs {
                if let Err(missing) = layout.look_up(btf, need) {
                    layout.missing.entry(topic).or_default().push(missing);
                }
            }
            for wanted in spec.wants {
                let _ = layout.look_up(btf, wanted);
            }
            for program in spec.programs {
                layout.programs.insert(program.name, prototype::fitting(btf, program));
            }
        }
        let lacking = USAGES.iter().find_map(|need| layout.look_up(btf, need).err());
        layout.no_usages =
            lacking.or_else(|| (!btf.has_function(CGROUP_ITERATOR)).then(|| CGROUP_ITERATOR.to_owned()));
        for name in ["memory", "cpu", "io"] {
            if let Some(index) = controller(btf, name) {
                layout.subsystems.insert(name, index);
            }
        }
        layout
    }

    /// The program to attach where `program` is listed: itself, or another one for tracepoints with other
    /// arguments.
    ///
    /// # Errors
    /// The tracepoint's arguments here and those that are needed, in words.
    pub fn fitting(&self, program: &Program) -> Result<Program, String> {
        self.programs.get(program.name).cloned().unwrap_or(Ok(*program))
    }

    /// Lists the last substitute of a program as the one to attach, as on an older kernel.
    #[cfg(test)]
    pub fn use_last_form(&mut self, name: &'static str) {
        let mut programs = Topic::ALL.into_iter().flat_map(|topic| topic.spec().programs);
        let program = programs.find(|program| program.name == name).expect("a program");
        self.programs.insert(name, Ok(*program.forms().last().expect("itself")));
    }

    /// Reads a needed value from the kernel's types, unless it is known already.
    ///
    /// # Errors
    /// Description of what this kernel lacks.
    fn look_up(&mut self, btf: &Btf<'_>, need: &Need) -> Result<(), String> {
        let lacks = |what: &str| what.to_owned();
        match *need {
            Need::Field { global, paths } => {
                if !self.globals.contains_key(global) {
                    let found = paths.iter().find_map(|path| offset_of(btf, path));
                    let (offset, _) = found.ok_or_else(|| lacks(paths[0]))?;
                    self.globals.insert(global, offset);
                }
            }
            Need::Size { global, structure: name } => {
                let found = structure(btf, name).ok_or_else(|| lacks(name))?;
                self.globals.insert(global, found.size);
            }
            Need::RssCounters { offset, stride } => {
                let (first, distance) = rss_counters(btf).ok_or_else(|| lacks("mm_struct.rss_stat"))?;
                self.globals.insert(offset, first);
                self.globals.insert(stride, distance);
            }
            Need::Controller { global, name } => {
                let index = controller(btf, name);
                let index = index.ok_or_else(|| format!("enum cgroup_subsys_id.{name}_cgrp_id"))?;
                self.globals.insert(global, index);
            }
            Need::PointerArgument { tracepoint, argument, otherwise } => {
                if !prototype::gives_a_pointer(btf, tracepoint, argument) {
                    return Err(lacks(otherwise));
                }
            }
        }
        Ok(())
    }
}

/// Index of a controller in `css_set.subsys`.
fn controller(btf: &Btf<'_>, name: &str) -> Option<u32> {
    enum_value(btf, "cgroup_subsys_id", &format!("{name}_cgrp_id"))
}

/// The structure with this name, if the kernel has one with members.
fn structure(btf: &Btf<'_>, name: &str) -> Option<Struct> {
    btf.named(name).find_map(|t| match t {
        Type::Struct(s) if btf.members(s).next().is_some() => Some(s),
        _ => None,
    })
}

/// Byte offset of `struct.member.member` and the type there.
fn offset_of(btf: &Btf<'_>, path: &str) -> Option<(u32, Type)> {
    let mut names = path.split('.');
    let mut at = structure(btf, names.next()?)?;
    let mut offset = 0u32;
    let mut names = names.peekable();
    loop {
        let (bits, found) = member(btf, at, names.next()?)?;
        offset = offset.checked_add(bits / 8)?;
        if names.peek().is_none() {
            return Some((offset, found));
        }
        match found {
            Type::Struct(s) => at = s,
            _ => return None,
        }
    }
}

/// How many anonymous structures are looked into for one member; the kernel's structures have some ten. It
/// bounds what types that contain themselves cost.
const MOST_NESTED: u32 = 256;

/// A member of a structure, looked for inside anonymous ones too: its bit offset and its type without
/// modifiers.
fn member(btf: &Btf<'_>, of: Struct, name: &str) -> Option<(u32, Type)> {
    member_within(btf, of, name, &mut { MOST_NESTED })
}

/// As [`member`], with how many more anonymous structures may be looked into.
fn member_within(btf: &Btf<'_>, of: Struct, name: &str, left: &mut u32) -> Option<(u32, Type)> {
    btf.members(of).find_map(|m| match (m.name, btf.plain(m.type_id)) {
        (own, found) if own == name => Some((m.offset, found)),
        ("", Type::Struct(inner)) => {
            *left = left.checked_sub(1)?;
            let (bits, found) = member_within(btf, inner, name, left)?;
            Some((m.offset.checked_add(bits)?, found))
        }
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
            Some((offset.checked_add(count)?, structure(btf, "percpu_counter")?.size))
        }
        Type::Struct(s) => Some((offset.checked_add(member(btf, s, "count")?.0 / 8)?, 8)),
        _ => None,
    }
}

/// Value of an enumerator.
fn enum_value(btf: &Btf<'_>, name: &str, enumerator: &str) -> Option<u32> {
    btf.named(name).find_map(|t| match t {
        Type::Enum(e) => btf.enumerators(e).find(|(name, _)| *name == enumerator).map(|(_, value)| value),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn needs() -> Vec<Need> {
        let specs = Topic::ALL.into_iter().map(Topic::spec);
        specs.flat_map(|spec| spec.needs.iter().chain(spec.wants)).chain(&USAGES).copied().collect()
    }

    fn globals_of(need: Need) -> Vec<&'static str> {
        match need {
            Need::Field { global, .. } | Need::Size { global, .. } | Need::Controller { global, .. } => {
                vec![global]
            }
            Need::RssCounters { offset, stride } => vec![offset, stride],
            Need::PointerArgument { .. } => Vec::new(),
        }
    }

    #[test]
    fn a_global_has_one_meaning() {
        let mut paths = BTreeMap::new();
        for need in needs() {
            if let Need::Field { global, paths: of } = need {
                assert_eq!(*paths.entry(global).or_insert(of), of, "{global}");
            }
        }
    }

    /// BTF whose only type is `struct s`, of the given members: offset in bits, `None` as the name is an
    /// anonymous `s`.
    fn struct_s(members: &[(Option<&str>, u32)]) -> Vec<u8> {
        let mut strings = b"\0s\0".to_vec();
        let mut types = vec![1, 4 << 24 | members.len() as u32, 8];
        for (name, offset) in members {
            let at = name.map_or(0, |name| {
                let at = strings.len() as u32;
                strings.extend([name.as_bytes(), b"\0"].concat());
                at
            });
            types.extend([at, 1, *offset]);
        }
        let length = (types.len() * 4) as u32;
        let header = [0xeb9f | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(strings).collect()
    }

    #[test]
    fn a_structure_that_contains_itself_ends_the_search() {
        let bytes = struct_s(&[(None, 8); 100]);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(offset_of(&btf, "s.x"), None);
    }

    #[test]
    fn an_offset_beyond_32_bits_is_no_offset() {
        let bytes = struct_s(&[(Some("a"), u32::MAX), (None, u32::MAX)]);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(offset_of(&btf, "s.a").map(|(offset, _)| offset), Some(u32::MAX / 8));
        let path = ["s"].into_iter().chain(std::iter::repeat_n("a", 9)).collect::<Vec<_>>().join(".");
        assert_eq!(offset_of(&btf, &path), None);
        // Found inside the anonymous member only.
        let bytes = struct_s(&[(None, u32::MAX), (Some("a"), 8)]);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(offset_of(&btf, "s.a").map(|(offset, _)| offset), Some(1));
    }

    #[test]
    fn the_running_kernel_has_every_field() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            nodewarden_testing::skip("this kernel shows no BTF");
            return;
        };
        let layout = Layout::from_btf(&Btf::parse(&bytes).unwrap());
        let globals: BTreeSet<&str> = needs().into_iter().flat_map(globals_of).collect();
        let found: BTreeSet<&str> = layout.globals.keys().copied().collect();
        assert!(found.is_subset(&globals));
        // In place of the ancestors until Linux 6.1.
        let globals = globals.into_iter().filter(|global| *global != "OFF_CGROUP_ANCESTOR_IDS");
        let globals: BTreeSet<&str> = globals.collect();
        let found: BTreeSet<&str> = found.intersection(&globals).copied().collect();
        let lacks = !layout.missing.is_empty() || layout.no_usages.is_some();
        assert!(found == globals || lacks, "{:?}", globals.difference(&found));
        assert_eq!(layout.globals.get("OFF_CSS_CGROUP"), Some(&0), "css.cgroup is the first field");
        assert!(layout.globals["OFF_TASK_TGID"] == layout.globals["OFF_TASK_PID"] + 4);
    }
}
