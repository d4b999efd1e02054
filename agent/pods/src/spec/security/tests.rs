use super::*;
use crate::spec::fixture::{Fixture, pod};

fn image(uid: Option<i64>, username: &str) -> cri::Image {
    cri::Image { uid: uid.map(id), username: username.to_owned(), ..Default::default() }
}

/// A pod's context and a container's, both as YAML.
fn context_of(
    of_pod: &str,
    own: &str,
    image: &cri::Image,
) -> Result<cri::LinuxContainerSecurityContext, SpecError> {
    let fixture = Fixture::new();
    let pod = pod(&format!("securityContext: {of_pod}\ncontainers: [{{name: c, securityContext: {own}}}]"));
    container(&pod, &pod.spec().containers[0], image, &fixture.host())
}

#[test]
fn defaults_without_a_security_context() {
    let sc = context_of("null", "null", &image(None, "")).unwrap();
    assert_eq!(sc.run_as_user, Some(id(0)));
    assert_eq!((sc.privileged, sc.readonly_rootfs, sc.no_new_privs), (false, false, false));
    assert_eq!((&sc.capabilities, &sc.apparmor, &sc.selinux_options), (&None, &None, &None));
    assert_eq!(sc.seccomp.unwrap().profile_type(), cri::security_profile::ProfileType::Unconfined);
    assert_eq!(sc.readonly_paths, READ_ONLY);
    assert_eq!(sc.masked_paths[..MASKED.len()], MASKED);
    let namespaces = sc.namespace_options.unwrap();
    assert_eq!(namespaces.pid(), cri::NamespaceMode::Container);
    assert_eq!((namespaces.network(), namespaces.ipc()), (cri::NamespaceMode::Pod, cri::NamespaceMode::Pod));
}

#[test]
fn the_containers_context_overrides_the_pods() {
    let of_pod = "{runAsUser: 1, runAsGroup: 2, fsGroup: 3, supplementalGroups: [4, 5], supplementalGroupsPolicy: Strict, seLinuxOptions: {level: s0}, seccompProfile: {type: RuntimeDefault}}";
    let sc = context_of(of_pod, "{}", &image(Some(9), "")).unwrap();
    assert_eq!((sc.run_as_user, sc.run_as_group), (Some(id(1)), Some(id(2))));
    assert_eq!(sc.supplemental_groups, [3, 4, 5]);
    assert_eq!(sc.supplemental_groups_policy, i32::from(cri::SupplementalGroupsPolicy::Strict));
    assert_eq!(sc.selinux_options.unwrap().level, "s0");
    assert_eq!(sc.seccomp, Some(seccomp::runtime_default()));
    let own = "{runAsUser: 7, runAsGroup: 8, seLinuxOptions: {role: r}, privileged: true, readOnlyRootFilesystem: true, capabilities: {add: [NET_ADMIN], drop: [ALL]}, seccompProfile: {type: Localhost, localhostProfile: a/b.json}, appArmorProfile: {type: Localhost, localhostProfile: p}}";
    let sc = context_of(of_pod, own, &image(Some(9), "")).unwrap();
    assert_eq!((sc.run_as_user, sc.run_as_group), (Some(id(7)), Some(id(8))));
    assert_eq!(sc.selinux_options.unwrap(), cri::SeLinuxOption { role: "r".into(), ..Default::default() });
    assert!(sc.privileged && sc.readonly_rootfs);
    let capabilities = sc.capabilities.unwrap();
    assert_eq!(
        (capabilities.add_capabilities, capabilities.drop_capabilities),
        (vec!["NET_ADMIN".into()], vec!["ALL".into()])
    );
    assert_eq!(sc.seccomp.unwrap().localhost_ref, "/seccomp/a/b.json");
    assert_eq!(sc.apparmor.unwrap().localhost_ref, "p");
}

#[test]
fn the_user_of_the_image_is_the_default() {
    let user = |image: &cri::Image, own: &str| {
        let sc = context_of("null", own, image).unwrap();
        (sc.run_as_user.map(|id| id.value), sc.run_as_username)
    };
    assert_eq!(user(&image(Some(12), ""), "{}"), (Some(12), String::new()));
    assert_eq!(user(&image(None, "web"), "{}"), (None, "web".into()));
    assert_eq!(user(&image(None, ""), "{}"), (Some(0), String::new()));
    assert_eq!(user(&image(None, "web"), "{runAsUser: 3}"), (Some(3), String::new()));
}

