//! Lists of CPUs as the kernel writes them: `0-3,7` (Documentation/admin-guide/kernel-parameters.rst, "cpu
//! lists").

use std::fmt;

/// The largest CPU number that is accepted (NR_CPUS is at most 8192).
const GREATEST: u32 = u16::MAX as u32;

/// A set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(
    /// First and last of each range, in order, without overlap and not adjoining.
    Vec<(u32, u32)>,
);

impl CpuList {
    /// Parses `text`. `None` if it is not such a list; an empty text and blanks are not accepted.
    pub fn parse(text: &str) -> Option<Self> {
        let range = |part| {
            let (first, last) = str::split_once(part, '-').unwrap_or((part, part));
            range(first, last)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self::new)
    }

    /// As [`Self::parse`], but as a cpuset file reads it: blanks around numbers and empty parts are allowed,
    /// so that an empty text is an empty list.
    ///
    /// # Errors
    /// The first part that is neither a number up to 65535 nor a range.
    pub fn parse_cpuset(text: &str) -> Result<Self, &str> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let range = |part| {
            let (first, last) = str::split_once(part, '-').unwrap_or((part, part));
            range(first.trim(), last.trim()).ok_or(part)
        };
        parts.map(range).collect::<Result<_, _>>().map(Self::new)
    }

    fn new(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// The CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// The number of CPUs.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self::new(cpus.into_iter().map(|cpu| (cpu, cpu)).collect())
    }
}

fn range(first: &str, last: &str) -> Option<(u32, u32)> {
    let (first, last) = (cpu(first)?, cpu(last)?);
    (first <= last).then_some((first, last))
}

/// The number of a CPU: digits alone.
fn cpu(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|cpu| digits && *cpu <= GREATEST)
}

/// As the kernel writes it: ranges in order, joined where they adjoin.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cpuset_lists_are_written_as_the_kernel_does() {
        for (list, expected) in [
            ("", Some("")),
            ("0,1", Some("0-1")),
            ("3,0-1,2\n", Some("0-3")),
            ("7,0-3", Some("0-3,7")),
            ("1-1", Some("1")),
            (" 1 - 2 ,, 5", Some("1-2,5")),
            ("x", None),
            ("3-1", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(
                CpuList::parse_cpuset(list).ok().map(|l| l.to_string()).as_deref(),
                expected,
                "{list:?}"
            );
        }
    }

    #[test]
    fn lists_are_counted() {
        for (list, count) in [
            ("0", Some(1)),
            ("0-1", Some(2)),
            ("0-3,8-11", Some(8)),
            ("0,2,4", Some(3)),
            ("4,0-1", Some(3)),
            ("0,0-1,1", Some(2)),
            ("0-9,2-3,5-11", Some(12)),
            ("", None),
            ("3-1", None),
            ("0-", None),
            ("1,,2", None),
            ("+1", None),
            ("0-70000", None),
        ] {
            assert_eq!(CpuList::parse(list).map(|l| l.count()), count, "{list}");
        }
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_set(ranges in prop::collection::vec((0..300u32, 0..40u32), 1..8)) {
            let list = ranges.iter().map(|(a, n)| format!("{a}-{}", a + n)).collect::<Vec<_>>().join(",");
            let set: std::collections::BTreeSet<u32> = ranges.iter().flat_map(|(a, n)| *a..=a + n).collect();
            prop_assert_eq!(CpuList::parse(&list).map(|l| l.count()), Some(set.len() as u32));
        }
    }
}
