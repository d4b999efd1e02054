//! Which cgroups a reading may leave out: those in which nothing has run since the last one.

use std::collections::HashSet;

/// The paths of the cgroups in which something ran, and of all above them: their files count what runs below.
pub(crate) fn with_parents<'a>(ran: impl Iterator<Item = &'a str>) -> HashSet<&'a str> {
    let mut paths = HashSet::new();
    for path in ran {
        let mut next = Some(path);
        while let Some(path) = next.filter(|path| paths.insert(*path)) {
            next = parent(path);
        }
    }
    paths
}

/// The path of the cgroup above; `None` for the root.
fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_a_cgroup_that_ran_is_read_too() {
        let of = |ran: &[&'static str]| {
            let mut paths: Vec<&str> = with_parents(ran.iter().copied()).into_iter().collect();
            paths.sort_unstable();
            paths
        };
        assert_eq!(of(&[]), <[&str; 0]>::default());
        assert_eq!(of(&["/"]), ["/"]);
        assert_eq!(of(&["/a"]), ["/", "/a"]);
        assert_eq!(
            of(&["/pods/p/c", "/pods/p/d", "/x"]),
            ["/", "/pods", "/pods/p", "/pods/p/c", "/pods/p/d", "/x"]
        );
        assert_eq!(of(&["/pods", "/pods/p"]), ["/", "/pods", "/pods/p"]);
    }
}
