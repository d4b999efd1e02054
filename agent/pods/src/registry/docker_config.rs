//! Docker's configuration of registries, as secrets of the types `kubernetes.io/dockerconfigjson` and
//! `kubernetes.io/dockercfg` have it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

use super::Credential;
use crate::objects::Secret;

/// Credentials by the addresses of registries.
pub type DockerConfig = BTreeMap<String, Credential>;

#[derive(Deserialize)]
struct ConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    /// `user:password` in base64; counts before the two.
    #[serde(default)]
    auth: String,
}

/// The configuration in a secret; `None` for a secret of another type.
///
/// # Errors
/// Its content cannot be read. The text does not contain it.
pub(super) fn of_secret(secret: &Secret) -> Result<Option<DockerConfig>, &'static str> {
    let read = |key: &str| secret.data.get(key).map(Vec::as_slice);
    let entries = match secret.kind.as_str() {
        "kubernetes.io/dockerconfigjson" => {
            let Some(text) = read(".dockerconfigjson") else { return Ok(None) };
            serde_json::from_slice::<ConfigJson>(text).map_err(|_| ".dockerconfigjson cannot be read")?.auths
        }
        "kubernetes.io/dockercfg" => {
            let Some(text) = read(".dockercfg") else { return Ok(None) };
            serde_json::from_slice(text).map_err(|_| ".dockercfg cannot be read")?
        }
        _ => return Ok(None),
    };
    let credential = |(address, entry)| credential(entry).map(|credential| (address, credential));
    entries.into_iter().map(credential).collect::<Result<_, _>>().map(Some)
}

fn credential(entry: Entry) -> Result<Credential, &'static str> {
    let Entry { username, password, auth } = entry;
    if auth.is_empty() {
        return Ok(Credential { username, password });
    }
    let decoded = STANDARD.decode(&auth).or_else(|_| STANDARD_NO_PAD.decode(&auth));
    let decoded = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let (username, password) = decoded
        .as_deref()
        .and_then(|text| text.split_once(':'))
        .ok_or("auth is not user:password in base64")?;
    // Some tools write a line end or zeros after it.
    let password = password.trim_end_matches(['\0', '\n', '\r']);
    Ok(Credential { username: username.to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(kind: &str, key: &str, text: &str) -> Secret {
        Secret { kind: kind.into(), data: [(key.to_owned(), text.as_bytes().to_vec())].into() }
    }

    #[test]
    fn both_types_of_secrets_are_read() {
        let new = r#"{"auths": {"https://r.test/v1/": {"auth": "dTpwOnE="}, "q.test": {"username": "a", "password": "b"}}}"#;
        let read =
            of_secret(&secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", new)).unwrap().unwrap();
        assert_eq!(read["https://r.test/v1/"], Credential { username: "u".into(), password: "p:q".into() });
        assert_eq!(read["q.test"], Credential { username: "a".into(), password: "b".into() });
        let old = r#"{"r.test": {"auth": "dTpw", "email": "x"}}"#;
        let read = of_secret(&secret("kubernetes.io/dockercfg", ".dockercfg", old)).unwrap().unwrap();
        assert_eq!(read["r.test"].password, "p");
        assert!(!format!("{read:?}").contains("\"p\""));
        assert_eq!(of_secret(&secret("Opaque", ".dockercfg", old)), Ok(None));
        for bad in ["", "[]", r#"{"r": {"auth": "!"}}"#, r#"{"r": {"auth": "dQ=="}}"#] {
            assert!(of_secret(&secret("kubernetes.io/dockercfg", ".dockercfg", bad)).is_err(), "{bad}");
        }
    }
}
