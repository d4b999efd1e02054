//! Requests for certificates: CertificateSigningRequests of certificates.k8s.io/v1.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout};

use crate::Connection;
use crate::by_value::{Api, ByValue};

/// How long a request waits for its certificate (kubelet `certificateWaitTimeout`).
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How often it is looked at, in the beginning and later.
const LOOK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// How long it is looked at often.
const OFTEN: Duration = Duration::from_secs(30);
/// What every certificate of a node is for. Keys are ECDSA, which cannot encipher keys, but Kubernetes before
/// 1.22 approves and signs only with exactly these, and later versions accept them too
/// (pkg/apis/certificates/helpers.go).
const USAGES: [&str; 2] = ["digital signature", "key encipherment"];
/// Time limit of one call.
const CALL: Duration = Duration::from_secs(10);

/// Who the certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// The agent as a client of the API server.
    Client,
    /// The node's server, under these addresses and names.
    Server {
        /// IP addresses.
        ips: Vec<IpAddr>,
        /// Host names.
        names: Vec<String>,
    },
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The key or the request cannot be made.
    #[error("making the request: {0}")]
    Make(#[from] rcgen::Error),
    /// The API server refuses a call or does not answer.
    #[error("{call} CertificateSigningRequest {name}: {source}")]
    Call {
        /// `create` or `get`.
        call: &'static str,
        /// The request's name.
        name: String,
        /// What was answered.
        source: Box<kube::Error>,
    },
    /// The API server does not answer in time.
    #[error("{call} CertificateSigningRequest {name}: no answer within {} s", CALL.as_secs())]
    NoAnswer {
        /// `create` or `get`.
        call: &'static str,
        /// The request's name.
        name: String,
    },
    /// An approver or the signer refused it.
    #[error("CertificateSigningRequest {name} is {condition}: {message}")]
    Refused {
        /// The request's name.
        name: String,
        /// `Denied` or `Failed`.
        condition: String,
        /// Why.
        message: String,
    },
    /// It was neither approved nor signed in time.
    #[error("CertificateSigningRequest {name} has no certificate after {} minutes", LONGEST.as_secs() / 60)]
    Unanswered {
        /// The request's name.
        name: String,
    },
}

impl RequestError {
    /// Whether another request with the same key would have the same answer.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Make(_))
    }
}

/// The request for the certificate of this node. Its name follows from the key and the purpose: a restarted
/// agent finds the request that it has made before.
///
/// # Errors
/// The request cannot be signed.
pub fn request(
    node: &str,
    purpose: &Purpose,
    key: &KeyPair,
) -> Result<CertificateSigningRequest, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    let (signer, usage) = match purpose {
        Purpose::Client => ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
        Purpose::Server { ips, names } => {
            for name in names {
                params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
            }
            params.subject_alt_names.extend(ips.iter().map(|ip| SanType::IpAddress(*ip)));
            ("kubernetes.io/kubelet-serving", "server auth")
        }
    };
    let mut digest = Sha256::new();
    digest.update(key.public_key_raw());
    digest.update(format!("{node} {purpose:?}"));
    let digest: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let text = params.serialize_request(key)?.pem()?;
    Ok(CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(format!("node-csr-{digest}")), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(text.into_bytes()),
            signer_name: signer.to_owned(),
            usages: Some(USAGES.iter().chain([&usage]).map(|&usage| usage.to_owned()).collect()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    })
}

/// What is known of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The certificate, as PEM.
    Certificate(String),
    /// It is refused: the condition and its message.
    Refused(String, String),
    /// Not answered yet.
    Waits,
}

