//! The node's server on port 10250 and the health port: the kubelet's keys.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use crate::fields::Fields;
use crate::show::{Map, pair};
use crate::{duration, tls};

/// Settings of the node's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// `enableServer`: whether there is a server; absent: with a kubeconfig only.
    pub enabled: Option<bool>,
    /// `address`: where the server and the read-only port listen.
    pub address: IpAddr,
    /// `port`.
    pub port: u16,
    /// `readOnlyPort`: without authentication; `None` for 0.
    pub read_only_port: Option<u16>,
    /// `healthzPort`: `/healthz` without authentication; `None` for 0.
    pub healthz_port: Option<u16>,
    /// `healthzBindAddress`.
    pub healthz_address: IpAddr,
    /// Who is who.
    pub authentication: AuthenticationSettings,
    /// Who may do what.
    pub authorization: AuthorizationSettings,
    /// `tlsCipherSuites` for TLS 1.2, by their IANA names; empty for all that are safe.
    pub tls_cipher_suites: Vec<String>,
    /// `tlsCurvePreferences`: key exchanges by their numbers of IANA, as in Go; empty for all that are built
    /// in.
    pub tls_curves: Vec<u16>,
    /// `tlsMinVersion`.
    pub tls_min_version: TlsVersion,
    /// `enableDebuggingHandlers`: logs, exec, attach, port forwarding, the pods that run, the node's log
    /// files.
    pub debugging_handlers: bool,
    /// `enableSystemLogHandler`: the node's log files at `/logs/`.
    pub system_log_handler: bool,
    /// `streamingConnectionIdleTimeout`: a stream through which nothing went for this long is closed; `None`
    /// for 0, never.
    pub streaming_idle: Option<Duration>,
}

/// `authentication`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticationSettings {
    /// `x509.clientCAFile`: the certificates that sign those of clients.
    pub client_ca: Option<PathBuf>,
    /// `webhook.enabled`: bearer tokens, by TokenReview.
    pub webhook: bool,
    /// `webhook.cacheTTL`: how long what a TokenReview said is used.
    pub cache: Duration,
    /// `anonymous.enabled`: requests without credentials are of `system:anonymous`.
    pub anonymous: bool,
}

/// `authorization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationSettings {
    /// `mode`.
    pub mode: AuthorizationMode,
    /// `webhook.cacheAuthorizedTTL`: how long a permission of a SubjectAccessReview is used.
    pub allowed: Duration,
    /// `webhook.cacheUnauthorizedTTL`: how long a refusal is used.
    pub denied: Duration,
}

/// How requests are authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum AuthorizationMode {
    /// Everything is allowed to who is authenticated.
    AlwaysAllow,
    /// The API server decides, by SubjectAccessReview.
    Webhook,
}

/// The least version of TLS. The kubelet's 1.0 and 1.1 are taken and mean 1.2: older ones are not spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum TlsVersion {
    /// `VersionTLS12`.
    #[strum(to_string = "VersionTLS12", serialize = "VersionTLS10", serialize = "VersionTLS11")]
    Tls12,
    /// `VersionTLS13`.
    #[strum(serialize = "VersionTLS13")]
    Tls13,
}

/// SetDefaults_KubeletConfiguration (pkg/kubelet/apis/config/v1beta1/defaults.go).
impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            enabled: None,
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 10250,
            read_only_port: None,
            healthz_port: Some(10248),
            healthz_address: Ipv4Addr::LOCALHOST.into(),
            authentication: AuthenticationSettings {
                client_ca: None,
                webhook: true,
                cache: Duration::from_secs(120),
                anonymous: false,
            },
            authorization: AuthorizationSettings {
                mode: AuthorizationMode::Webhook,
                allowed: Duration::from_secs(300),
                denied: Duration::from_secs(30),
            },
            tls_cipher_suites: Vec::new(),
            tls_curves: Vec::new(),
            tls_min_version: TlsVersion::Tls12,
            debugging_handlers: true,
            system_log_handler: true,
            streaming_idle: Some(Duration::from_secs(4 * 3600)),
        }
    }
}

/// Reads the kubelet's keys.
pub fn take(top: &mut Fields<'_>) -> ServerSettings {
    let default = ServerSettings::default();
    let settings = ServerSettings {
        enabled: top.optional_flag("enableServer"),
        address: address(top, "address").unwrap_or(default.address),
        port: port(top, "port").flatten().unwrap_or(default.port),
        read_only_port: port(top, "readOnlyPort").flatten(),
        healthz_port: port(top, "healthzPort").unwrap_or(default.healthz_port),
        healthz_address: address(top, "healthzBindAddress").unwrap_or(default.healthz_address),
        authentication: authentication(top, default.authentication),
        authorization: authorization(top, default.authorization),
        tls_cipher_suites: tls::suites(top),
        tls_curves: tls::curves(top),
        tls_min_version: min_version(top).unwrap_or(default.tls_min_version),
        debugging_handlers: top.flag("enableDebuggingHandlers", default.debugging_handlers),
        system_log_handler: top.flag("enableSystemLogHandler", default.system_log_handler),
        streaming_idle: match top.duration("streamingConnectionIdleTimeout") {
            Some(time) => Some(time).filter(|time| !time.is_zero()),
            None => default.streaming_idle,
        },
    };
    if settings.read_only_port == Some(settings.port) {
        top.refuse("readOnlyPort", &settings.port.to_string(), "another port than port");
    }
    settings
}

