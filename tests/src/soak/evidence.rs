//! Compares the starts that containers recorded with what the agent reports: no container may start again
//! without a cause.

use std::collections::BTreeMap;

/// The contents of the manifest at each start, by uid and container.
type Starts = BTreeMap<(String, String), Vec<u64>>;

/// Reads the lines `<uid> <container> <content>` of a pod's file. An incomplete line, of a container that was
/// killed while it wrote, is ignored.
pub fn starts(text: &str) -> Starts {
    let mut starts = Starts::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        if let (Some(uid), Some(container), Some(Ok(content)), None) =
            (words.next(), words.next(), words.next().map(str::parse), words.next())
        {
            starts.entry((uid.to_owned(), container.to_owned())).or_default().push(content);
        }
    }
    starts
}

/// A container as the agent reports it.
pub struct Claim<'a> {
    pub uid: &'a str,
    pub container: &'a str,
    pub content: u64,
    pub restarts: u64,
    /// Whether it fails repeatedly, so that it may be waiting for its next start and have fewer starts.
    pub fails: bool,
}

/// Describes a contradiction between the recorded starts and the agent's claim. A restart may have no
/// recorded start, if the container was killed with the agent or with containerd before it wrote.
pub fn contradiction(claim: &Claim<'_>, starts: &Starts) -> Option<String> {
    let Claim { uid, container, content, restarts, fails } = *claim;
    let recorded = starts.get(&(uid.to_owned(), container.to_owned())).map(Vec::as_slice).unwrap_or_default();
    if let Some(other) = recorded.iter().find(|other| **other != content) {
        return Some(format!("{uid} {container} ran content {other}, not {content}"));
    }
    let begun = recorded.len() as u64;
    let wrong = begun > restarts + 1 || (begun == 0 && !fails);
    wrong.then(|| {
        format!("{uid} {container} started {begun} times and is reported to have {restarts} restarts")
    })
}

/// Describes containers that started more than once without a cause, also of pods that no longer exist.
/// `excused` says whether the journal has a cause for the container of this uid.
pub fn repeated<'a>(starts: &'a Starts, excused: &'a dyn Fn(&str, &str) -> bool) -> Vec<String> {
    starts
        .iter()
        .filter(|((uid, container), recorded)| recorded.len() > 1 && !excused(uid, container))
        .map(|((uid, container), recorded)| format!("{uid} {container} started {} times", recorded.len()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_by_pod_and_container() {
        let starts = starts("u c 1\nu c 1\nu d 1\nv c 2\nv\nv c x\n");
        assert_eq!(starts.len(), 3);
        assert_eq!(starts[&("u".to_owned(), "c".to_owned())], [1, 1]);
        assert_eq!(repeated(&starts, &|_, _| false), ["u c started 2 times"]);
        assert!(repeated(&starts, &|uid, _| uid == "u").is_empty());
    }

    #[test]
    fn a_claim_is_compared_with_the_recorded_starts() {
        let starts = starts("u c 1\nf c 1\nf c 1\n");
        let claim = |uid, content, restarts, fails| Claim { uid, container: "c", content, restarts, fails };
        for (claim, good) in [
            (claim("u", 1, 0, false), true),
            (claim("u", 2, 0, false), false),
            (claim("u", 1, 1, false), true),
            (claim("absent", 1, 0, false), false),
            (claim("absent", 1, 0, true), true),
            (claim("f", 1, 1, true), true),
            (claim("f", 1, 0, true), false),
            (claim("f", 1, 2, true), true),
            (claim("f", 1, 1, false), true),
            (claim("f", 1, 0, false), false),
        ] {
            assert_eq!(contradiction(&claim, &starts).is_none(), good, "{} {}", claim.uid, claim.restarts);
        }
    }
}
