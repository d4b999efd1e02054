//! Checks plugins' registration requests. Pure.
//!
//! The rules are the kubelet's (`devicemanager/plugin/v1beta1`: `Register`, `ValidatePlugin`), and stricter
//! for sockets: the socket of a `Register` call is a name in the directory of plugins, one of the plugin
//! watcher is below the kubelet's directory.

use std::path::{Component, Path, PathBuf};

use nodewarden_manifest::names::is_extended;
use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::pluginregistration::v1::PluginInfo;

use super::{KUBELET_SOCKET, Options};

/// The only version of the protocol (`SupportedVersions`).
pub const VERSION: &str = "v1beta1";
/// `PluginInfo.type` of device plugins.
const DEVICE_PLUGIN: &str = "DevicePlugin";
/// How much of a text from outside is shown, in characters.
const SHOWN: usize = 80;

/// Why a registration is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRegistration {
    #[error("requested API version {0:?} is not supported: the supported version is {VERSION:?}")]
    /// The plugin asks for another version of the API.
    Version(String),
    #[error("manager version {VERSION} is not among the plugin's supported versions {0:?}")]
    /// The plugin supports only other versions of the API.
    Versions(Vec<String>),
    #[error(
        "the resource name {0:?} is invalid: it must be that of an extended resource, domain/name, outside kubernetes.io \
         and without requests. before it"
    )]
    /// The name is not that of an extended resource.
    Resource(String),
    #[error("the endpoint {endpoint:?} is invalid: {why}")]
    /// The socket is not where plugins' sockets may be.
    Endpoint {
        /// What the plugin named.
        endpoint: String,
        /// What is wrong with it.
        why: &'static str,
    },
    #[error("no handler registered for plugin type {0:?}: {DEVICE_PLUGIN} is the only one")]
    /// The plugin is not a device plugin.
    Type(String),
}

/// An accepted registration request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginRegistration {
    pub resource: String,
    pub socket: PathBuf,
    /// The options of the request; the plugin itself is asked for its options later.
    pub options: Option<Options>,
}

/// Checks a `Register` call; `dir` is the directory of plugins' sockets.
pub fn from_register(
    asked: api::RegisterRequest,
    dir: &Path,
) -> Result<PluginRegistration, InvalidRegistration> {
    if asked.version != VERSION {
        return Err(InvalidRegistration::Version(shown(&asked.version)));
    }
    extended(&asked.resource_name)?;
    let endpoint = asked.endpoint.as_str();
    let wrong = match endpoint {
        "" => Some("it must name a socket in the directory of device plugins"),
        "." | ".." => Some("it must not leave the directory of device plugins"),
        KUBELET_SOCKET => Some("it is the socket of registrations"),
        _ if endpoint.contains(['/', '\0']) => {
            Some("it must be the name of a socket in the directory of device plugins, not a path")
        }
        _ => None,
    };
    if let Some(why) = wrong {
        return Err(InvalidRegistration::Endpoint { endpoint: shown(endpoint), why });
    }
    Ok(PluginRegistration {
        resource: asked.resource_name,
        socket: dir.join(&asked.endpoint),
        options: asked.options.map(Options::from),
    })
}

/// Checks the answer of a plugin that was found by its socket in a directory of `kubelet_dir`.
pub fn from_info(
    info: PluginInfo,
    socket: &Path,
    kubelet_dir: &Path,
) -> Result<PluginRegistration, InvalidRegistration> {
    if info.r#type != DEVICE_PLUGIN {
        return Err(InvalidRegistration::Type(shown(&info.r#type)));
    }
    if !info.supported_versions.iter().any(|version| version == VERSION) {
        return Err(InvalidRegistration::Versions(
            info.supported_versions.iter().take(10).map(|v| shown(v)).collect(),
        ));
    }
    extended(&info.name)?;
    let endpoint = match info.endpoint.as_str() {
        "" => socket,
        endpoint => below(kubelet_dir, endpoint)?,
    };
    Ok(PluginRegistration { socket: endpoint.to_owned(), resource: info.name, options: None })
}

fn extended(name: &str) -> Result<(), InvalidRegistration> {
    if is_extended(name) { Ok(()) } else { Err(InvalidRegistration::Resource(shown(name))) }
}

fn below<'a>(dir: &Path, endpoint: &'a str) -> Result<&'a Path, InvalidRegistration> {
    let path = Path::new(endpoint);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if climbs || !path.starts_with(dir) || path == dir || endpoint.contains('\0') {
        let why = "it must be a path in the kubelet's directory";
        return Err(InvalidRegistration::Endpoint { endpoint: shown(endpoint), why });
    }
    Ok(path)
}

