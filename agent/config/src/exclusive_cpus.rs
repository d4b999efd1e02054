//! When it is reported that others run on a container's exclusive CPUs: the section
//! `nodewarden.exclusiveCpus`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml_ng::Mapping;

use crate::fields::Fields;
use crate::reading::Reading;
use crate::show::Map;

/// Bounds on what others than the owner may use of an exclusive CPU. Beyond one of them the pod gets an
/// event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExclusiveCpuBounds {
    /// `disturbedMillisecondsPerSecond`: time of kernel threads, tasks of others, interrupts and softirqs
    /// together on one CPU in each second; `None` (0 in the file) for no bound.
    pub per_second: Option<Duration>,
    /// `longestMilliseconds`: time that one of them has the CPU at once; `None` (0 in the file) for no bound.
    pub longest: Option<Duration>,
}

impl Default for ExclusiveCpuBounds {
    fn default() -> Self {
        Self { per_second: Some(Duration::from_millis(50)), longest: Some(Duration::from_millis(10)) }
    }
}

const PER_SECOND_MS: RangeInclusive<u64> = 0..=1000;
const LONGEST_MS: RangeInclusive<u64> = 0..=60_000;

/// Reads the section.
pub fn take(map: Mapping, reading: &mut Reading) -> ExclusiveCpuBounds {
    let default = ExclusiveCpuBounds::default();
    let mut f = Fields::new("nodewarden.exclusiveCpus", map, Vec::new(), reading);
    let mut bound = |key, default, range| {
        let milliseconds = f.number(key, shown(default), range);
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    };
    let per_second = bound("disturbedMillisecondsPerSecond", default.per_second, &PER_SECOND_MS);
    let longest = bound("longestMilliseconds", default.longest, &LONGEST_MS);
    f.finish();
    ExclusiveCpuBounds { per_second, longest }
}

pub(crate) fn show(bounds: &ExclusiveCpuBounds) -> Mapping {
    let mut map = Map::default();
    map.put("disturbedMillisecondsPerSecond", shown(bounds.per_second));
    map.put("longestMilliseconds", shown(bounds.longest));
    map.0
}

fn shown(bound: Option<Duration>) -> u64 {
    bound.map_or(0, |bound| bound.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (ExclusiveCpuBounds, Vec<String>) {
        let mut reading = Reading::default();
        let bounds = take(serde_yaml_ng::from_str(text).expect("a mapping"), &mut reading);
        (bounds, reading.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key() {
        let expected = ExclusiveCpuBounds {
            per_second: Some(Duration::from_millis(7)),
            longest: Some(Duration::from_millis(3)),
        };
        let text = "{disturbedMillisecondsPerSecond: 7, longestMilliseconds: 3}";
        assert_eq!(read(text), (expected, Vec::new()));
        assert_eq!(read("{}"), (ExclusiveCpuBounds::default(), Vec::new()));
        let none = ExclusiveCpuBounds { per_second: None, longest: None };
        assert_eq!(read("{disturbedMillisecondsPerSecond: 0, longestMilliseconds: 0}"), (none, Vec::new()));
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for text in ["{}", "{longestMilliseconds: 0}", "{disturbedMillisecondsPerSecond: 1000}"] {
            let (bounds, _) = read(text);
            assert_eq!(take(show(&bounds), &mut Reading::default()), bounds, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            (
                "{disturbedMillisecondsPerSecond: 1001}",
                "nodewarden.exclusiveCpus.disturbedMillisecondsPerSecond: 1001: expected a whole number from 0 to 1000",
            ),
            ("{longestMilliseconds: -1}", "nodewarden.exclusiveCpus.longestMilliseconds"),
            ("{longest: 1}", "nodewarden.exclusiveCpus.longest: unknown key"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|p| p.contains(part)), "{text}: {problems:?}");
        }
    }
}
