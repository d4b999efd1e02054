//! Address ranges of the two kernel functions that distinguish kinds of OOM.

use std::fs::File;
use std::io::{BufRead, BufReader};

use super::error::KernelError;

/// Start and end address of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

/// Ranges of the functions that the OOM topic looks for on the stack; `None` where the kernel does not show
/// them (kptr_restrict, no CAP_SYSLOG, inlined).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomSymbols {
    pub memcg_out_of_memory: Option<Range>,
    pub oom_kill_process: Option<Range>,
}

const MEMCG_OUT_OF_MEMORY: &str = "mem_cgroup_out_of_memory";
const OOM_KILL_PROCESS: &str = "__oom_kill_process";

impl OomSymbols {
    /// Reads `/proc/kallsyms`, no further than needed: the kernel formats every line that is read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read() -> Result<Self, KernelError> {
        let path = "/proc/kallsyms";
        let error = |source| KernelError::Read { path: path.into(), source };
        let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(error)?);
        let mut search = Search::default();
        let mut line = Vec::new();
        while !search.is_done() && file.read_until(b'\n', &mut line).map_err(error)? > 0 {
            search.line(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(Self { memcg_out_of_memory: search.range(0), oom_kill_process: search.range(1) })
    }
}

/// Looks for both functions. A function ends where the next symbol begins: the kernel's own symbols are in
/// the order of their addresses (sort_symbols() in scripts/kallsyms.c).
#[derive(Debug, Default)]
pub(super) struct Search {
    starts: [u64; 2],
    ends: [u64; 2],
}

impl Search {
    pub(super) fn line(&mut self, line: &str) {
        let Some((address, name)) = parse(line) else { return };
        for (i, wanted) in [MEMCG_OUT_OF_MEMORY, OOM_KILL_PROCESS].iter().enumerate() {
            if self.starts[i] == 0 && name == *wanted {
                self.starts[i] = address;
            } else if self.starts[i] != 0 && self.ends[i] == 0 && address > self.starts[i] {
                self.ends[i] = address;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.ends.iter().all(|end| *end != 0)
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
