//! Security contexts (`ValidateSecurityContext`, `validatePodSpecSecurityContext`).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};

use super::report::Report;
use crate::sysctl::{SAFE, dotted, is_ipc};

const MOST_ID: i64 = i32::MAX as i64;
/// Longest name of an AppArmor profile, in bytes.
const LONGEST_PROFILE: usize = 4095;

pub(super) fn pod(spec: &PodSpec, report: &mut Report) {
    let Some(context) = &spec.security_context else { return };
    let place = "spec.securityContext";
    let ids = [
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
    ];
    for (field, id) in ids {
        report.number(format!("{place}.{field}"), id, 0, MOST_ID);
    }
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        report.number(format!("{place}.supplementalGroups[{index}]"), Some(*group), 0, MOST_ID);
    }
    let policy = context.supplemental_groups_policy.as_deref();
    report.word(format!("{place}.supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    let policy = context.fs_group_change_policy.as_deref();
    report.word(format!("{place}.fsGroupChangePolicy"), policy, &["OnRootMismatch", "Always"]);
    let policy = context.se_linux_change_policy.as_deref();
    report.word(format!("{place}.seLinuxChangePolicy"), policy, &["Recursive", "MountOption"]);
    seccomp(context.seccomp_profile.as_ref(), place, report);
    apparmor(context.app_armor_profile.as_ref(), place, report);
    sysctls(context, spec, report);
}

pub(super) fn container(context: &SecurityContext, place: &str, report: &mut Report) {
    let place = format!("{place}.securityContext");
    report.number(format!("{place}.runAsUser"), context.run_as_user, 0, MOST_ID);
    report.number(format!("{place}.runAsGroup"), context.run_as_group, 0, MOST_ID);
    seccomp(context.seccomp_profile.as_ref(), &place, report);
    apparmor(context.app_armor_profile.as_ref(), &place, report);
    report.word(format!("{place}.procMount"), context.proc_mount.as_deref(), &["Default", "Unmasked"]);
    if context.proc_mount.as_deref() == Some("Unmasked") {
        let expected = "must be Default: Unmasked needs hostUsers false, which this agent does not support";
        report.add(format!("{place}.procMount"), "Unmasked", expected);
    }
    if context.windows_options.is_some() {
        report.add(format!("{place}.windowsOptions"), "", "must not be set: this is Linux");
    }
    if context.allow_privilege_escalation == Some(false) {
        let field = format!("{place}.allowPrivilegeEscalation");
        if context.privileged == Some(true) {
            report.add(&field, "false", "must not be false together with privileged: true");
        }
        let added = context.capabilities.as_ref().and_then(|all| all.add.as_deref()).unwrap_or_default();
        if added.iter().any(|name| name == "CAP_SYS_ADMIN") {
            report.add(field, "false", "must not be false together with capability CAP_SYS_ADMIN");
        }
    }
}

fn seccomp(profile: Option<&SeccompProfile>, place: &str, report: &mut Report) {
    let Some(SeccompProfile { localhost_profile, type_ }) = profile else { return };
    let place = format!("{place}.seccompProfile");
    report.word(format!("{place}.type"), Some(type_), &["RuntimeDefault", "Unconfined", "Localhost"]);
    let field = format!("{place}.localhostProfile");
    let file = localhost_profile.as_deref();
    match (type_.as_str(), file) {
        ("Localhost", None | Some("")) => report.add(field, "", "is required with type Localhost"),
        ("Localhost", Some(file)) => report.descending(&field, file),
        (_, Some(file)) => report.add(field, file, "must only be set with type Localhost"),
        (_, None) => {}
    }
}

fn apparmor(profile: Option<&AppArmorProfile>, place: &str, report: &mut Report) {
    let Some(AppArmorProfile { localhost_profile, type_ }) = profile else { return };
    let place = format!("{place}.appArmorProfile");
    report.word(format!("{place}.type"), Some(type_), &["RuntimeDefault", "Unconfined", "Localhost"]);
    let field = format!("{place}.localhostProfile");
    match (type_.as_str(), localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => report.add(field, "", "is required with type Localhost"),
        ("Localhost", Some(name)) if name.trim() != name || name.len() > LONGEST_PROFILE => {
            let expected = format!("must be at most {LONGEST_PROFILE} bytes without white space at an end");
            report.add(field, name, expected);
        }
        ("Localhost", _) | (_, None) => {}
        (_, Some(name)) => report.add(field, name, "must only be set with type Localhost"),
    }
}

fn sysctls(context: &PodSecurityContext, spec: &PodSpec, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let field = format!("spec.securityContext.sysctls[{index}].name");
        let name = dotted(&sysctl.name);
        // Pods of an API server are rejected for these with the kubelet's reason, see `forbidden_sysctl`.
        let network = !report.is_api() && spec.host_network.unwrap_or(false) && name.starts_with("net.");
        let ipc = !report.is_api() && spec.host_ipc.unwrap_or(false) && is_ipc(&name);
        if sysctl.name.is_empty() {
            report.required(field);
        } else if !seen.insert(name.clone()) {
            report.add(field, &sysctl.name, "must be named once");
        } else if network {
            report.add(field, &sysctl.name, "must not be set together with spec.hostNetwork");
        } else if ipc {
            report.add(field, &sysctl.name, "must not be set together with spec.hostIPC");
        } else if !report.is_api() && !SAFE.contains(&name.as_str()) {
            let expected = "must be a safe sysctl: no other is allowed on this node";
            report.add(field, &sysctl.name, expected);
        }
    }
}
