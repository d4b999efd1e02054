//! Certificates with their keys as PEM: until when they are valid, and when they are renewed.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A certificate chain, the node's own first, and its key.
#[derive(Debug)]
pub struct Pair {
    /// Never empty.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first.
    pub key: PrivateKeyDer<'static>,
    /// When the first is valid.
    pub validity: Validity,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`.
    pub from: Timestamp,
    /// `notAfter`.
    pub until: Timestamp,
    /// A number of the certificate that spreads renewals: that of its serial.
    pub spread: u8,
}

impl Pair {
    /// Reads both from texts, which may be the same one. `None` if one is missing or damaged, or if the key
    /// is not that of the certificate: of two files that are replaced, one is the first.
    pub fn read(certificates: &[u8], key: &[u8]) -> Option<Self> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().ok()?;
        let validity = Validity::of(chain.first()?)?;
        let key = PrivateKeyDer::from_pem_slice(key).ok()?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &ring::default_provider()).ok()?;
        Some(Self { chain, key, validity })
    }
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key(), validity: self.validity }
    }
}

impl Validity {
    /// Of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let time = |time: i64| Timestamp::from_second(time).ok();
        let validity = parsed.validity();
        Some(Self {
            from: time(validity.not_before.timestamp())?,
            until: time(validity.not_after.timestamp())?,
            spread: parsed
                .raw_serial()
                .iter()
                .fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(*byte)),
        })
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.until
    }

    /// When it is renewed: after 70 to 90 % of its life, so that nodes that were made together do not ask
    /// together (k8s.io/client-go/util/certificate `nextRotationDeadline`).
    pub fn renewal(&self) -> Timestamp {
        let life = Duration::try_from(self.until.duration_since(self.from)).unwrap_or_default();
        let part = 0.7 + 0.2 * f64::from(self.spread) / 255.0;
        self.from.checked_add(life.mul_f64(part)).unwrap_or(self.until)
    }
}

/// Whether a serving certificate is for all these addresses and this name.
pub fn is_for(certificate: &CertificateDer<'_>, addresses: &[IpAddr], name: &str) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return false };
    let names = &names.value.general_names;
    let has_address = |address: &IpAddr| {
        let bytes = match address {
            IpAddr::V4(own) => own.octets().to_vec(),
            IpAddr::V6(own) => own.octets().to_vec(),
        };
        names.iter().any(|one| matches!(one, GeneralName::IPAddress(own) if *own == bytes))
    };
    let has_name = names.iter().any(|one| matches!(one, GeneralName::DNSName(own) if *own == name));
    has_name && addresses.iter().all(has_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_are_between_70_and_90_percent_of_the_life() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (spread, expected) in [(0, 1700), (255, 1900), (128, 1800)] {
            let validity = Validity { from: at(1000), until: at(2000), spread };
            assert_eq!(validity.renewal().as_second(), expected, "{spread}");
        }
        let validity = Validity { from: at(1000), until: at(2000), spread: 0 };
        assert!(!validity.is_over(at(1999)) && validity.is_over(at(2000)));
        // Damaged: it ends before it begins.
        let validity = Validity { from: at(2000), until: at(1000), spread: 0 };
        assert_eq!(validity.renewal(), at(2000));
    }

    #[test]
    fn a_certificate_is_for_some_names() {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["node-1", "10.0.0.1", "fd00::1"].map(str::to_owned);
        let made = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let ips = |list: &[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
        for (list, name, expected) in [
            (&["10.0.0.1", "fd00::1"][..], "node-1", true),
            (&[], "node-1", true),
            (&["10.0.0.1"], "node-2", false),
            (&["10.0.0.1", "10.0.0.2"], "node-1", false),
        ] {
            assert_eq!(is_for(made.der(), &ips(list), name), expected, "{list:?} {name}");
        }
        assert!(!is_for(&CertificateDer::from(vec![1, 2, 3]), &[], "node-1"));
    }

    #[test]
    fn a_pair_is_read_from_one_file() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["node-1".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let text = format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        let pair = Pair::read(text.as_bytes(), text.as_bytes()).unwrap();
        assert_eq!(
            (pair.chain.len(), pair.validity.from.to_string()),
            (1, "2026-01-01T00:00:00Z".to_owned())
        );
        assert!(Pair::read(b"", text.as_bytes()).is_none());
        assert!(Pair::read(text.as_bytes(), b"nothing").is_none());
    }
}
