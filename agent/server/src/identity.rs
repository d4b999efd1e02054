//! The user of a client certificate: the common name is its name, the organizations are its groups
//! (`CommonNameUserConversion`, apiserver pkg/authentication/request/x509).

use nodewarden_kube::review::User;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The group of everyone whose credentials were accepted.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The user of a request without credentials, where those are allowed.
pub fn anonymous() -> User {
    User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
}

/// The user that a certificate names; `None` if it is no certificate or has no common name. Whether the
/// certificate is to be trusted is decided elsewhere.
pub fn of_certificate(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
    let groups =
        subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    (!name.is_empty()).then(|| authenticated(User { name, groups, ..User::default() }))
}

/// The user with the group of everyone who is authenticated.
pub fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(entries: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in entries {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn name_and_groups_of_a_certificate() {
        let both = certificate(&[
            (DnType::OrganizationName, "system:nodes"),
            (DnType::CommonName, "system:node:node-1"),
        ]);
        let user = of_certificate(&both).unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups),
            ("system:node:node-1", vec!["system:nodes".to_owned(), AUTHENTICATED.to_owned()],)
        );
        let alone = of_certificate(&certificate(&[(DnType::CommonName, "admin")])).unwrap();
        assert_eq!(alone.groups, [AUTHENTICATED]);
        for unnamed in [
            certificate(&[(DnType::OrganizationName, "system:masters")]),
            certificate(&[]),
            vec![1, 2].into(),
        ] {
            assert_eq!(of_certificate(&unnamed), None);
        }
    }

    #[test]
    fn everyone_who_is_authenticated_is_in_that_group_once() {
        let user = authenticated(authenticated(User::default()));
        assert_eq!(user.groups, [AUTHENTICATED]);
    }
}
