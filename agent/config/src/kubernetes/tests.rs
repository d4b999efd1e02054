//! The keys of the node in a cluster.

use std::time::Duration;

use crate::{Config, ConfigError, Mode, Overrides, PriorityGrace, Taint, TaintEffect, parse};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn read(body: &str) -> Result<Config, ConfigError> {
    parse("test.yaml", &format!("{HEAD}{body}"), &Overrides::default())
}

#[test]
fn a_kubeconfig_means_mode_manage_unless_said_otherwise() {
    for (body, mode) in [
        ("", Mode::Observe),
        ("nodewarden: {kubernetes: {kubeconfig: /k}}", Mode::Manage),
        ("nodewarden: {kubernetes: {inCluster: true}}", Mode::Manage),
        ("nodewarden: {mode: observe, kubernetes: {kubeconfig: /k}}", Mode::Observe),
        ("nodewarden: {mode: augment, kubernetes: {inCluster: true}}", Mode::Augment),
    ] {
        assert_eq!(read(body).unwrap().mode, mode, "{body}");
    }
}

#[test]
fn the_report_frequency_follows_the_update_frequency() {
    for (body, update, report) in [
        ("", 10, 300),
        ("nodeStatusUpdateFrequency: 4s", 4, 4),
        ("nodeStatusUpdateFrequency: 4s\nnodeStatusReportFrequency: 1m", 4, 60),
        ("nodeStatusReportFrequency: 1m", 10, 60),
        ("nodeStatusUpdateFrequency: 0s\nnodeStatusReportFrequency: 0s", 10, 300),
    ] {
        let settings = read(body).unwrap().kubernetes;
        let both = (settings.status_update_frequency.as_secs(), settings.status_report_frequency.as_secs());
        assert_eq!(both, (update, report), "{body}");
    }
}

#[test]
fn one_problem_each() {
    for (body, field) in [
        ("nodewarden: {kubernetes: {kubeconfig: k}}", "nodewarden.kubernetes.kubeconfig"),
        ("nodewarden: {kubernetes: {kubeconfig: /k, inCluster: true}}", "nodewarden.kubernetes.inCluster"),
        ("nodewarden: {kubernetes: {bootstrapKubeconfig: /b}}", "nodewarden.kubernetes.kubeconfig"),
        ("nodewarden: {kubernetes: {nodeIP: '10.0.0.1,10.0.0.2'}}", "nodewarden.kubernetes.nodeIP"),
        ("nodewarden: {kubernetes: {nodeIP: '127.0.0.1'}}", "nodewarden.kubernetes.nodeIP"),
        ("nodewarden: {kubernetes: {nodeIP: '0.0.0.0,::'}}", "nodewarden.kubernetes.nodeIP"),
        (
            "nodewarden: {kubernetes: {nodeLabels: {node-role.kubernetes.io/x: ''}}}",
            "nodewarden.kubernetes.nodeLabels.node-role.kubernetes.io/x",
        ),
        ("nodewarden: {kubernetes: {cloudProvider: aws}}", "nodewarden.kubernetes.cloudProvider"),
        ("registerWithTaints: [{key: a, effect: Never}]", "registerWithTaints[0]"),
        ("registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: x}]", "registerWithTaints[0]"),
        (
            "registerWithTaints: [{key: a, effect: NoExecute}, {key: a, value: b, effect: NoExecute}]",
            "registerWithTaints[1]",
        ),
        ("tlsCertFile: /c", "tlsPrivateKeyFile"),
        ("nodeLeaseDurationSeconds: 0", "nodeLeaseDurationSeconds"),
        ("nodeStatusMaxImages: -2", "nodeStatusMaxImages"),
        ("shutdownGracePeriod: 5s\nshutdownGracePeriodCriticalPods: 6s", "shutdownGracePeriodCriticalPods"),
        ("shutdownGracePeriod: 5ms", "shutdownGracePeriod"),
        (
            "shutdownGracePeriod: 5s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]",
            "shutdownGracePeriodByPodPriority",
        ),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 1}, {priority: 1}]",
            "shutdownGracePeriodByPodPriority[1]",
        ),
    ] {
        match read(body) {
            Err(ConfigError::Invalid { problems, .. }) => {
                let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
                assert_eq!(fields, [field], "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn what_is_shown_reads_back_the_same() {
    let config = read(
        "registerWithTaints: [{key: a/b, value: c, effect: NoSchedule}]\nnodeStatusMaxImages: -1\n\
         tlsCertFile: /c\ntlsPrivateKeyFile: /k\nproviderID: 'a://b'\n\
         shutdownGracePeriodByPodPriority: [{priority: 9, shutdownGracePeriodSeconds: 7}, {priority: -1}]\n\
         nodewarden: {kubernetes: {kubeconfig: /k, bootstrapKubeconfig: /b, nodeIP: '10.0.0.1,fd00::1', \
         nodeLabels: {zone: a}, cloudProvider: external, imageCredentialProviderConfig: /i, \
         imageCredentialProviderBinDir: /j}}",
    )
    .unwrap();
    let settings = &config.kubernetes;
    let taint = Taint { key: "a/b".into(), value: "c".into(), effect: TaintEffect::NoSchedule };
    assert_eq!(settings.register_with_taints, [taint]);
    assert_eq!((settings.status_max_images, settings.node_ips.len()), (None, 2));
    assert_eq!(parse("again", &config.to_yaml(), &Overrides::default()).unwrap(), config);
}

#[test]
fn groups_of_a_shutdown_end_by_ascending_priority() {
    let groups = |body: &str| read(body).unwrap().kubernetes.shutdown.groups();
    let group = |priority, seconds| PriorityGrace { priority, grace: Duration::from_secs(seconds) };
    assert_eq!(groups(""), []);
    assert_eq!(
        groups("shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s"),
        [group(0, 20), group(2_000_000_000, 10)]
    );
    let list = "shutdownGracePeriodByPodPriority: [{priority: 100, shutdownGracePeriodSeconds: 3}, \
                {priority: 0, shutdownGracePeriodSeconds: 4}]";
    assert_eq!(groups(list), [group(0, 4), group(100, 3)]);
    assert_eq!(read(list).unwrap().kubernetes.shutdown.longest(), Duration::from_secs(7));
}