/// What the status of a request says.
pub fn answer(request: &CertificateSigningRequest) -> Answer {
    let Some(status) = &request.status else { return Answer::Waits };
    let refused = status.conditions.iter().flatten().find(|c| c.type_ == "Denied" || c.type_ == "Failed");
    if let Some(condition) = refused {
        let message = condition.message.clone().or_else(|| condition.reason.clone());
        return Answer::Refused(condition.type_.clone(), message.unwrap_or_default());
    }
    let approved = status.conditions.iter().flatten().any(|condition| condition.type_ == "Approved");
    match &status.certificate {
        Some(ByteString(bytes)) if approved && !bytes.is_empty() => {
            Answer::Certificate(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => Answer::Waits,
    }
}

/// Makes the request at the API server and waits for the certificate. `alive` is called while it waits.
///
/// # Errors
/// There is none, for one of the reasons of [`RequestError`].
pub async fn certificate(
    connection: &Connection,
    request: &CertificateSigningRequest,
    alive: impl Fn(),
) -> Result<String, RequestError> {
    let name = request.metadata.name.clone().unwrap_or_default();
    let api = || Api::<CertificateSigningRequest>::all(connection.client());
    let (begun, request) = (Instant::now(), ByValue(request.clone()));
    let mut found = match call("create", &name, api().create(&PostParams::default(), &request)).await {
        Err(RequestError::Call { source, .. }) if is_conflict(&source) => {
            call("get", &name, api().get(&name)).await?
        }
        made => made?,
    };
    loop {
        alive();
        match answer(&found) {
            Answer::Certificate(text) => return Ok(text),
            Answer::Refused(condition, message) => {
                return Err(RequestError::Refused { name, condition, message });
            }
            Answer::Waits if begun.elapsed() > LONGEST => return Err(RequestError::Unanswered { name }),
            Answer::Waits => {}
        }
        sleep(LOOK[usize::from(begun.elapsed() > OFTEN)]).await;
        found = call("get", &name, api().get(&name)).await?;
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

async fn call(
    call: &'static str,
    name: &str,
    answer: impl Future<Output = Result<ByValue<CertificateSigningRequest>, kube::Error>>,
) -> Result<CertificateSigningRequest, RequestError> {
    let name = || name.to_owned();
    match timeout(CALL, answer).await {
        Err(_) => Err(RequestError::NoAnswer { call, name: name() }),
        Ok(Err(source)) => Err(RequestError::Call { call, name: name(), source: Box::new(source) }),
        Ok(Ok(found)) => Ok(found.0),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::certificates::v1::{
        CertificateSigningRequestCondition, CertificateSigningRequestStatus,
    };

    use super::*;

    #[test]
    fn a_request_is_what_the_signers_of_kubernetes_accept() {
        let key = KeyPair::generate().unwrap();
        let client = request("node-1", &Purpose::Client, &key).unwrap();
        assert_eq!(client.spec.signer_name, "kubernetes.io/kube-apiserver-client-kubelet");
        let usages = client.spec.usages.as_deref().unwrap();
        assert_eq!(usages, ["digital signature", "key encipherment", "client auth"]);
        let again = request("node-1", &Purpose::Client, &key).unwrap();
        assert_eq!(client.metadata.name, again.metadata.name);
        let purpose =
            Purpose::Server { ips: vec!["10.0.0.1".parse().unwrap()], names: vec!["node-1".into()] };
        let server = request("node-1", &purpose, &key).unwrap();
        assert_ne!(client.metadata.name, server.metadata.name);
        assert_eq!(server.spec.signer_name, "kubernetes.io/kubelet-serving");
        let text = String::from_utf8(server.spec.request.0).unwrap();
        assert!(text.starts_with("-----BEGIN CERTIFICATE REQUEST-----"), "{text}");
    }

    #[test]
    fn what_a_status_says() {
        let condition = |kind: &str| CertificateSigningRequestCondition {
            type_: kind.into(),
            status: "True".into(),
            message: Some("why".into()),
            ..CertificateSigningRequestCondition::default()
        };
        let status = |kinds: &[&str], bytes: Option<&str>| CertificateSigningRequestStatus {
            conditions: Some(kinds.iter().map(|kind| condition(kind)).collect()),
            certificate: bytes.map(|text| ByteString(text.as_bytes().to_vec())),
        };
        for (status, expected) in [
            (None, Answer::Waits),
            (Some(status(&[], None)), Answer::Waits),
            (Some(status(&["Approved"], None)), Answer::Waits),
            (Some(status(&["Approved"], Some("pem"))), Answer::Certificate("pem".into())),
            (Some(status(&["Approved", "Failed"], None)), Answer::Refused("Failed".into(), "why".into())),
            (Some(status(&["Denied"], None)), Answer::Refused("Denied".into(), "why".into())),
        ] {
            let found = CertificateSigningRequest { status, ..CertificateSigningRequest::default() };
            assert_eq!(answer(&found), expected);
        }
    }
}
