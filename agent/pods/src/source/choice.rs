//! Which pods of all files stand, where some have the same name or uid. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Standing;
use nodewarden_manifest::Pod;

/// A pod and its file.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub pod: &'a Arc<Pod>,
    pub origin: Arc<str>,
}

/// What stands.
#[derive(Debug, Default)]
pub struct Choice<'a> {
    /// In the order of the candidates.
    pub pods: Vec<Candidate<'a>>,
    /// Of those that do not.
    pub problems: Vec<String>,
    pub standing: Standing,
}

/// Those that stood before go first, so that a new file never takes a running pod's place; then the first.
pub fn choose<'a>(candidates: Vec<Candidate<'a>>, before: &Standing) -> Choice<'a> {
    let mut choice = Choice::default();
    let mut uids: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    let mut names: BTreeMap<(&str, &str), Arc<str>> = BTreeMap::new();
    let mut takes = vec![false; candidates.len()];
    for stood in [true, false] {
        for (candidate, takes) in candidates.iter().zip(&mut takes) {
            let Candidate { pod, origin } = candidate;
            let pod: &'a Pod = pod;
            if before.is(&pod.namespace, &pod.name, origin) != stood {
                continue;
            }
            let name = (pod.namespace.as_str(), pod.name.as_str());
            if let Some(first) = uids.get(pod.uid.as_str()).or_else(|| names.get(&name)) {
                choice.problems.push(format!(
                    "{origin}: pod {}/{} (uid {}) is in {first} already and is left out here",
                    pod.namespace, pod.name, pod.uid
                ));
                continue;
            }
            uids.insert(&pod.uid, origin.clone());
            names.insert(name, origin.clone());
            choice.standing.set(&pod.namespace, &pod.name, origin);
            *takes = true;
        }
    }
    choice.pods = candidates.into_iter().zip(takes).filter(|(_, takes)| *takes).map(|(c, _)| c).collect();
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str) -> Arc<Pod> {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {uid}}}\nspec: {{containers: [{{name: c, image: i}}]}}"
        );
        Arc::new(nodewarden_manifest::manifest::parse(&text).remove(0).unwrap())
    }

    fn chosen(pods: &[(&str, &str, &str)], before: &Standing) -> (Vec<String>, usize, Standing) {
        let parsed: Vec<_> =
            pods.iter().map(|(file, name, uid)| (Arc::from(*file), pod(name, uid))).collect();
        let candidates = parsed.iter().map(|(origin, pod)| Candidate { pod, origin: Arc::clone(origin) });
        let choice = choose(candidates.collect(), before);
        let names = choice.pods.iter().map(|c| format!("{} {}", c.origin, c.pod.name)).collect();
        (names, choice.problems.len(), choice.standing)
    }

    #[test]
    fn the_first_or_who_stood_before() {
        let none = Standing::default();
        let (names, problems, standing) = chosen(&[("b", "x", "1"), ("c", "x", "2"), ("c", "y", "3")], &none);
        assert_eq!((names.join(", "), problems), ("b x, c y".into(), 1));
        // A file that sorts before it comes later.
        let (names, problems, standing) =
            chosen(&[("a", "x", "9"), ("b", "x", "1"), ("c", "y", "3"), ("d", "z", "3")], &standing);
        assert_eq!((names.join(", "), problems), ("b x, c y".into(), 2));
        let (names, problems, _) = chosen(&[("a", "x", "9"), ("d", "z", "3")], &standing);
        assert_eq!((names.join(", "), problems), ("a x, d z".into(), 0));
    }

    #[test]
    fn twice_in_one_file() {
        let (names, problems, standing) = chosen(&[("a", "x", "1"), ("a", "x", "2")], &Standing::default());
        assert_eq!((names.join(", "), problems), ("a x".into(), 1));
        assert!(standing.is("default", "x", "a") && !standing.is("default", "x", "b"));
    }
}
