//! The node in a cluster: the section `nodewarden.kubernetes`, which has the kubelet's flags that its file
//! has no keys for, and the kubelet's keys about the node object, its lease and the agent's certificates.

mod labels;
mod rates;
mod shutdown;
mod taints;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use crate::fields::Fields;
use crate::reading::Reading;
use crate::show::Map;
use crate::{defaults as d, duration};

pub use rates::{ApiRate, ApiRates};
pub use shutdown::{PriorityGrace, ShutdownSettings};
pub use taints::{Taint, TaintEffect};

/// The key of the section below `nodewarden:`.
pub(crate) const SECTION: &str = "kubernetes";

/// Settings of the node in a cluster. They have an effect only in the modes manage and augment, and if
/// [`Self::connects`].
#[derive(Debug, Clone, PartialEq)]
pub struct KubernetesSettings {
    /// `nodewarden.kubernetes.kubeconfig`, the kubelet's `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `nodewarden.kubernetes.bootstrapKubeconfig`, the kubelet's `--bootstrap-kubeconfig`: credentials that
    /// are good for asking for a client certificate, used while `kubeconfig` does not exist.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// `nodewarden.kubernetes.inCluster`: the credentials of the pod in which the agent runs.
    pub in_cluster: bool,
    /// `nodewarden.kubernetes.certDir`, the kubelet's `--cert-dir`.
    pub cert_dir: PathBuf,
    /// `nodewarden.kubernetes.nodeIP`, the kubelet's `--node-ip`: none, one, or one of each family. `0.0.0.0`
    /// and `::` choose a family.
    pub node_ips: Vec<IpAddr>,
    /// `nodewarden.kubernetes.nodeLabels`, the kubelet's `--node-labels`: set when the node is registered.
    pub node_labels: BTreeMap<String, String>,
    /// `nodewarden.kubernetes.cloudProvider: external`: a cloud controller initializes the node and sets its
    /// addresses.
    pub external_cloud_provider: bool,
    /// `nodewarden.kubernetes.imageCredentialProviderConfig`, the kubelet's flag of that name.
    pub credential_provider_config: Option<PathBuf>,
    /// `nodewarden.kubernetes.imageCredentialProviderBinDir`, the kubelet's flag of that name.
    pub credential_provider_bin_dir: Option<PathBuf>,
    /// `providerID`: how a cloud provider names this machine.
    pub provider_id: Option<String>,
    /// `registerNode`: the agent makes its node object.
    pub register_node: bool,
    /// `registerWithTaints`: set when the node is registered.
    pub register_with_taints: Vec<Taint>,
    /// `nodeStatusUpdateFrequency`: how often the status is computed.
    pub status_update_frequency: Duration,
    /// `nodeStatusReportFrequency`: how often the status is written though it has not changed.
    pub status_report_frequency: Duration,
    /// `nodeStatusMaxImages`: largest number of images in the node's status; `None` for -1, all.
    pub status_max_images: Option<usize>,
    /// `nodeLeaseDurationSeconds`.
    pub lease_duration: Duration,
    /// `rotateCertificates`: the client certificate is renewed before it ends.
    pub rotate_certificates: bool,
    /// `serverTLSBootstrap`: the serving certificate is requested of the API server.
    pub server_tls_bootstrap: bool,
    /// `tlsCertFile`: the serving certificate, followed by those of its authorities.
    pub tls_cert_file: Option<PathBuf>,
    /// `tlsPrivateKeyFile`: its key.
    pub tls_private_key_file: Option<PathBuf>,
    /// `shutdownGracePeriod` and the keys beside it.
    pub shutdown: ShutdownSettings,
    /// `kubeAPIQPS` and the keys beside it.
    pub rates: ApiRates,
}

impl KubernetesSettings {
    /// Whether there are credentials for an API server.
    pub fn connects(&self) -> bool {
        self.kubeconfig.is_some() || self.in_cluster
    }
}

