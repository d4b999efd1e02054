//! A serving certificate that the node signs itself, where none is given.

use std::net::IpAddr;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::{TlsError, certified};

/// A new certificate for these names and addresses, with a key of its own. As a kubelet's self-signed one it
/// is for a year; a new one is made at each start.
///
/// # Errors
/// A name is no DNS name, or no key can be made.
pub fn self_signed(names: &[String], addresses: &[IpAddr]) -> Result<CertifiedKey, SelfSignedError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
    let name = names.first().map_or("nodewarden", String::as_str);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("{name} (self-signed)"));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let now = std::time::SystemTime::now();
    let (day, year) = (std::time::Duration::from_secs(86_400), std::time::Duration::from_secs(365 * 86_400));
    // The clock of a client may be behind.
    params.not_before = (now - day).into();
    params.not_after = (now + year).into();
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(certified(vec![certificate.der().clone()], key)?)
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    /// A name or the key.
    #[error("a self-signed serving certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// What was made cannot be used.
    #[error(transparent)]
    Use(#[from] TlsError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_for_names_and_addresses() {
        let made = self_signed(&["node-1".into()], &["192.0.2.1".parse().unwrap()]).unwrap();
        assert_eq!(made.cert.len(), 1);
        assert!(self_signed(&[], &[]).is_ok());
    }
}
