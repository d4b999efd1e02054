//! Pods that a web server has: `staticPodURL`, `staticPodURLHeader` and `httpCheckFrequency`.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use serde_yaml_ng::{Mapping, Value};

use crate::duration;
use crate::fields::{Fields, shown};
use crate::shape::Shape;
use crate::show::{Map, pair};

const URL: &str = "staticPodURL";
const HEADER: &str = "staticPodURLHeader";
const FREQUENCY: &str = "httpCheckFrequency";

/// From where and how often pods are read by HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticPodUrl {
    /// `staticPodURL`: with the scheme http or https, a host, and neither user nor password; `None` for no
    /// such pods.
    pub url: Option<String>,
    /// `staticPodURLHeader`: the values of each header of the requests.
    pub headers: BTreeMap<String, Vec<String>>,
    /// `httpCheckFrequency`: time from the end of one request to the next one.
    pub check_frequency: Duration,
}

/// The kubelet's (pkg/kubelet/apis/config/v1beta1/defaults.go).
impl Default for StaticPodUrl {
    fn default() -> Self {
        Self { url: None, headers: BTreeMap::new(), check_frequency: Duration::from_secs(20) }
    }
}

/// Reads the three keys.
pub fn take(top: &mut Fields<'_>) -> StaticPodUrl {
    let default = StaticPodUrl::default();
    let expected =
        "a URL like https://host/pods.yaml, without user and password (staticPodURLHeader may have them)";
    let text = top.text(URL, expected, |text| Some(text.to_owned())).filter(|text| !text.is_empty());
    if let Some(text) = text.as_deref().filter(|text| !is_url(text)) {
        top.refuse(URL, &without_password(text), expected);
    }
    StaticPodUrl {
        url: text.filter(|text| is_url(text)),
        headers: headers(top),
        // As in the kubelet, 0 means not set.
        check_frequency: top
            .duration(FREQUENCY)
            .filter(|time| !time.is_zero())
            .unwrap_or(default.check_frequency),
    }
}

fn is_url(text: &str) -> bool {
    let Ok(url) = text.parse::<Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    let (whole, host) = (authority.as_str(), authority.host());
    let has_place = !host.is_empty() && (whole == host || authority.port_u16().is_some_and(|port| port > 0));
    matches!(url.scheme_str(), Some("http" | "https")) && has_place && !whole.contains('@')
}

/// `text` with `…` in place of user and password, for messages.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}{path}"),
        None => text.to_owned(),
    }
}

fn headers(top: &mut Fields<'_>) -> BTreeMap<String, Vec<String>> {
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, values) in top.map(HEADER, &Shape::List(&Shape::Text)) {
        let name = shown(&name);
        let field = format!("{HEADER}.{name}");
        if HeaderName::try_from(name.as_str()).is_err() {
            top.refuse(&field, &name, "the name of an HTTP header");
            continue;
        }
        let texts = |value: &Value| {
            let texts = value.as_sequence()?.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        };
        let is_value = |text: &String| HeaderValue::try_from(text.as_str()).is_ok();
        match texts(&values).filter(|texts| texts.iter().all(is_value)) {
            Some(texts) => headers.entry(name).or_default().extend(texts),
            // The value may be a secret.
            None => top.refuse(&field, "…", "a list of texts without line breaks, as values of this header"),
        }
    }
    headers
}

/// Writes the three keys.
pub(crate) fn show(top: &mut Map, settings: &StaticPodUrl) {
    let StaticPodUrl { url, headers, check_frequency } = settings;
    top.put_some(URL, url.clone());
    let list = |(name, values): (&String, &Vec<String>)| pair(name, values.clone());
    let headers = (!headers.is_empty()).then(|| headers.iter().map(list).collect::<Mapping>());
    top.put_some(HEADER, headers);
    top.put(FREQUENCY, duration::show(*check_frequency));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{problems, read};

    #[test]
    fn the_keys_are_read_and_shown() {
        let none = read("staticPodURL: ''\nhttpCheckFrequency: 0s").unwrap();
        assert_eq!(none.node.static_pod_url, StaticPodUrl::default());
        let body = "staticPodURL: https://[fd00::1]:8443/pods?node=a\nhttpCheckFrequency: 1m30s\n\
                    staticPodURLHeader: {Authorization: [Bearer abc], X-Two: [a, b]}";
        let config = read(body).unwrap();
        let expected = StaticPodUrl {
            url: Some("https://[fd00::1]:8443/pods?node=a".into()),
            headers: [
                ("Authorization".into(), vec!["Bearer abc".into()]),
                ("X-Two".into(), vec!["a".into(), "b".into()]),
            ]
            .into(),
            check_frequency: Duration::from_secs(90),
        };
        assert_eq!(config.node.static_pod_url, expected);
        assert!(config.ignored.is_empty(), "{:?}", config.ignored);
        let again = crate::parse("again", &config.to_yaml(), &crate::Overrides::default()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn messages_show_neither_user_nor_password() {
        for (text, expected) in [
            ("http://me:secret@h/x@y", "http://…@h/x@y"),
            ("http://a@b:c@h", "http://…@h"),
            ("http://h/me@x", "http://h/me@x"),
            ("pods.yaml", "pods.yaml"),
        ] {
            assert_eq!(without_password(text), expected);
        }
    }

    #[test]
    fn what_is_no_url_or_no_header_is_refused_by_its_key() {
        for url in [
            "pods.yaml",
            "/etc/pods",
            "ftp://h/x",
            "http://",
            "http:///x",
            "http://h:x/",
            "http://h:99999/",
            "http://h:0/",
            "http://me:secret@h/",
            "http://h/a b",
            "h:80/x",
        ] {
            let found = problems(&format!("staticPodURL: '{url}'"));
            assert_eq!(found.len(), 1, "{url}: {found:?}");
            assert!(found[0].starts_with("staticPodURL: ") && found[0].contains("a URL like"), "{found:?}");
            assert!(!found[0].contains("secret"), "{found:?}");
        }
        let values = "a list of texts without line breaks, as values of this header";
        for (body, expected) in [
            (
                "httpCheckFrequency: 20",
                "httpCheckFrequency: 20: expected a time like 20s or 1m30s".to_owned(),
            ),
            (
                "staticPodURLHeader: {a b: [c]}",
                "staticPodURLHeader.a b: a b: expected the name of an HTTP header".into(),
            ),
            ("staticPodURLHeader: {a: b}", format!("staticPodURLHeader.a: …: expected {values}")),
            ("staticPodURLHeader: {a: [1]}", format!("staticPodURLHeader.a: …: expected {values}")),
            ("staticPodURLHeader: {a: [\"b\\nc\"]}", format!("staticPodURLHeader.a: …: expected {values}")),
            ("staticPodURLHeader: [a]", "staticPodURLHeader: a list: expected a mapping".into()),
        ] {
            assert_eq!(problems(body), [expected], "{body}");
        }
    }
}
