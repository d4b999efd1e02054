//! Who may use an image that is on the node already: `imagePullCredentialsVerificationPolicy` (KEP-2535).

use crate::fields::Fields;
use crate::show::Map;

const POLICY: &str = "imagePullCredentialsVerificationPolicy";
const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
const POLICIES: &[&str] =
    &["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"];

/// Which images of the node a pod may use only with credentials that were accepted for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageVerification {
    /// `imagePullCredentialsVerificationPolicy`.
    pub policy: VerificationPolicy,
    /// `preloadedImagesVerificationAllowlist`: repositories, or beginnings of them with `/*` at their end.
    pub allowlist: Vec<String>,
}

/// The images for which a pod's credentials are verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum VerificationPolicy {
    /// None. The default here; that of kubelets is the next one, from 1.35 on.
    #[default]
    NeverVerify,
    /// Those that the agent has pulled.
    NeverVerifyPreloadedImages,
    /// Those that the agent has pulled, and others that the list does not have.
    NeverVerifyAllowlistedImages,
    /// All.
    AlwaysVerify,
}

impl ImageVerification {
    /// Whether credentials have to be verified for an image of this repository, which the agent has pulled or
    /// not (kubelet: `RequireCredentialVerificationForImage`).
    pub fn applies_to(&self, repository: &str, was_pulled: bool) -> bool {
        match self.policy {
            VerificationPolicy::NeverVerify => false,
            VerificationPolicy::NeverVerifyPreloadedImages => was_pulled,
            VerificationPolicy::NeverVerifyAllowlistedImages => was_pulled || !self.lists(repository),
            VerificationPolicy::AlwaysVerify => true,
        }
    }

    fn lists(&self, repository: &str) -> bool {
        self.allowlist.iter().any(|pattern| match pattern.strip_suffix("/*") {
            Some(start) => repository.strip_prefix(start).is_some_and(|rest| rest.starts_with('/')),
            None => repository == pattern,
        })
    }
}

/// Whether it is an image's name without tag and digest, or the beginning of some with `/*` at its end.
fn is_pattern(pattern: &str) -> bool {
    let name = pattern.strip_suffix("/*").unwrap_or(pattern);
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    match pattern.split_once('/') {
        // Only the registry may have a port.
        Some((registry, _)) => {
            let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
            is_part(host) && name.split('/').skip(1).all(is_part)
        }
        None => is_part(name),
    }
}

/// Reads the two keys.
pub(super) fn take(top: &mut Fields<'_>) -> ImageVerification {
    let policy: VerificationPolicy = top.choice(POLICY, POLICIES, true).unwrap_or_default();
    let allowlist = top.texts(ALLOWLIST).unwrap_or_default();
    for pattern in &allowlist {
        if !is_pattern(pattern) {
            let expected = "names of images without tag and digest, with /* at their end for all below";
            top.refuse(ALLOWLIST, pattern, expected);
        }
    }
    if !allowlist.is_empty() && policy != VerificationPolicy::NeverVerifyAllowlistedImages {
        top.refuse(ALLOWLIST, "a list", &format!("nothing, or {POLICY}: NeverVerifyAllowlistedImages"));
    }
    ImageVerification { policy, allowlist }
}

/// Writes the two keys.
pub(super) fn show(top: &mut Map, verification: &ImageVerification) {
    let policy: &str = verification.policy.into();
    top.put(POLICY, policy);
    let list = Some(verification.allowlist.clone()).filter(|list| !list.is_empty());
    top.put_some(ALLOWLIST, list);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{problems, read};
    use crate::{Overrides, parse};

    #[test]
    fn the_policies() {
        let with = |policy: &str| {
            let body = format!("{POLICY}: {policy}");
            let config = read(&body).unwrap();
            assert_eq!(parse("again", &config.to_yaml(), &Overrides::default()).unwrap(), config);
            let own = config.pods.image_verification;
            [own.applies_to("r/a", false), own.applies_to("r/a", true)]
        };
        assert_eq!(with("''"), [false, false]);
        assert_eq!(with("NeverVerify"), [false, false]);
        assert_eq!(with("NeverVerifyPreloadedImages"), [false, true]);
        assert_eq!(with("NeverVerifyAllowlistedImages"), [true, true]);
        assert_eq!(with("AlwaysVerify"), [true, true]);
    }

    #[test]
    fn listed_images_are_whole_names_or_below_a_path() {
        let body =
            format!("{POLICY}: NeverVerifyAllowlistedImages\n{ALLOWLIST}: [r.io/a, 'r.io/b/*', 'h:5000/*']");
        let config = read(&body).unwrap();
        assert_eq!(parse("again", &config.to_yaml(), &Overrides::default()).unwrap(), config);
        let own = config.pods.image_verification;
        for (repository, listed) in [
            ("r.io/a", true),
            ("r.io/a/b", false),
            ("r.io/ab", false),
            ("r.io/b", false),
            ("r.io/b/c/d", true),
            ("r.io/bc/d", false),
            ("h:5000/x", true),
        ] {
            assert_eq!(own.applies_to(repository, false), !listed, "{repository}");
            assert!(own.applies_to(repository, true), "{repository} was pulled");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, expected) in [
            (
                format!("{POLICY}: Verify"),
                "expected NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify",
            ),
            (
                format!("{ALLOWLIST}: [r.io/a]"),
                "expected nothing, or imagePullCredentialsVerificationPolicy:",
            ),
            (
                format!("{POLICY}: NeverVerifyAllowlistedImages\n{ALLOWLIST}: ['r.io/a:1']"),
                "r.io/a:1: expected names of images without tag and digest",
            ),
            (
                format!("{POLICY}: NeverVerifyAllowlistedImages\n{ALLOWLIST}: ['r.io/*/a']"),
                "r.io/*/a: expected names of images",
            ),
        ] {
            let found = problems(&body);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
    }
}
