//! Security contexts (kubelet kuberuntime/security_context_linux.go, pkg/securitycontext).

use std::path::Path;
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::{self, PodSecurityContext, SELinuxOptions, SecurityContext};
use nodewarden_proto::runtime::v1 as cri;

use super::{Host, SpecError, seccomp};
use nodewarden_manifest::Pod;

/// Paths hidden from a container, unless its `procMount` is Unmasked.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Paths that are read-only in a container, unless its `procMount` is Unmasked.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The security context of a container. The user is that of `image` if the manifest has none.
///
/// # Errors
/// `runAsNonRoot` is set and the container would run as root or as an unknown user; or a profile has an
/// unknown type.
pub(super) fn container(
    pod: &Pod,
    container: &v1::Container,
    image: &cri::Image,
    host: &Host,
) -> Result<cri::LinuxContainerSecurityContext, SpecError> {
    let of_pod = pod.spec().security_context.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let run_as_user = own.run_as_user.or(of_pod.run_as_user);
    let user = ImageUser::of(image);
    if own.run_as_non_root.or(of_pod.run_as_non_root).unwrap_or(false) {
        verify_non_root(run_as_user, &user, pod, &container.name)?;
    }
    let (run_as_user, run_as_username) = match (run_as_user, user) {
        (Some(id), _) | (None, ImageUser::Id(id)) => (Some(id), String::new()),
        (None, ImageUser::Name(name)) => (None, name),
    };
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    Ok(cri::LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|c| cri::Capability {
            add_capabilities: c.add.clone().unwrap_or_default(),
            drop_capabilities: c.drop.clone().unwrap_or_default(),
        }),
        privileged: own.privileged.unwrap_or(false),
        namespace_options: Some(namespaces(pod)),
        selinux_options: own.se_linux_options.or(of_pod.se_linux_options.clone()).map(selinux),
        run_as_user: run_as_user.map(id),
        run_as_username,
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups: supplemental_groups(&of_pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        run_as_group: own.run_as_group.or(of_pod.run_as_group).map(id),
        masked_paths: if unmasked { Vec::new() } else { masked_paths().to_vec() },
        readonly_paths: if unmasked { Vec::new() } else { READ_ONLY.map(str::to_owned).into() },
        seccomp: Some(seccomp::seccomp(pod, container, host)?),
        apparmor: seccomp::apparmor(pod, container)?,
        supplemental_groups_policy: groups_policy(&of_pod),
    })
}

/// The security context of the sandbox.
pub(super) fn sandbox(pod: &Pod) -> cri::LinuxSandboxSecurityContext {
    let of_pod = pod.spec().security_context.clone().unwrap_or_default();
    cri::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        selinux_options: of_pod.se_linux_options.clone().map(selinux),
        run_as_user: of_pod.run_as_user.map(id),
        readonly_rootfs: false,
        supplemental_groups: supplemental_groups(&of_pod),
        privileged: nodewarden_manifest::parts(pod).any(|c| is_privileged(c.security_context.as_ref())),
        run_as_group: of_pod.run_as_group.map(id),
        seccomp: Some(seccomp::runtime_default()),
        apparmor: None,
        supplemental_groups_policy: groups_policy(&of_pod),
    }
}

fn is_privileged(context: Option<&SecurityContext>) -> bool {
    context.and_then(|context| context.privileged).unwrap_or(false)
}

fn id(value: i64) -> cri::Int64Value {
    cri::Int64Value { value }
}

fn selinux(options: SELinuxOptions) -> cri::SeLinuxOption {
    let SELinuxOptions { level, role, type_, user } = options;
    cri::SeLinuxOption {
        user: user.unwrap_or_default(),
        role: role.unwrap_or_default(),
        r#type: type_.unwrap_or_default(),
        level: level.unwrap_or_default(),
    }
}

/// `fsGroup` first, as in the kubelet.
fn supplemental_groups(of_pod: &PodSecurityContext) -> Vec<i64> {
    of_pod.fs_group.into_iter().chain(of_pod.supplemental_groups.iter().flatten().copied()).collect()
}

fn groups_policy(of_pod: &PodSecurityContext) -> i32 {
    match of_pod.supplemental_groups_policy.as_deref() {
        Some("Strict") => cri::SupplementalGroupsPolicy::Strict.into(),
        _ => cri::SupplementalGroupsPolicy::Merge.into(),
    }
}

/// Kubelet pkg/kubelet/container/namespaces.go.
fn namespaces(pod: &Pod) -> cri::NamespaceOption {
    let spec = &pod.spec();
    let set = |field: Option<bool>| field.unwrap_or(false);
    let node_or_pod = |host| if host { cri::NamespaceMode::Node } else { cri::NamespaceMode::Pod };
    let pid = match (set(spec.host_pid), set(spec.share_process_namespace)) {
        (true, _) => cri::NamespaceMode::Node,
        (_, true) => cri::NamespaceMode::Pod,
        _ => cri::NamespaceMode::Container,
    };
    cri::NamespaceOption {
        network: node_or_pod(set(spec.host_network)).into(),
        pid: pid.into(),
        ipc: node_or_pod(set(spec.host_ipc)).into(),
        target_id: String::new(),
    }
}

/// The user that an image specifies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ImageUser {
    Id(i64),
    Name(String),
}

impl ImageUser {
    /// The user of the image; root if it specifies none.
    fn of(image: &cri::Image) -> Self {
        match &image.uid {
            Some(uid) => Self::Id(uid.value),
            None if image.username.is_empty() => Self::Id(0),
            None => Self::Name(image.username.clone()),
        }
    }
}

/// Kubelet `verifyRunAsNonRoot`.
fn verify_non_root(
    run_as_user: Option<i64>,
    user: &ImageUser,
    pod: &Pod,
    container: &str,
) -> Result<(), SpecError> {
    let container = container.to_owned();
    let pod = format!("{}_{}({})", pod.name, pod.namespace, pod.uid);
    match (run_as_user, user) {
        (Some(0), _) => Err(SpecError::RunsAsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Id(0)) => Err(SpecError::ImageRunsAsRoot { pod, container }),
        (None, ImageUser::Id(_)) => Ok(()),
        (None, ImageUser::Name(user)) => {
            Err(SpecError::ImageUserNotNumeric { user: user.clone(), pod, container })
        }
    }
}

/// [`MASKED`], and the thermal event counters of each processor if the machine has them; read from
/// sysfs by the first call.
pub fn masked_paths() -> &'static [String] {
    static PATHS: OnceLock<Vec<String>> = OnceLock::new();
    PATHS.get_or_init(|| {
        let mut paths = MASKED.map(str::to_owned).to_vec();
        let processors = (0..).map(|n| format!("/sys/devices/system/cpu/cpu{n}"));
        let present = processors.take_while(|path| Path::new(path).exists());
        paths.extend(present.map(|path| path + "/thermal_throttle").filter(|path| Path::new(path).exists()));
        paths
    })
}

#[cfg(test)]
mod tests;