/// The first part of a long text, for messages.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(
        version: &str,
        resource: &str,
        endpoint: &str,
    ) -> Result<PluginRegistration, InvalidRegistration> {
        let options = Some(api::DevicePluginOptions { pre_start_required: true, ..Default::default() });
        let request = api::RegisterRequest {
            version: version.into(),
            endpoint: endpoint.into(),
            resource_name: resource.into(),
            options,
        };
        from_register(request, Path::new("/k/device-plugins"))
    }

    fn text<T: std::fmt::Debug>(result: Result<T, InvalidRegistration>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_valid_request_is_accepted() {
        let wanted = asked("v1beta1", "nvidia.com/gpu", "nvidia..gpu.sock").unwrap();
        assert_eq!(wanted.socket, Path::new("/k/device-plugins/nvidia..gpu.sock"));
        assert_eq!(
            wanted.options,
            Some(Options { pre_start_required: true, preferred_allocation: false }),
            "the request's"
        );
    }

    #[test]
    fn other_versions_are_refused() {
        for version in ["", "v1alpha1", "v1beta2", "V1BETA1", "v1beta1 "] {
            let text = text(asked(version, "a.com/b", "s"));
            assert!(text.contains(&format!("{version:?} is not supported")), "{text}");
        }
    }

    /// The cases of `TestIsExtendedResourceName`, and limits of names.
    #[test]
    fn resource_names_must_be_extended_resources() {
        let (l54, l55) = ("a".repeat(63), "a".repeat(64));
        let long_domain = format!("{}.com/x", "a.".repeat(119).trim_end_matches('.'));
        for good in [
            "pod.alpha.kubernetes-io/opaque-int",
            "a.b/c",
            "vendor.com/G_p.u",
            &format!("v.com/{l54}"),
            "a/b",
        ] {
            assert!(asked("v1beta1", good, "s").is_ok(), "{good}");
        }
        for bad in [
            "",
            "gpu",
            "cpu",
            "hugepages-2Mi",
            "kubernetes.io/gpu",
            "sub.kubernetes.io/gpu",
            "requests.vendor.com/gpu",
            "vendor.com/",
            "/gpu",
            "vendor.com/a/b",
            "Vendor.com/gpu",
            "vendor.com/-gpu",
            "vendor.com/gp u",
            "vendor_x.com/gpu",
            &format!("v.com/{l55}"),
            &format!("{long_domain}{long_domain}"),
        ] {
            let text = text(asked("v1beta1", bad, "s"));
            assert!(text.starts_with("the resource name "), "{bad}: {text}");
        }
        // With the prefix of a quota's name it would have 254 characters before the slash.
        let domain = ["a"; 123].join(".");
        assert_eq!(domain.len(), 245);
        assert!(asked("v1beta1", &format!("{domain}/x"), "s").is_err());
        assert!(asked("v1beta1", &format!("{}/x", &domain[..243]), "s").is_ok());
    }

    #[test]
    fn endpoints_outside_the_directory_are_refused() {
        for bad in ["", ".", "..", "../x.sock", "/etc/x.sock", "sub/x.sock", "x/", "kubelet.sock", "a\0b"] {
            let text = text(asked("v1beta1", "a.com/b", bad));
            assert!(text.starts_with(&format!("the endpoint {bad:?} is invalid")), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_shortened_in_messages() {
        let text = text(asked("v1beta1", &"x".repeat(1 << 20), "s"));
        assert!(text.len() < 400, "{} bytes", text.len());
    }

    fn info(
        kind: &str,
        name: &str,
        endpoint: &str,
        versions: &[&str],
    ) -> Result<PluginRegistration, InvalidRegistration> {
        let info = PluginInfo {
            r#type: kind.into(),
            name: name.into(),
            endpoint: endpoint.into(),
            supported_versions: versions.iter().map(ToString::to_string).collect(),
        };
        from_info(info, Path::new("/k/plugins_registry/a.sock"), Path::new("/k"))
    }

    #[test]
    fn plugins_found_by_their_sockets_are_checked() {
        let versions = ["v1alpha1", "v1beta1"];
        let wanted = info("DevicePlugin", "a.com/b", "", &versions).unwrap();
        assert_eq!(wanted.socket, Path::new("/k/plugins_registry/a.sock"));
        let wanted = info("DevicePlugin", "a.com/b", "/k/plugins/a/s.sock", &versions).unwrap();
        assert_eq!((wanted.socket.to_str(), wanted.options), (Some("/k/plugins/a/s.sock"), None));
        for bad in ["/run/x.sock", "x.sock", "/k", "/k/../run/x.sock", "/kk/x.sock"] {
            assert!(text(info("DevicePlugin", "a.com/b", bad, &versions)).contains("endpoint"), "{bad}");
        }
        for (kind, name, versions, says) in [
            ("CSIPlugin", "a.com/b", &versions[..], "no handler registered for plugin type \"CSIPlugin\""),
            ("", "a.com/b", &versions, "no handler registered"),
            ("DevicePlugin", "a.com/b", &["v1"], "not among the plugin's supported versions [\"v1\"]"),
            ("DevicePlugin", "a.com/b", &[], "not among"),
            ("DevicePlugin", "gpu", &versions, "the resource name \"gpu\" is invalid"),
        ] {
            let text = text(info(kind, name, "", versions));
            assert!(text.contains(says), "{text}");
        }
    }
}
