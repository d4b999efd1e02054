//! The request: headers of the manifest and of the kubelet (pkg/probe/http `newProbeRequest`), as Go's client
//! sends them and keeps them in redirects.

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, REFERER, TRAILER,
    TRANSFER_ENCODING, USER_AGENT,
};
use hyper::{Request, Uri, Version};

use super::url::Url;
use super::{Fault, Purpose};
use nodewarden_manifest::{HttpGetAction, Scheme};

/// The body of a GET request, which is empty.
pub(super) type Body = Empty<Bytes>;

/// The headers of a request and of its redirects.
#[derive(Debug)]
pub(super) struct Headers<'a> {
    manifest: &'a [(String, String)],
    purpose: Purpose,
    /// The `Host` header, if it differs from the URL.
    host: Option<&'a str>,
    /// The `Referer` header of a redirect.
    referer: Option<String>,
    /// A redirect led to another host: credentials are no longer sent.
    is_elsewhere: bool,
}

/// What Go's client does not send to another host (net/http `makeHeadersCopier`).
const CREDENTIALS: [&str; 6] =
    ["authorization", "www-authenticate", "cookie", "cookie2", "proxy-authorization", "proxy-authenticate"];

impl<'a> Headers<'a> {
    pub fn of(action: &'a HttpGetAction, purpose: Purpose) -> Self {
        let host = action.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = host.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty());
        Self { host, ..Self::new(&action.headers, purpose) }
    }

    /// These headers, of which a `Host` is not sent.
    pub fn new(headers: &'a [(String, String)], purpose: Purpose) -> Self {
        Self { manifest: headers, purpose, host: None, referer: None, is_elsewhere: false }
    }

    /// Updates the headers for a redirect. A `Host` of the manifest is used until an absolute redirect.
    /// `Referer` is sent unless the redirect leads from HTTPS to HTTP. Credentials are sent until a redirect
    /// leads to a host that is neither the one before nor below it.
    pub fn moved(&mut self, from: &Url, to: &Url, absolute: bool) {
        if absolute {
            self.host = None;
        }
        let leaks = from.scheme == Scheme::Https && to.scheme == Scheme::Http;
        self.referer = (!leaks).then(|| from.to_string());
        self.is_elsewhere |= !is_domain_or_below(&to.host, &from.host);
    }

    /// The request for `url` in HTTP/1.1 or HTTP/2.
    ///
    /// # Errors
    /// A header is not valid in HTTP.
    pub fn request(&self, url: &Url, version: Version) -> Result<Request<Body>, Fault> {
        let bad_path = || Fault::Path(url.path.clone());
        let authority = self.host.map_or_else(|| url.authority(), str::to_owned);
        let mut headers = self.manifest()?;
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, self.purpose.user_agent());
        }
        if !headers.contains_key(ACCEPT) {
            headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        }
        // A header that the manifest sets to an empty value is not sent.
        for name in [USER_AGENT, ACCEPT] {
            if headers.get(&name).is_some_and(HeaderValue::is_empty) {
                headers.remove(&name);
            }
        }
        if let Some(referer) = &self.referer
            && !headers.contains_key(REFERER)
        {
            headers.insert(REFERER, value("Referer", referer)?);
        }
        let uri = if version == Version::HTTP_2 {
            let builder = Uri::builder().scheme(url.scheme.name()).path_and_query(&*url.path);
            let host = || Fault::Header(format!("Host: {authority}"));
            builder.authority(&*authority).build().map_err(|_| host())?
        } else {
            headers.insert(HOST, value("Host", &authority)?);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            Uri::builder().path_and_query(&*url.path).build().map_err(|_| bad_path())?
        };
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The headers of the manifest without those of the connection and of message framing; only the first
    /// `User-Agent` is used.
    fn manifest(&self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::with_capacity(self.manifest.len() + 4);
        for (name, text) in self.manifest {
            let key = HeaderName::try_from(name.as_str()).map_err(|_| Fault::Header(name.clone()))?;
            let ours = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER].contains(&key);
            let withheld = self.is_elsewhere && CREDENTIALS.contains(&key.as_str());
            if !(ours || withheld || key == USER_AGENT && headers.contains_key(USER_AGENT)) {
                headers.append(key, value(name, text)?);
            }
        }
        Ok(headers)
    }
}