/// SetDefaults_KubeletConfiguration (pkg/kubelet/apis/config/v1beta1/defaults.go), and the defaults of the
/// flags.
impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            bootstrap_kubeconfig: None,
            in_cluster: false,
            cert_dir: PathBuf::from(d::CERT_DIR),
            node_ips: Vec::new(),
            node_labels: BTreeMap::new(),
            external_cloud_provider: false,
            credential_provider_config: None,
            credential_provider_bin_dir: None,
            provider_id: None,
            register_node: true,
            register_with_taints: Vec::new(),
            status_update_frequency: Duration::from_secs(10),
            status_report_frequency: Duration::from_secs(300),
            status_max_images: Some(50),
            lease_duration: Duration::from_secs(40),
            rotate_certificates: false,
            server_tls_bootstrap: false,
            tls_cert_file: None,
            tls_private_key_file: None,
            shutdown: ShutdownSettings::default(),
            rates: ApiRates::default(),
        }
    }
}

/// Reads the kubelet's keys.
pub(crate) fn take(top: &mut Fields<'_>) -> KubernetesSettings {
    let default = KubernetesSettings::default();
    let (update, report) = frequencies(top, &default);
    let register_node = top.flag("registerNode", default.register_node);
    let (tls_cert_file, tls_private_key_file) = serving_files(top);
    KubernetesSettings {
        provider_id: top.text("providerID", "a text", |t| Some(t.to_owned())).filter(|id| !id.is_empty()),
        register_node,
        register_with_taints: taints::take(top),
        status_update_frequency: update,
        status_report_frequency: report,
        status_max_images: top
            .integer("nodeStatusMaxImages", "a whole number from -1 up", &(-1..=i64::from(i32::MAX)))
            .map_or(default.status_max_images, |n| usize::try_from(n).ok()),
        lease_duration: top.seconds(
            "nodeLeaseDurationSeconds",
            default.lease_duration,
            &d::LEASE_SECONDS_RANGE,
        ),
        rotate_certificates: top.flag("rotateCertificates", default.rotate_certificates),
        server_tls_bootstrap: top.flag("serverTLSBootstrap", default.server_tls_bootstrap),
        tls_cert_file,
        tls_private_key_file,
        shutdown: shutdown::take(top),
        rates: rates::take(top),
        ..default
    }
}

/// `nodeStatusUpdateFrequency` and `nodeStatusReportFrequency`: as in the kubelet the second is the first
/// where only that is set, and 0 means not set.
fn frequencies(top: &mut Fields<'_>, default: &KubernetesSettings) -> (Duration, Duration) {
    let set = |time: &Duration| !time.is_zero();
    let update = top.duration("nodeStatusUpdateFrequency").filter(set);
    let report = top.duration("nodeStatusReportFrequency").filter(set);
    (
        update.unwrap_or(default.status_update_frequency),
        report.or(update).unwrap_or(default.status_report_frequency),
    )
}

/// `tlsCertFile` and `tlsPrivateKeyFile`: both or none.
fn serving_files(top: &mut Fields<'_>) -> (Option<PathBuf>, Option<PathBuf>) {
    let (cert, key) = ("tlsCertFile", "tlsPrivateKeyFile");
    let files = (optional_path(top, cert), optional_path(top, key));
    match &files {
        (Some(_), None) => top.refuse(key, "", &format!("the key of {cert}")),
        (None, Some(_)) => top.refuse(cert, "", &format!("the certificate of {key}")),
        _ => {}
    }
    files
}

/// An absolute path; the empty text is none, as in the kubelet.
fn optional_path(f: &mut Fields<'_>, key: &'static str) -> Option<PathBuf> {
    f.text(key, "an absolute path", |t| match t {
        "" => Some(None),
        t => (t.starts_with('/') && !t.contains('\0')).then(|| Some(PathBuf::from(t))),
    })
    .flatten()
}

