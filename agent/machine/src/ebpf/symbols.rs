//! Address ranges of the two kernel functions that distinguish kinds of OOM.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// Start and end address of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

/// Ranges of the functions that the OOM topic looks for on the stack; `None` where the kernel does not show
/// them (kptr_restrict, no CAP_SYSLOG, inlined).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomSymbols {
    pub memcg_out_of_memory: Option<Range>,
    pub oom_kill_process: Option<Range>,
    /// Why one of them is `None`, and what follows, in words.
    pub degraded: Option<String>,
}

const MEMCG_OUT_OF_MEMORY: &str = "mem_cgroup_out_of_memory";
const OOM_KILL_PROCESS: &str = "__oom_kill_process";
const KALLSYMS: &str = "/proc/kallsyms";

impl OomSymbols {
    /// Reads `/proc/kallsyms`, no further than needed: the kernel formats every line that is read.
    pub fn read() -> Self {
        match File::open(KALLSYMS) {
            Ok(file) => Self::find(BufReader::with_capacity(1 << 16, file)),
            Err(error) => {
                Self { degraded: Some(degraded(&format!("cannot be read: {error}"))), ..Self::default() }
            }
        }
    }

    /// Looks for the functions in a text like `/proc/kallsyms`.
    fn find(mut text: impl BufRead) -> Self {
        let mut search = Search::default();
        let mut line = Vec::new();
        while !search.is_done() {
            match text.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) if search.needs(&line) => search.line(&String::from_utf8_lossy(&line)),
                Ok(_) => {}
                Err(error) => {
                    return Self {
                        degraded: Some(degraded(&format!("cannot be read: {error}"))),
                        ..Self::default()
                    };
                }
            }
            line.clear();
        }
        let [memcg_out_of_memory, oom_kill_process] = [search.range(0), search.range(1)];
        Self { memcg_out_of_memory, oom_kill_process, degraded: search.lacks().map(|what| degraded(&what)) }
    }
}

/// What an OOM event lacks without the functions, and why.
fn degraded(kallsyms: &str) -> String {
    format!("scope unknown, and processes that were dying anyway count as killed: {KALLSYMS} {kallsyms}")
}

/// Looks for both functions. A function ends where the next symbol begins: the kernel's own symbols are in
/// the order of their addresses (sort_symbols() in scripts/kallsyms.c).
#[derive(Debug, Default)]
pub(super) struct Search {
    starts: [u64; 2],
    ends: [u64; 2],
    /// One of them has the address 0: the kernel shows no addresses to this process.
    hidden: bool,
}

impl Search {
    /// Whether a line can matter. There are a hundred thousand, and most cannot: they are not taken apart.
    fn needs(&self, line: &[u8]) -> bool {
        let names = [MEMCG_OUT_OF_MEMORY, OOM_KILL_PROCESS];
        let begun = self.starts.iter().zip(self.ends).any(|(start, end)| *start != 0 && end == 0);
        begun || names.iter().any(|name| line.trim_ascii_end().ends_with(name.as_bytes()))
    }

    pub(super) fn line(&mut self, line: &str) {
        let Some((address, name)) = parse(line) else { return };
        for (i, wanted) in [MEMCG_OUT_OF_MEMORY, OOM_KILL_PROCESS].iter().enumerate() {
            if self.starts[i] == 0 && name == *wanted {
                self.starts[i] = address;
                self.hidden |= address == 0;
            } else if self.starts[i] != 0 && self.ends[i] == 0 && address > self.starts[i] {
                self.ends[i] = address;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.ends.iter().all(|end| *end != 0)
    }

    /// Why a range is not known, in words.
    fn lacks(&self) -> Option<String> {
        if self.is_done() {
            return None;
        }
        if self.hidden {
            return Some("hides addresses: CAP_SYSLOG or kernel.kptr_restrict".to_owned());
        }
        let functions = [MEMCG_OUT_OF_MEMORY, OOM_KILL_PROCESS].into_iter().zip(self.ends);
        let missing: Vec<&str> = functions.filter(|(_, end)| *end == 0).map(|(name, _)| name).collect();
        Some(format!("has no {}", missing.join(" and no ")))
    }

    pub(super) fn range(&self, i: usize) -> Option<Range> {
        (self.ends[i] != 0).then_some(Range { start: self.starts[i], end: self.ends[i] })
    }
}

/// Address and name of a line such as `ffffffff81595b90 t mark_oom_victim`.
fn parse(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    words.next()?;
    Some((address, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_at_the_next_address() {
        let mut search = Search::default();
        for line in [
            "0000000000000000 A fixed_percpu_data",
            "ffffffff81000010 t __oom_kill_process",
            "ffffffff81000010 t __pfx_alias",
            "ffffffff81000090 t next",
            "ffffffff81000100 t mem_cgroup_out_of_memory",
        ] {
            search.line(line);
            assert!(!search.is_done());
        }
        assert_eq!(search.range(0), None);
        search.line("ffffffff81000180 t after");
        assert!(search.is_done());
        assert_eq!(search.range(0), Some(Range { start: 0xffff_ffff_8100_0100, end: 0xffff_ffff_8100_0180 }));
        assert_eq!(search.range(1), Some(Range { start: 0xffff_ffff_8100_0010, end: 0xffff_ffff_8100_0090 }));
    }

    #[test]
    fn hidden_addresses_are_no_range() {
        let mut search = Search::default();
        for name in ["__oom_kill_process", "x", "mem_cgroup_out_of_memory", "y"] {
            search.line(&format!("0000000000000000 t {name}"));
        }
        assert_eq!((search.range(0), search.range(1)), (None, None));
    }

    #[test]
    fn what_kallsyms_lacks_degrades_the_topic_with_the_reason() {
        let both = "ffffffff81000010 t __oom_kill_process\nffffffff81000090 t mem_cgroup_out_of_memory\n\
                    ffffffff81000100 t after\n";
        assert_eq!(OomSymbols::find(both.as_bytes()).degraded, None);
        let reason = |text: &str| OomSymbols::find(text.as_bytes()).degraded.unwrap_or_default();
        let start = "scope unknown, and processes that were dying anyway count as killed: /proc/kallsyms ";
        for (text, what) in [
            (
                "0000000000000000 t __oom_kill_process\n0000000000000000 T mem_cgroup_out_of_memory\n",
                "hides addresses: CAP_SYSLOG or kernel.kptr_restrict",
            ),
            (
                "ffffffff81000010 t mem_cgroup_out_of_memory\nffffffff81000090 t after\n",
                "has no __oom_kill_process",
            ),
            ("", "has no mem_cgroup_out_of_memory and no __oom_kill_process"),
        ] {
            assert_eq!(reason(text), format!("{start}{what}"), "{text:?}");
        }
    }

    #[test]
    fn lines() {
        assert_eq!(
            parse("ffffffff81595b90 t mark_oom_victim\n"),
            Some((0xffff_ffff_8159_5b90, "mark_oom_victim"))
        );
        assert_eq!(parse("ffffffffc0000000 t x\t[module]\n"), Some((0xffff_ffff_c000_0000, "x")));
        assert_eq!(parse(""), None);
        assert_eq!(parse("zzz t x"), None);
    }
}
