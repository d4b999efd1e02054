//! Address ranges of the two kernel functions that tell one kind of OOM from another.

use std::fs::File;
use std::io::{BufRead, BufReader};

use super::error::KernelError;

/// Start and end address of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

/// Ranges of the functions the OOM topic looks for on the stack; `None` where the kernel does not show them
/// (kptr_restrict, no CAP_SYSLOG, inlined).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomSymbols {
    pub memcg_out_of_memory: Option<Range>,
    pub oom_kill_process: Option<Range>,
}

const MEMCG_OUT_OF_MEMORY: &str = "mem_cgroup_out_of_memory";
const OOM_KILL_PROCESS: &str = "__oom_kill_process";

impl OomSymbols {
    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read() -> Result<Self, KernelError> {
        let path = "/proc/kallsyms";
        let error = |source| KernelError::Read { path: path.into(), source };
        let mut starts = [0u64; 2];
        let mut ends = [u64::MAX; 2];
        let mut line = String::new();
        // Two passes, since the file is not wholly sorted and holding a hundred thousand addresses is waste.
        for pass in 0..2 {
            let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(error)?);
            loop {
                line.clear();
                if file.read_line(&mut line).map_err(error)? == 0 {
                    break;
                }
                let Some((address, name)) = parse(&line) else { continue };
                for (i, wanted) in [MEMCG_OUT_OF_MEMORY, OOM_KILL_PROCESS].iter().enumerate() {
                    if pass == 0 && name == *wanted {
                        starts[i] = address;
                    } else if pass == 1 && address > starts[i] && address < ends[i] {
                        ends[i] = address;
                    }
                }
            }
            if starts == [0; 2] {
                break;
            }
        }
        let range = |i: usize| {
            (starts[i] != 0 && ends[i] != u64::MAX).then(|| Range { start: starts[i], end: ends[i] })
        };
        Ok(Self { memcg_out_of_memory: range(0), oom_kill_process: range(1) })
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