/// Reads the section `nodewarden.kubernetes` on top of the kubelet's keys.
pub(crate) fn take_own(
    map: Mapping,
    settings: KubernetesSettings,
    reading: &mut Reading,
) -> KubernetesSettings {
    let mut f = Fields::new("nodewarden.kubernetes", map, Vec::new(), reading);
    let settings = KubernetesSettings {
        kubeconfig: optional_path(&mut f, "kubeconfig"),
        bootstrap_kubeconfig: optional_path(&mut f, "bootstrapKubeconfig"),
        in_cluster: f.flag("inCluster", false),
        cert_dir: f.path("certDir", d::CERT_DIR, usize::MAX),
        node_ips: node_ips(&mut f),
        node_labels: labels::take(&mut f),
        external_cloud_provider: f.choice::<String>("cloudProvider", &["external"], true).is_some(),
        credential_provider_config: optional_path(&mut f, "imageCredentialProviderConfig"),
        credential_provider_bin_dir: optional_path(&mut f, "imageCredentialProviderBinDir"),
        ..settings
    };
    if settings.in_cluster && settings.kubeconfig.is_some() {
        f.refuse("inCluster", "true", "false, because there is a kubeconfig");
    }
    if settings.bootstrap_kubeconfig.is_some() && settings.kubeconfig.is_none() {
        f.refuse("kubeconfig", "", "where the kubeconfig with the client certificate is written");
    }
    if settings.credential_provider_config.is_some() != settings.credential_provider_bin_dir.is_some() {
        let expected = "imageCredentialProviderConfig together with imageCredentialProviderBinDir";
        f.refuse("imageCredentialProviderConfig", "one of two", expected);
    }
    f.finish();
    settings
}

/// `nodeIP`: nothing, one address, or two of different families with a comma between them.
fn node_ips(f: &mut Fields<'_>) -> Vec<IpAddr> {
    let expected = "an IP address, or an IPv4 and an IPv6 address with a comma between them";
    f.text("nodeIP", expected, |text| {
        if text.is_empty() {
            return Some(Vec::new());
        }
        let ips: Vec<IpAddr> = text.split(',').map(|ip| ip.trim().parse().ok()).collect::<Option<_>>()?;
        match ips.as_slice() {
            [one] => (!one.is_loopback() && !one.is_multicast()).then_some(ips),
            [a, b] => {
                let fits = |ip: &IpAddr| !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified();
                (a.is_ipv4() != b.is_ipv4() && fits(a) && fits(b)).then_some(ips)
            }
            _ => None,
        }
    })
    .unwrap_or_default()
}

/// Writes the kubelet's keys.
pub(crate) fn show(top: &mut Map, settings: &KubernetesSettings) {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
    top.put("registerNode", settings.register_node);
    let taints: Vec<Value> = settings.register_with_taints.iter().map(Taint::to_value).collect();
    top.put("registerWithTaints", taints);
    top.put_some("providerID", settings.provider_id.clone());
    top.put("nodeStatusUpdateFrequency", duration::show(settings.status_update_frequency));
    top.put("nodeStatusReportFrequency", duration::show(settings.status_report_frequency));
    top.put("nodeStatusMaxImages", settings.status_max_images.map_or(Value::from(-1), Value::from));
    top.put("nodeLeaseDurationSeconds", settings.lease_duration.as_secs());
    top.put("rotateCertificates", settings.rotate_certificates);
    top.put("serverTLSBootstrap", settings.server_tls_bootstrap);
    top.put_some("tlsCertFile", path(&settings.tls_cert_file));
    top.put_some("tlsPrivateKeyFile", path(&settings.tls_private_key_file));
    shutdown::show(top, &settings.shutdown);
    rates::show(top, &settings.rates);
}

/// The section `nodewarden.kubernetes`.
pub(crate) fn show_own(settings: &KubernetesSettings) -> Mapping {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
    let mut map = Map::default();
    map.put_some("kubeconfig", path(&settings.kubeconfig));
    map.put_some("bootstrapKubeconfig", path(&settings.bootstrap_kubeconfig));
    map.put("inCluster", settings.in_cluster);
    map.put("certDir", &*settings.cert_dir.to_string_lossy());
    let ips: Vec<String> = settings.node_ips.iter().map(ToString::to_string).collect();
    map.put("nodeIP", ips.join(","));
    let labels: Mapping =
        settings.node_labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect();
    map.put("nodeLabels", labels);
    map.put("cloudProvider", if settings.external_cloud_provider { "external" } else { "" });
    map.put_some("imageCredentialProviderConfig", path(&settings.credential_provider_config));
    map.put_some("imageCredentialProviderBinDir", path(&settings.credential_provider_bin_dir));
    map.0
}