#[test]
fn run_as_non_root_is_enforced() {
    let refused = |of_pod: &str, own: &str, image: &cri::Image| {
        context_of(of_pod, own, image).map(drop).map_err(|error| {
            assert_eq!(error.reason().name(), "CreateContainerConfigError");
            error.to_string()
        })
    };
    let (root, number, name) = (image(None, ""), image(Some(5), ""), image(None, "web"));
    let must = "{runAsNonRoot: true}";
    assert_eq!(refused(must, "{}", &number), Ok(()));
    assert_eq!(refused(must, "{runAsUser: 3}", &name), Ok(()));
    assert_eq!(refused("null", "{runAsNonRoot: false}", &root), Ok(()));
    // The container's setting overrides the pod's in both directions.
    assert_eq!(refused(must, "{runAsNonRoot: false}", &root), Ok(()));
    let at = "(pod: \"p_ns(u)\", container: c)";
    assert_eq!(
        refused(must, "{}", &root),
        Err(format!("container has runAsNonRoot and image will run as root {at}"))
    );
    assert_eq!(
        refused("null", "{runAsNonRoot: true, runAsUser: 0}", &number),
        Err(format!("container's runAsUser breaks non-root policy {at}"))
    );
    assert_eq!(
        refused(must, "{}", &name),
        Err(format!(
            "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root {at}"
        ))
    );
}

#[test]
fn no_new_privileges_is_set_only_on_request() {
    let context_of = |own: &str| context_of("null", own, &image(None, "")).unwrap().no_new_privs;
    assert!(!context_of("{}") && !context_of("{allowPrivilegeEscalation: true}"));
    assert!(context_of("{allowPrivilegeEscalation: false}"));
}

#[test]
fn proc_unmasked() {
    let sc = context_of("null", "{procMount: Unmasked}", &image(None, "")).unwrap();
    assert!(sc.masked_paths.is_empty() && sc.readonly_paths.is_empty());
}

#[test]
fn namespaces_shared() {
    let context_of = |spec: &str| {
        let options = namespaces(&pod(&format!("{spec}\ncontainers: [{{name: c}}]")));
        [options.network(), options.pid(), options.ipc()]
    };
    use cri::NamespaceMode::{Container, Node, Pod};
    assert_eq!(context_of("hostNetwork: true"), [Node, Container, Pod]);
    assert_eq!(context_of("hostPID: true"), [Pod, Node, Pod]);
    assert_eq!(context_of("hostIPC: true"), [Pod, Container, Node]);
    assert_eq!(context_of("shareProcessNamespace: true"), [Pod, Pod, Pod]);
}

#[test]
fn seccomp_default_and_apparmor_by_annotation() {
    let mut fixture = Fixture::new();
    fixture.pods.seccomp_default = true;
    let mut pod = pod("containers: [{name: c}]");
    let of = |pod: &Pod, fixture: &Fixture| {
        container(pod, &pod.spec().containers[0], &image(None, ""), &fixture.host()).unwrap()
    };
    assert_eq!(of(&pod, &fixture).seccomp, Some(seccomp::runtime_default()));
    let key = "container.apparmor.security.beta.kubernetes.io/c";
    for (text, file) in [("runtime/default", Some("")), ("localhost/x", Some("x")), ("", None)] {
        pod.annotations.insert(key.into(), text.into());
        assert_eq!(of(&pod, &fixture).apparmor.map(|p| p.localhost_ref).as_deref(), file, "{text}");
    }
    pod.annotations.insert(key.into(), "nonsense".into());
    assert!(container(&pod, &pod.spec().containers[0], &image(None, ""), &fixture.host()).is_err());
}

#[test]
fn a_sandbox_is_privileged_with_one_container() {
    let context_of = |spec: &str| sandbox(&pod(spec));
    let sc = context_of(
        "securityContext: {runAsUser: 5, fsGroup: 6}\ninitContainers: [{name: i, securityContext: {privileged: true}}]\ncontainers: [{name: c}]",
    );
    assert!(sc.privileged);
    assert_eq!((sc.run_as_user, sc.supplemental_groups), (Some(id(5)), vec![6]));
    assert_eq!(sc.seccomp, Some(seccomp::runtime_default()));
    assert!(!context_of("containers: [{name: c}]").privileged);
}
