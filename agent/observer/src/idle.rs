//! Which cgroups a reading may leave out: those in which nothing has run since the last one.

use std::iter::Peekable;
use std::vec;

/// The paths of the cgroups in which something ran, and of all above them: their files count what runs below.
/// In their order, each once.
pub(crate) struct WithParents<'a>(Peekable<vec::IntoIter<&'a str>>);

impl<'a> WithParents<'a> {
    /// `ran` is fastest if it is ordered.
    pub fn of(ran: impl Iterator<Item = &'a str>) -> Self {
        let mut paths = Vec::new();
        let mut last = "";
        for path in ran {
            let mut next = Some(path);
            while let Some(path) = next.filter(|path| !is_at_or_below(last, path)) {
                paths.push(path);
                next = parent(path);
            }
            last = path;
        }
        paths.sort_unstable();
        paths.dedup();
        Self(paths.into_iter().peekable())
    }

    /// Whether `path` is one of them. Asked for paths in their order only.
    pub fn has_next(&mut self, path: &str) -> bool {
        while self.0.next_if(|own| *own < path).is_some() {}
        self.0.next_if_eq(&path).is_some()
    }
}

impl<'a> Iterator for WithParents<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }
}

fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || above == "/" || rest.starts_with('/'))
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
        let of = |ran: &[&'static str]| WithParents::of(ran.iter().copied()).collect::<Vec<_>>();
        assert_eq!(of(&[]), <[&str; 0]>::default());
        assert_eq!(of(&["/"]), ["/"]);
        assert_eq!(of(&["/a"]), ["/", "/a"]);
        assert_eq!(
            of(&["/pods/p/c", "/pods/p/d", "/x"]),
            ["/", "/pods", "/pods/p", "/pods/p/c", "/pods/p/d", "/x"]
        );
        assert_eq!(of(&["/pods", "/pods/p"]), ["/", "/pods", "/pods/p"]);
        assert_eq!(of(&["/a-b", "/a/c", "/a"]), ["/", "/a", "/a-b", "/a/c"]);
    }

    #[test]
    fn paths_are_found_in_their_order() {
        let mut paths = WithParents::of(["/pods/p/c", "/pods/q"].into_iter());
        let asked =
            ["/", "/pods", "/pods/o", "/pods/p", "/pods/p-1", "/pods/p/c", "/pods/p/d", "/pods/q", "/r"];
        let found: Vec<&str> = asked.into_iter().filter(|path| paths.has_next(path)).collect();
        assert_eq!(found, ["/", "/pods", "/pods/p", "/pods/p/c", "/pods/q"]);
    }
}
