//! Renamed keys of the `nodewarden:` section. The old name is accepted, with a warning.

use serde_yaml_ng::{Mapping, Value};

use super::Problem;

/// Section below `nodewarden` (empty: itself), old name, new name. A section that was renamed comes before
/// its keys.
pub const RENAMED: [(&[&str], &str, &str); 4] = [
    (&[], "feedback", "throttle"),
    (&["throttle", "cpu"], "leastMilliCPU", "minMilliCPU"),
    (&["throttle", "memory"], "least", "min"),
    (&["eviction"], "comeBack", "restartEvicted"),
];

/// Renames old keys. Returns one warning per old key; a key with both names is a problem.
pub fn replace(section: &mut Mapping, problems: &mut Vec<Problem>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (path, old, new) in RENAMED {
        let Some(map) = below(section, path) else { continue };
        if !map.contains_key(old) {
            continue;
        }
        let field = |key: &str| {
            ["nodewarden"].iter().chain(path).chain([&key]).copied().collect::<Vec<_>>().join(".")
        };
        if map.contains_key(new) {
            problems.push(Problem::new(
                &field(old),
                "set",
                &format!("only {}, which is its name now", field(new)),
            ));
            map.shift_remove(old);
            continue;
        }
        warnings.push(format!("{} is called {} now: the old name is still accepted", field(old), field(new)));
        if let Some(value) = map.shift_remove(old) {
            map.insert(new.into(), value);
        }
    }
    warnings
}

/// The mapping at this path; `None` if there is none.
fn below<'m>(section: &'m mut Mapping, path: &[&str]) -> Option<&'m mut Mapping> {
    path.iter().try_fold(section, |map, key| map.get_mut(*key).and_then(Value::as_mapping_mut))
}

#[cfg(test)]
mod tests {
    use crate::{Overrides, parse};

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    #[test]
    fn old_names_are_accepted_with_a_warning() {
        let old = "nodewarden: {feedback: {cpu: {leastMilliCPU: 99}, memory: {least: 2Mi}}, eviction: {comeBack: false}}";
        let new = "nodewarden: {throttle: {cpu: {minMilliCPU: 99}, memory: {min: 2Mi}}, eviction: {restartEvicted: false}}";
        let [old, new] =
            [old, new].map(|body| parse("f", &format!("{HEAD}{body}"), &Overrides::default()).unwrap());
        assert!(new.renamed.is_empty());
        assert_eq!(
            old.renamed,
            [
                "nodewarden.feedback is called nodewarden.throttle now: the old name is still accepted",
                "nodewarden.throttle.cpu.leastMilliCPU is called nodewarden.throttle.cpu.minMilliCPU now: the old name \
                 is still accepted",
                "nodewarden.throttle.memory.least is called nodewarden.throttle.memory.min now: the old name is still \
                 accepted",
                "nodewarden.eviction.comeBack is called nodewarden.eviction.restartEvicted now: the old name is still \
                 accepted",
            ]
        );
        assert_eq!((&old.throttle, &old.eviction), (&new.throttle, &new.eviction));
    }

    #[test]
    fn a_key_under_both_names_is_refused() {
        let body = "nodewarden: {eviction: {comeBack: false, restartEvicted: true}}";
        let error = parse("f", &format!("{HEAD}{body}"), &Overrides::default()).unwrap_err().to_string();
        assert!(
            error.contains(
                "nodewarden.eviction.comeBack: set: expected only nodewarden.eviction.restartEvicted"
            ),
            "{error}"
        );
    }
}
