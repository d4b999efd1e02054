//! Sysctls of pods: which unsafe ones they may set, and which all of them have.

use std::collections::BTreeMap;

use nodewarden_manifest::dotted;

use crate::fields::{Fields, join};
use crate::gates::FeatureGates;

const DEFAULTS: &str = "defaultPodSysctls";

/// Whether a namespace of a pod may have a sysctl with this beginning of a name, in the form with dots.
fn is_namespaced(name: &str) -> bool {
    let exact = ["kernel.sem", "kernel.shm_rmid_forced", "kernel.domainname"];
    exact.contains(&name)
        || ["kernel.shm", "kernel.msg", "fs.mqueue.", "net.", "user."]
            .iter()
            .any(|start| name.starts_with(start))
}

/// `allowedUnsafeSysctls`, with the kubelet's rules for their form (`NewAllowlist`): a `*` only at the end of
/// a beginning, and only names that a namespace has.
pub(super) fn allowed(top: &mut Fields<'_>) -> Vec<String> {
    let key = "allowedUnsafeSysctls";
    let given = top.texts(key).unwrap_or_default();
    let is_form = |name: &str| {
        let bare = name.strip_suffix('*').unwrap_or(name);
        // `kernel.*` would allow what is not of the pod alone.
        let of_namespace = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net."];
        let named = bare.replace('/', ".");
        !bare.contains('*') && !bare.is_empty() && of_namespace.iter().any(|start| named.starts_with(start))
    };
    for name in given.iter().filter(|name| !is_form(name)) {
        top.refuse(key, name, "sysctls below kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*");
    }
    given
}

/// `defaultPodSysctls` (KEP-5996), with their names in the form with dots; two forms of one name are refused.
pub(super) fn defaults(top: &mut Fields<'_>, gates: FeatureGates) -> BTreeMap<String, String> {
    let given = top.text_map(DEFAULTS).unwrap_or_default();
    if !given.is_empty() && !gates.default_pod_sysctls {
        top.refuse(DEFAULTS, "a mapping", "nothing, or the feature gate DefaultPodSysctls");
    }
    let mut sysctls = BTreeMap::new();
    for (name, value) in given {
        let field = join(DEFAULTS, &name);
        let dotted = dotted(&name);
        if !is_namespaced(&dotted) || !dotted.bytes().all(|b| b.is_ascii_graphic() && b != b'*') {
            let expected = "a sysctl of a namespace: kernel.shm*, kernel.msg*, kernel.sem, kernel.domainname, fs.mqueue.*, \
                            net.* or user.*";
            top.refuse(&field, &name, expected);
        } else if sysctls.insert(dotted, value).is_some() {
            top.refuse(&field, &name, "each sysctl once");
        }
    }
    sysctls
}

#[cfg(test)]
mod tests {
    use crate::node::tests::{problems, read};
    use crate::{Overrides, parse};

    #[test]
    fn sysctls_of_all_pods_need_the_gate_and_a_namespace() {
        let gate = "featureGates: {DefaultPodSysctls: true}\n";
        let body = "defaultPodSysctls: {net.core.somaxconn: '1024', kernel/sem: 250 32000 32 128}";
        let config = read(&format!("{gate}{body}")).unwrap();
        let names: Vec<&String> = config.pods.default_sysctls.keys().collect();
        assert_eq!(names, ["kernel.sem", "net.core.somaxconn"]);
        assert_eq!(parse("again", &config.to_yaml(), &Overrides::default()).unwrap(), config);
        assert!(problems(body)[0].ends_with("expected nothing, or the feature gate DefaultPodSysctls"));
        for bad in
            ["kernel.panic: '1'", "vm.swappiness: '1'", "net.*: '1'", "net.a: '1', net/a: '2'", "net.a: 1"]
        {
            let found = problems(&format!("{gate}defaultPodSysctls: {{{bad}}}"));
            assert!(found.len() == 1 && found[0].starts_with("defaultPodSysctls."), "{bad}: {found:?}");
        }
    }
}
