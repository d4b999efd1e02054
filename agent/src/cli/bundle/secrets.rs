//! Leaves secrets out of what is collected. Pure.
//!
//! Two ways, since neither alone is enough: values of keys that hold secrets are replaced where the structure
//! is known (YAML and JSON), and whatever looks like a secret is replaced in any text.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

/// Stands for what was left out.
pub const LEFT_OUT: &str = "<left out>";

/// Parts of names of keys whose values are never shown, in lower case.
const SECRET_KEYS: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "authorization",
    "apikey",
    "api_key",
    "privatekey",
    "header",
];
/// Annotations that repeat a whole manifest.
const REPEATS_MANIFEST: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "kubernetes.io/config.source-text"];

/// A pattern of secrets, and what stands in its place: what identifies it stays.
struct Pattern {
    regex: Regex,
    with: &'static str,
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let all = [
        // A private key in PEM, also one whose end is missing, and one in a JSON string.
        (
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
            "<left out: a private key>",
        ),
        // A JSON web token: service accounts' tokens.
        (r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*", "<left out: a token>"),
        (r"(?i)\b(bearer|basic)[ \t]+[A-Za-z0-9+/=._~-]{4,}", "$1 <left out>"),
        // A scheme and what follows it.
        (r#"(?i)(authorization["']?[ \t]*[=:][ \t]*)[^\s]+([ \t]+[^\s]+)?"#, "$1<left out>"),
        // User and password in an address.
        (r"://[^/\s@:]+:[^/\s@]+@", "://<left out>@"),
        // A bootstrap token.
        (r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", "<left out: a token>"),
        (
            r#"(?i)([A-Za-z0-9_-]*(?:password|passwd|secret|token|api[-_]?key|credential|url-header)[A-Za-z0-9_-]*["']?[ \t]*[=:][ \t]*)("[^"\n]*"|'[^'\n]*'|[^\s,;"'&}\]]+)"#,
            "$1<left out>",
        ),
    ];
    // They are constants, which a test compiles.
    let compiled =
        all.into_iter().filter_map(|(text, with)| Some(Pattern { regex: Regex::new(text).ok()?, with }));
    compiled.collect()
});

/// The text without what looks like a secret.
pub fn scrub(text: &str) -> String {
    let mut text = text.to_owned();
    for pattern in PATTERNS.iter() {
        if let std::borrow::Cow::Owned(changed) = pattern.regex.replace_all(&text, pattern.with) {
            text = changed;
        }
    }
    text
}

/// The value without secrets: of keys that hold them, of environment variables, and of whatever looks like
/// one.
pub fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = scrub(text),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if key == "env" || key == "httpHeaders" {
                    mask_values(value);
                } else if is_secret(key, value) {
                    *value = LEFT_OUT.into();
                }
                mask(value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces the literal values of a list of variables or headers.
fn mask_values(list: &mut Value) {
    let items = list.as_array_mut().into_iter().flatten();
    for value in items.filter_map(|item| item.get_mut("value")) {
        *value = LEFT_OUT.into();
    }
}

/// Whether the value of a key is secret. Numbers and switches of that name are settings, and paths are no
/// secrets.
fn is_secret(key: &str, value: &Value) -> bool {
    if REPEATS_MANIFEST.contains(&key) {
        return true;
    }
    let name = key.to_lowercase();
    let named = SECRET_KEYS.iter().any(|part| name.contains(part));
    named
        && match value {
            Value::String(text) => !text.starts_with('/'),
            // Headers are lists by name. Other structures are looked into.
            Value::Object(_) | Value::Array(_) => name.contains("header"),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every secret that the tests plant.
    const PLANTED: [&str; 9] = [
        "hunter2hunter2",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl",
        "dXNlcjpwYXNz",
        "abcdef.0123456789abcdef",
        "MIIEvQIBADANBgkq",
        "postgres-pass",
        "sk-live-1234",
        "quoted secret words",
        "from-a-flag",
    ];

    fn text() -> String {
        format!(
            "DB_PASSWORD={}\nAuthorization: Token {}\nproxy-authorization=Basic {}\njoin {}\n\
             -----BEGIN RSA PRIVATE KEY-----\n{}\nAAAA\n-----END RSA PRIVATE KEY-----\n\
             postgres://admin:{}@db.example:5432/x\n\"apiKey\": \"{}\"\npassword: '{}'\n\
             --v=4 --manifest-url-header=Authorization:{}\n",
            PLANTED[0],
            PLANTED[1],
            PLANTED[2],
            PLANTED[3],
            PLANTED[4],
            PLANTED[5],
            PLANTED[6],
            PLANTED[7],
            PLANTED[8]
        )
    }

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(PATTERNS.len(), 7);
    }

    #[test]
    fn planted_secrets_are_gone_and_the_rest_stays() {
        let scrubbed = scrub(&text());
        for secret in PLANTED {
            assert!(!scrubbed.contains(secret), "{secret} in\n{scrubbed}");
        }
        for rest in [
            "DB_PASSWORD=",
            "authorization=<left out>",
            "db.example:5432/x",
            "--v=4",
            "<left out: a private key>",
        ] {
            assert!(scrubbed.contains(rest), "{rest} in\n{scrubbed}");
        }
        let plain =
            "event oom in /kubepods/burstable/pod8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77 at 10.0.0.1:10250\n";
        assert_eq!(scrub(plain), plain);
    }

    #[test]
    fn a_key_without_an_end_is_left_out_to_the_end() {
        let cut = scrub("before\n-----BEGIN PRIVATE KEY-----\nMIIEvQ");
        assert_eq!(cut, "before\n<left out: a private key>");
    }

    #[test]
    fn variables_headers_and_manifests_in_annotations_have_no_values() {
        let mut pod = json!({
            "metadata": {"annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"env\": \"hunter2\"}", "a": "b",
            }},
            "spec": {"containers": [{
                "env": [{"name": "PLAIN", "value": "hunter2"}, {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X", "value": "hunter2"}]}},
                "args": ["--password=hunter2", "--color=red"],
            }], "automountServiceAccountToken": true},
        });
        mask(&mut pod);
        let text = pod.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for rest in
            ["PLAIN", "\"name\":\"s\"", "--color=red", "\"a\":\"b\"", "\"automountServiceAccountToken\":true"]
        {
            assert!(text.contains(rest), "{rest} in {text}");
        }
    }

    #[test]
    fn settings_that_only_sound_secret_stay() {
        let mut settings = json!({
            "staticPodURLHeader": {"Authorization": ["Bearer abcdef"], "X-Key": ["hunter2"]},
            "authentication": {"x509": {"clientCAFile": "/etc/ca.crt"}, "webhook": {"enabled": true}},
            "tokenFile": "/var/run/token",
            "imagePullCredentialsVerificationPolicy": "NeverVerify",
        });
        mask(&mut settings);
        assert_eq!(settings["staticPodURLHeader"], LEFT_OUT);
        assert_eq!(settings["tokenFile"], "/var/run/token");
        assert_eq!(settings["authentication"]["webhook"]["enabled"], true);
        assert!(!settings.to_string().contains("hunter2"));
    }
}
