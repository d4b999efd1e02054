//! Reservations for the system and for Kubernetes, and their enforcement.

use crate::cgroup_path;
use crate::fields::{Fields, shown};
use crate::node::{Enforce, NodeSettings};
use crate::resource_managers;
use crate::shape::Shape;
use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::{Quantity, ResourceList};
use strum::VariantNames;

/// Resources that can be reserved (the kubelet's `parseResourceList`).
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

const ENFORCE: &str = "enforceNodeAllocatable";
const NONE: &str = "none";
const WORD: Shape = Shape::OneOf {
    names: &[
        NONE,
        "pods",
        "system-reserved",
        "kube-reserved",
        "system-reserved-compressible",
        "kube-reserved-compressible",
    ],
    empty: false,
};

/// Reads the keys; returns the CPUs of `reservedSystemCPUs`.
pub fn take(top: &mut Fields<'_>, settings: &mut NodeSettings) -> CpuSet {
    settings.kube_reserved = reserved(top, "kubeReserved");
    settings.system_reserved = reserved(top, "systemReserved");
    settings.kube_reserved_cgroup = cgroup_path::take_below_root(top, "kubeReservedCgroup");
    settings.system_reserved_cgroup = cgroup_path::take_below_root(top, "systemReservedCgroup");
    let cpus = reserved_cpus(top, settings);
    if let Some(words) = top.texts_of(ENFORCE, &WORD) {
        settings.enforce = enforce(top, &words);
    }
    check(top, settings);
    cpus
}

/// Reads `kubeReserved` or `systemReserved`.
fn reserved(top: &mut Fields<'_>, key: &'static str) -> ResourceList {
    let mut list = ResourceList::new();
    for (name, text) in top.text_map(key).unwrap_or_default() {
        let field = format!("{key}.{name}");
        if !RESERVABLE.contains(&name.as_str()) {
            top.refuse(&field, "unknown resource", &format!("one of {}", RESERVABLE.join(", ")));
            continue;
        }
        match Quantity::parse(&text) {
            Ok(quantity) if quantity >= Quantity::default() => {
                list.insert(name, quantity);
            }
            _ => top.refuse(&field, &shown(&text.into()), "an amount from 0 like 500m or 1Gi"),
        }
    }
    list
}

/// Reads `reservedSystemCPUs`: as in the kubelet, the number of its CPUs replaces both reservations of CPU.
fn reserved_cpus(top: &mut Fields<'_>, settings: &mut NodeSettings) -> CpuSet {
    let key = "reservedSystemCPUs";
    let cpus = top.text(key, "CPUs as a list like 0-1,4", |t| match t {
        "" => Some(CpuSet::default()),
        list => resource_managers::cpus(list),
    });
    let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) else { return CpuSet::default() };
    let cgroups = [
        ("kubeReservedCgroup", &settings.kube_reserved_cgroup),
        ("systemReservedCgroup", &settings.system_reserved_cgroup),
    ];
    for (other, cgroup) in cgroups {
        if let Some(cgroup) = cgroup {
            top.refuse(other, cgroup, &format!("nothing, because {key} is set"));
        }
    }
    settings.kube_reserved.remove("cpu");
    settings
        .system_reserved
        .insert("cpu".to_owned(), Quantity::from_whole(cpus.len().try_into().unwrap_or(i64::MAX)));
    cpus
}

/// The values of `enforceNodeAllocatable`, in the order of [`Enforce`].
fn enforce(top: &mut Fields<'_>, words: &[String]) -> Vec<Enforce> {
    let mut found = Vec::new();
    for (i, word) in words.iter().enumerate() {
        if words[..i].contains(word) {
            top.refuse(ENFORCE, word, "each word once");
        } else if word == NONE {
            if words.len() > 1 {
                top.refuse(ENFORCE, NONE, "none alone, or only other words");
            }
        } else if let Ok(known) = word.parse::<Enforce>() {
            found.push(known);
        } else {
            let names = Enforce::VARIANTS.join(", ");
            top.refuse(ENFORCE, &shown(&word.as_str().into()), &format!("{NONE}, {names}"));
        }
    }
    found.sort_unstable();
    found
}

/// Checks the keys that the values of `enforceNodeAllocatable` require.
fn check(top: &mut Fields<'_>, settings: &NodeSettings) {
    let has = |word| settings.enforce.contains(&word);
    for (whole, compressible, key, cgroup) in [
        (
            Enforce::SystemReserved,
            Enforce::SystemReservedCompressible,
            "systemReservedCgroup",
            &settings.system_reserved_cgroup,
        ),
        (
            Enforce::KubeReserved,
            Enforce::KubeReservedCompressible,
            "kubeReservedCgroup",
            &settings.kube_reserved_cgroup,
        ),
    ] {
        if has(whole) && has(compressible) {
            top.refuse(ENFORCE, compressible.name(), &format!("not together with {}", whole.name()));
        }
        for word in [whole, compressible] {
            if has(word) && cgroup.is_none() && !top.has_problem(key) {
                top.refuse(key, "", &format!("the cgroup that {} of {ENFORCE} limits", word.name()));
                break;
            }
        }
    }
    if !settings.cgroups_per_qos && !settings.enforce.is_empty() {
        let words = settings.enforce.iter().map(|e| e.name()).collect::<Vec<_>>().join(", ");
        top.refuse(
            "cgroupsPerQOS",
            "false",
            &format!("true, because {ENFORCE} has {words} (none turns it off)"),
        );
    }
}
