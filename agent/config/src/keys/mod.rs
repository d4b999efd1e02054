//! Every key of a configuration, and what it means here. From this table come the order that `config check`
//! prints in, the table of docs/CONFIGURATION.md, the descriptions of the schema, and the messages at the
//! start.

mod done;
mod own;
mod without_effect;

use serde_yaml_ng::Value;

use super::shape::Shape;
use done::DONE;
use own::OWN;
use without_effect::WITHOUT_EFFECT;

/// API version of the file.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// Kind of the file.
pub const KIND: &str = "KubeletConfiguration";
/// The key of the section with the settings that a kubelet does not have.
pub const SECTION: &str = "nodewarden";

/// The kubelet's key that serves as default of `nodewarden.runtimeEndpoint`.
pub const RUNTIME_ENDPOINT: &str = "containerRuntimeEndpoint";

/// A key of the file by its path (`authentication.webhook.cacheTTL`).
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The path.
    pub path: &'static str,
    /// What it means here.
    pub meaning: Meaning,
}

/// What a key means here.
#[derive(Debug, Clone, Copy)]
pub enum Meaning {
    /// It has an effect, which the text describes. Its type and default are where it is read.
    Done(&'static str),
    /// It is accepted without an effect; the reason.
    NoEffect { shape: Shape, reason: &'static str },
    /// It is accepted only with values for which its absence would be the same, since ignoring others would
    /// break a promise.
    Refused { shape: Shape, accepts: fn(&Value) -> bool, expected: &'static str, reason: &'static str },
}

/// What becomes of a key that no reader asked for.
pub enum Unread {
    /// It is accepted; the reason why it has no effect.
    WithoutEffect(&'static str),
    /// Its value is not accepted; what is expected.
    Refused(String),
    /// There is no such key.
    Unknown,
}

/// All keys of the kubelet's file, as of Kubernetes 1.37 (k8s.io/kubelet config/v1beta1/types.go), and those
/// of the section `nodewarden`.
pub fn all() -> impl Iterator<Item = Key> {
    let done = DONE.iter().chain(OWN).map(|(path, about)| Key { path, meaning: Meaning::Done(about) });
    done.chain(WITHOUT_EFFECT.iter().copied())
}

/// The kubelet's keys of the file itself, not those of its sections, and `nodewarden`.
pub fn top_level() -> impl Iterator<Item = &'static str> {
    all().map(|key| key.path).filter(|path| !path.contains('.'))
}

/// The key with this path.
pub fn find(path: &str) -> Option<Key> {
    all().find(|key| key.path == path)
}

/// What becomes of the key with this path and value, since nothing has read it.
pub fn unread(path: &str, value: &Value) -> Unread {
    match find(path).map(|key| key.meaning) {
        None => Unread::Unknown,
        Some(Meaning::Done(_)) => Unread::WithoutEffect("this version does not read it"),
        Some(Meaning::NoEffect { shape, .. } | Meaning::Refused { shape, .. }) if !shape.fits(value) => {
            Unread::Refused(shape.expected())
        }
        Some(Meaning::NoEffect { reason, .. }) => Unread::WithoutEffect(reason),
        Some(Meaning::Refused { accepts, expected, reason, .. }) => match accepts(value) {
            true => Unread::WithoutEffect(reason),
            false => Unread::Refused(format!("{expected}: {reason}")),
        },
    }
}

/// The key of `known` that was probably meant by `key`: equal ignoring case, or with at most two different
/// letters.
pub fn meant<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (if k.eq_ignore_ascii_case(key) { 0 } else { strsim::levenshtein(key, k) }, k))
        .filter(|(d, _)| *d <= 2)
        .min()
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests;