fn address(top: &mut Fields<'_>, key: &'static str) -> Option<IpAddr> {
    top.text(key, "an IP address", |text| match text {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    })
    .flatten()
}

/// A port; 0 is none.
fn port(top: &mut Fields<'_>, key: &'static str) -> Option<Option<u16>> {
    let number = top.integer(key, "a port from 1 to 65535, or 0 for none", &(0..=65535))?;
    Some(u16::try_from(number).ok().filter(|port| *port != 0))
}

fn min_version(top: &mut Fields<'_>) -> Option<TlsVersion> {
    let names = &["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];
    top.choice("tlsMinVersion", names, true)
}

fn authentication(top: &mut Fields<'_>, default: AuthenticationSettings) -> AuthenticationSettings {
    let mut all = top.inside("authentication");
    let mut f = all.inside("x509");
    let client_ca = f.text("clientCAFile", "an absolute path, or nothing for none", |text| match text {
        "" => Some(None),
        text => (text.starts_with('/') && !text.contains('\0')).then(|| Some(PathBuf::from(text))),
    });
    f.finish();
    let mut f = all.inside("webhook");
    let (webhook, cache) = (f.flag("enabled", default.webhook), ttl(&mut f, "cacheTTL", default.cache));
    f.finish();
    let mut f = all.inside("anonymous");
    let anonymous = f.flag("enabled", default.anonymous);
    f.finish();
    all.finish();
    AuthenticationSettings { client_ca: client_ca.flatten(), webhook, cache, anonymous }
}

fn authorization(top: &mut Fields<'_>, default: AuthorizationSettings) -> AuthorizationSettings {
    let mut all = top.inside("authorization");
    let mode = all.choice("mode", &["AlwaysAllow", "Webhook"], true).unwrap_or(default.mode);
    let mut f = all.inside("webhook");
    let allowed = ttl(&mut f, "cacheAuthorizedTTL", default.allowed);
    let denied = ttl(&mut f, "cacheUnauthorizedTTL", default.denied);
    f.finish();
    all.finish();
    AuthorizationSettings { mode, allowed, denied }
}

/// How long an answer is kept; as in the kubelet, 0 means not set.
fn ttl(f: &mut Fields<'_>, key: &'static str, default: Duration) -> Duration {
    f.duration(key).filter(|time| !time.is_zero()).unwrap_or(default)
}

/// Writes the kubelet's keys about the server.
pub(crate) fn show(top: &mut Map, server: &ServerSettings) {
    top.put_some("enableServer", server.enabled);
    top.put("address", server.address.to_string());
    top.put("port", server.port);
    top.put("readOnlyPort", server.read_only_port.unwrap_or(0));
    top.put("healthzPort", server.healthz_port.unwrap_or(0));
    top.put("healthzBindAddress", server.healthz_address.to_string());
    let AuthenticationSettings { client_ca, webhook, cache, anonymous } = &server.authentication;
    let ca = client_ca.as_ref().map(|path| pair("clientCAFile", path.to_string_lossy().into_owned()));
    let webhook = Mapping::from_iter([pair("enabled", *webhook), pair("cacheTTL", duration::show(*cache))]);
    let authentication = Mapping::from_iter([
        pair("x509", Mapping::from_iter(ca)),
        pair("webhook", webhook),
        pair("anonymous", Mapping::from_iter([pair("enabled", *anonymous)])),
    ]);
    top.put("authentication", authentication);
    let AuthorizationSettings { mode, allowed, denied } = &server.authorization;
    let webhook = Mapping::from_iter([
        pair("cacheAuthorizedTTL", duration::show(*allowed)),
        pair("cacheUnauthorizedTTL", duration::show(*denied)),
    ]);
    let mode: &str = mode.into();
    top.put("authorization", Mapping::from_iter([pair("mode", mode), pair("webhook", webhook)]));
    if !server.tls_cipher_suites.is_empty() {
        let names: Vec<Value> = server.tls_cipher_suites.iter().map(|name| name.as_str().into()).collect();
        top.put("tlsCipherSuites", names);
    }
    if !server.tls_curves.is_empty() {
        top.put("tlsCurvePreferences", server.tls_curves.clone());
    }
    let version: &str = server.tls_min_version.into();
    top.put("tlsMinVersion", version);
    top.put("enableDebuggingHandlers", server.debugging_handlers);
    top.put("enableSystemLogHandler", server.system_log_handler);
    top.put("streamingConnectionIdleTimeout", duration::show(server.streaming_idle.unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{problems, read};
    use crate::{Overrides, parse};

    fn server(body: &str) -> ServerSettings {
        let config = read(body).unwrap_or_else(|e| panic!("{body}: {e}"));
        assert!(config.ignored.is_empty(), "{:?}", config.ignored);
        config.server
    }

    const EVERYTHING: &str = "enableServer: true
address: 192.0.2.1
port: 10260
readOnlyPort: 10255
healthzPort: 0
healthzBindAddress: '::1'
authentication:
  x509: {clientCAFile: /pki/ca.crt}
  webhook: {enabled: false, cacheTTL: 1m}
  anonymous: {enabled: true}
authorization:
  mode: AlwaysAllow
  webhook: {cacheAuthorizedTTL: 10s, cacheUnauthorizedTTL: 1s}
tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_128_CBC_SHA]
tlsCurvePreferences: [4588, 29]
tlsMinVersion: VersionTLS13
enableDebuggingHandlers: false
enableSystemLogHandler: false
streamingConnectionIdleTimeout: 0s
";

    /// A file for a kubelet has zeros and empty texts where nothing is set.
    #[test]
    fn the_kubelets_defaults() {
        let zeros = "address: ''\nhealthzBindAddress: null\nauthentication: {x509: {}, webhook: {cacheTTL: 0s}, anonymous: {}}\n\
                     authorization: {mode: '', webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}\ntlsMinVersion: ''";
        for body in ["", zeros] {
            assert_eq!(server(body), ServerSettings::default(), "{body}");
        }
    }

    #[test]
    fn everything_set() {
        let expected = ServerSettings {
            enabled: Some(true),
            address: "192.0.2.1".parse().unwrap(),
            port: 10260,
            read_only_port: Some(10255),
            healthz_port: None,
            healthz_address: "::1".parse().unwrap(),
            authentication: AuthenticationSettings {
                client_ca: Some("/pki/ca.crt".into()),
                webhook: false,
                cache: Duration::from_secs(60),
                anonymous: true,
            },
            authorization: AuthorizationSettings {
                mode: AuthorizationMode::AlwaysAllow,
                allowed: Duration::from_secs(10),
                denied: Duration::from_secs(1),
            },
            tls_cipher_suites: ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]
                .map(str::to_owned)
                .to_vec(),
            tls_curves: vec![4588, 29],
            tls_min_version: TlsVersion::Tls13,
            debugging_handlers: false,
            system_log_handler: false,
            streaming_idle: None,
        };
        assert_eq!(server(EVERYTHING), expected);
    }

    #[test]
    fn what_is_shown_reads_back() {
        for body in ["", EVERYTHING] {
            let config = read(body).unwrap();
            let again = parse("again", &config.to_yaml(), &Overrides::default()).unwrap();
            assert_eq!(again.server, config.server, "{body}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, expected) in [
            ("address: node-1", "address: node-1: expected an IP address"),
            ("port: 70000", "port: 70000: expected a port from 1 to 65535, or 0 for none"),
            ("readOnlyPort: 10250", "readOnlyPort: 10250: expected another port than port"),
            (
                "authentication: {x509: {clientCAFile: ca.crt}}",
                "authentication.x509.clientCAFile: ca.crt: expected an absolute path, or nothing for none",
            ),
            (
                "authentication: {anonymus: {}}",
                "authentication.anonymus: unknown key: expected a known key (did you mean anonymous?)",
            ),
            (
                "authentication: {webhook: {cacheTTL: -1s}}",
                "authentication.webhook.cacheTTL: -1s: expected a time like 20s or 1m30s",
            ),
            ("authorization: {mode: RBAC}", "authorization.mode: RBAC: expected AlwaysAllow or Webhook"),
            (
                "tlsCipherSuites: [AES]",
                "tlsCipherSuites: AES: expected names of cipher suites like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            ),
            (
                "tlsCurvePreferences: [1]",
                "tlsCurvePreferences: 1: expected numbers of key exchanges: 23, 24, 25, 29, 4587, 4588, 4589",
            ),
            (
                "tlsCurvePreferences: [25, 4588]",
                "tlsCurvePreferences: 25, 4588: expected at least one of 23, 24, 29",
            ),
            (
                "tlsMinVersion: '1.2'",
                "tlsMinVersion: 1.2: expected VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13",
            ),
        ] {
            assert_eq!(problems(body), [expected], "{body}");
        }
        let old = problems("tlsCipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA]");
        assert!(
            old[0].contains("expected at least one of TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"),
            "{old:?}"
        );
    }
}
