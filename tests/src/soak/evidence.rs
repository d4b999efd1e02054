//! What containers said of their starts, against what the agent says of them: no container began again without a cause.

use std::collections::BTreeMap;

/// A start: uid and container, and the content that the manifest had.
type Starts = BTreeMap<(String, String), Vec<u64>>;

/// The lines `<uid> <container> <content>` of one pod's file. Half a line (of a container that was killed as it wrote)
/// is left out.
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

/// One container as the agent shows it.
pub struct Claim<'a> {
    pub uid: &'a str,
    pub container: &'a str,
    pub content: u64,
    pub restarts: u64,
    /// Whether it may wait for its next start at any time, so that it has begun less often.
    pub fails: bool,
}

/// What is wrong with what a container said of itself. Each restart may stand for a start that died with the agent or
/// with containerd before the container's first word.
pub fn contradiction(claim: &Claim<'_>, starts: &Starts) -> Option<String> {
    let Claim { uid, container, content, restarts, fails } = *claim;
    let said = starts.get(&(uid.to_owned(), container.to_owned())).map(Vec::as_slice).unwrap_or_default();
    if let Some(other) = said.iter().find(|other| **other != content) {
        return Some(format!("{uid} {container} ran content {other}, not {content}"));
    }
    let begun = said.len() as u64;
    let wrong = begun > restarts + 1 || (begun == 0 && !fails);
    wrong.then(|| format!("{uid} {container} began {begun} times and is said to have {restarts} restarts"))
}

/// Pods that are no more, too: a container that never ends by itself began once at most, unless something in the journal
/// says why. `excused` are uids with such an event.
pub fn repeated<'a>(starts: &'a Starts, excused: &'a dyn Fn(&str, &str) -> bool) -> Vec<String> {
    starts
        .iter()
        .filter(|((uid, container), said)| said.len() > 1 && !excused(uid, container))
        .map(|((uid, container), said)| format!("{uid} {container} began {} times", said.len()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_by_pod_and_container() {
        let starts = starts("u c 1\nu c 1\nu d 1\nv c 2\nv\nv c x\n");
        assert_eq!(starts.len(), 3);
        assert_eq!(starts[&("u".to_owned(), "c".to_owned())], [1, 1]);
        assert_eq!(repeated(&starts, &|_, _| false), ["u c began 2 times"]);
        assert!(repeated(&starts, &|uid, _| uid == "u").is_empty());
    }

    #[test]
    fn a_claim_and_what_was_said() {
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