/// net/http `isDomainOrSubdomain`.
fn is_domain_or_below(host: &str, parent: &str) -> bool {
    let is_name = !host.contains([':', '%']);
    host == parent || is_name && host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

fn value(name: &str, text: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::try_from(text).map_err(|_| Fault::Header(format!("{name}: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(headers: &[(&str, &str)]) -> HttpGetAction {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HttpGetAction {
            scheme: Scheme::Http,
            host: None,
            port: 8080,
            path: "/a".to_owned(),
            headers: headers.collect(),
        }
    }

    fn sent(headers: &Headers<'_>, url: &Url) -> Vec<String> {
        let request = headers.request(url, Version::HTTP_11).unwrap();
        let mut lines: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn headers_of_the_manifest_and_of_the_kubelet_are_sent() {
        let agent = format!("user-agent: kube-probe/{}", nodewarden_model::version());
        let own = ["accept: */*", "connection: close", "host: h:8080"];
        for (asked, expected) in [
            (&[][..], [&own[..], &[&agent]].concat()),
            (&[("X", "1"), ("x", "2")], [&own[..], &[&agent, "x: 1", "x: 2"]].concat()),
            (
                &[("Host", "web"), ("host", "web2")],
                vec!["accept: */*", "connection: close", "host: web", &agent],
            ),
            (&[("host", "")], [&own[..], &[&agent]].concat()),
            (&[("Accept", ""), ("User-Agent", "")], own[1..].to_vec()),
            (&[("User-Agent", "me"), ("User-Agent", "you")], [&own[..], &["user-agent: me"]].concat()),
            (
                &[("Accept", "a/b"), ("Accept", "c/d")],
                [&["accept: a/b", "accept: c/d"], &own[1..], &[&agent]].concat(),
            ),
            // Headers for framing and for keeping the connection are not taken from the manifest.
            (
                &[("Content-Length", "5"), ("transfer-encoding", "chunked"), ("Trailer", "X")],
                [&own[..], &[&agent]].concat(),
            ),
            (&[("Connection", "keep-alive")], [&own[..], &[&agent]].concat()),
        ] {
            let action = action(asked);
            assert_eq!(
                sent(&Headers::of(&action, Purpose::Probe), &Url::of(&action, "h")),
                expected,
                "{asked:?}"
            );
        }
        let hook = action(&[]);
        let lines = sent(&Headers::of(&hook, Purpose::Hook), &Url::of(&hook, "::1"));
        assert_eq!(
            lines[2..],
            [
                "host: [::1]:8080".to_owned(),
                format!("user-agent: kube-lifecycle/{}", nodewarden_model::version())
            ]
        );
        for bad in [("a b", "c"), ("", "c"), ("a", "b\nc")] {
            let action = action(&[bad]);
            let fault =
                Headers::of(&action, Purpose::Probe).request(&Url::of(&action, "h"), Version::HTTP_11);
            assert!(matches!(fault, Err(Fault::Header(_))), "{bad:?}");
        }
    }

    #[test]
    fn host_and_referer_follow_redirects() {
        let action = action(&[("Host", "web")]);
        let (from, mut headers) = (Url::of(&action, "h"), Headers::of(&action, Purpose::Probe));
        let (relative, absolute) = from.follow("/b", true).unwrap().unwrap();
        headers.moved(&from, &relative, absolute);
        let lines = sent(&headers, &relative);
        assert!(lines.contains(&"host: web".to_owned()), "{lines:?}");
        assert!(lines.contains(&"referer: http://h:8080/a".to_owned()), "{lines:?}");
        let (there, absolute) = relative.follow("https://h/c", true).unwrap().unwrap();
        headers.moved(&relative, &there, absolute);
        assert!(sent(&headers, &there).contains(&"host: h".to_owned()));
        let (back, absolute) = there.follow("http://h/d", true).unwrap().unwrap();
        headers.moved(&there, &back, absolute);
        assert!(!sent(&headers, &back).iter().any(|line| line.starts_with("referer")));
        let explicit = self::action(&[("Referer", "me")]);
        let mut headers = Headers::of(&explicit, Purpose::Probe);
        headers.moved(&from, &relative, false);
        assert!(sent(&headers, &relative).contains(&"referer: me".to_owned()));
    }

    #[test]
    fn credentials_go_to_no_other_host() {
        let given = [("Authorization", "Bearer a"), ("Cookie", "b"), ("X", "c"), ("Host", "web")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let url = |text: &str| Url::parse(text).unwrap();
        let (first, all) = (url("http://h.example/"), &["authorization: Bearer a", "cookie: b", "x: c"][..]);
        for (way, expected) in [
            (&[][..], all),
            (&["https://h.example:8443/x"], all),
            (&["http://a.h.example/"], all),
            (&["http://ah.example/"], &all[2..]),
            (&["http://example/"], &all[2..]),
            // Not even after the way back.
            (&["http://example/", "http://h.example/"], &all[2..]),
        ] {
            let (mut headers, mut at) = (Headers::new(&given, Purpose::StaticPods), first.clone());
            for to in way.iter().map(|text| url(text)) {
                headers.moved(&at, &to, true);
                at = to;
            }
            let lines = sent(&headers, &at);
            let ours = ["accept", "connection", "host", "referer", "user-agent"];
            let others = lines.iter().filter(|line| !ours.iter().any(|own| line.starts_with(own)));
            assert_eq!(others.collect::<Vec<_>>(), expected, "{way:?}");
            assert!(lines.contains(&format!("host: {}", at.authority())), "{lines:?}");
        }
    }

    #[test]
    fn an_http2_request_has_no_host_header() {
        let action = action(&[("Host", "web"), ("X", "1")]);
        let url = Url { scheme: Scheme::Https, ..Url::of(&action, "h") };
        let headers = Headers::of(&action, Purpose::Probe);
        let request = headers.request(&url, Version::HTTP_2).unwrap();
        assert_eq!(request.uri().to_string(), "https://web/a");
        assert!(!request.headers().contains_key(HOST) && !request.headers().contains_key(CONNECTION));
    }
}
