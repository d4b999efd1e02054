//! Lists of CPUs as cpuset files write them: `0-3,7`.

use std::collections::BTreeSet;

/// The greatest CPU number that is believed (NR_CPUS is at most 8192).
const GREATEST: u32 = 1 << 16;

/// The list as the kernel writes it: ranges in order, joined where they touch. `None` if it is no such list.
pub fn canonical(list: &str) -> Option<String> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
            None => {
                let cpu: u32 = part.trim().parse().ok()?;
                (cpu, cpu)
            }
        };
        if first > last || last > GREATEST {
            return None;
        }
        cpus.extend(first..=last);
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    Some(ranges.iter().map(text).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_kernel_writes_it() {
        for (list, expected) in [
            ("", Some("")),
            ("0,1", Some("0-1")),
            ("3,0-1,2\n", Some("0-3")),
            ("7,0-3", Some("0-3,7")),
            ("1-1", Some("1")),
            ("x", None),
            ("3-1", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(canonical(list).as_deref(), expected, "{list:?}");
        }
    }
}
