//! The URL of a request: built from a manifest (pkg/probe/http `formatURL`), and changed by a `Location`
//! header (RFC 3986, 5.2).

use std::fmt;

use super::Fault;
use nodewarden_manifest::{HttpGetAction, Scheme};

/// An absolute HTTP or HTTPS URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub scheme: Scheme,
    /// Host name or address, without brackets.
    pub host: String,
    /// `None` for the default port of the scheme.
    pub port: Option<u16>,
    /// Absolute path with query, percent-encoded.
    pub path: String,
}

/// The parts of a URI reference; a fragment is dropped.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

impl Url {
    /// Builds the URL of a manifest's action. Only path and query of its `path` are used, even if it is a
    /// whole URL. A text that is not a URI reference is taken as a literal path.
    pub fn of(action: &HttpGetAction, host: &str) -> Self {
        let text = action.path.as_str();
        let parts = reference(text);
        let whole = text.bytes().any(|byte| byte.is_ascii_control()) || has_bad_escape(parts.path);
        let path = match (whole, parts.query) {
            (true, _) => encoded(text, false),
            (false, Some(query)) => format!("{}?{}", encoded(parts.path, true), encoded(query, true)),
            (false, None) => encoded(parts.path, true),
        };
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        Self { scheme: action.scheme, host: host.to_owned(), port: Some(action.port), path }
    }

    /// Reads the absolute URL of a configuration.
    ///
    /// # Errors
    /// It is none for HTTP or HTTPS, or has no valid host.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let nowhere = Self { scheme: Scheme::Http, host: String::new(), port: None, path: "/".to_owned() };
        match nowhere.follow(text, false)? {
            Some((url, true)) if !url.host.is_empty() => Ok(url),
            _ => Err(Fault::Host(text.to_owned())),
        }
    }

    /// Resolves a `Location` header: the new URL, and whether the header was absolute; `None` if it leads to
    /// no host, or to another one and has to `stay`.
    ///
    /// # Errors
    /// The header is not a valid URL, or its scheme is unknown.
    pub fn follow(&self, location: &str, stay: bool) -> Result<Option<(Self, bool)>, Fault> {
        let bad = || Fault::Location(location.to_owned());
        let parts = reference(location);
        let (host, port) = match (parts.authority, parts.scheme) {
            (Some(authority), _) => host_and_port(authority).ok_or_else(bad)?,
            (None, Some(_)) => return Ok(None),
            (None, None) => (self.host.as_str(), self.port),
        };
        if location.bytes().any(|byte| byte.is_ascii_control()) || has_bad_escape(parts.path) {
            return Err(bad());
        }
        if stay && host != self.host {
            return Ok(None);
        }
        let scheme = match parts.scheme.map(str::to_ascii_lowercase).as_deref() {
            None => self.scheme,
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(Fault::Scheme(other.to_owned())),
        };
        let (base, base_query) =
            self.path.split_once('?').map_or((self.path.as_str(), None), |(path, query)| (path, Some(query)));
        let inherits = parts.authority.is_none() && parts.path.is_empty();
        let path = match (parts.path, parts.authority) {
            ("", None) => base.to_owned(),
            (path, None) if !path.starts_with('/') => {
                let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
                without_dots(&format!("{folder}/{path}"))
            }
            (path, _) => without_dots(path),
        };
        let mut path = encoded(&path, true);
        if let Some(query) = parts.query.or(base_query.filter(|_| inherits)) {
            path = format!("{path}?{}", encoded(query, true));
        }
        let moved = Self { scheme, host: host.to_owned(), port, path };
        Ok(Some((moved, parts.scheme.is_some())))
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }

    /// Host and port as in a `Host` header: an IPv6 address is in brackets and without its zone.
    pub fn authority(&self) -> String {
        let host = match self.host.split_once('%') {
            Some((address, _)) if address.contains(':') => address,
            _ => &self.host,
        };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        match self.port {
            Some(port) => format!("{open}{host}{close}:{port}"),
            None => format!("{open}{host}{close}"),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name(), self.authority(), self.path)
    }
}

fn reference(text: &str) -> Reference<'_> {
    let text = text.split('#').next().unwrap_or_default();
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, text),
    };
    let (authority, rest) = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), rest)
        }
        None => (None, rest),
    };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    Reference { scheme, authority, path, query }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Host (without user information and brackets) and port; `None` if the text is not an authority.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let port = match port {
        "" | ":" => None,
        port => Some(port.strip_prefix(':')?.parse().ok()?),
    };
    is_host(host).then_some((host, port))
}

/// Whether the text can be a host name or address.
pub(super) fn is_host(text: &str) -> bool {
    let bad = |byte: u8| byte <= b' ' || byte == 0x7f || b"\"#/<>?@[\\]^`{|}".contains(&byte);
    !text.bytes().any(bad)
}

fn has_bad_escape(path: &str) -> bool {
    let good = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    path.split('%').skip(1).any(|rest| !good(rest))
}

/// Percent-encodes characters that a URL may not contain; with `marks`, `%`, `?` and `#` keep their special
/// meaning.
fn encoded(text: &str, marks: bool) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let sent = match byte {
            b'%' | b'?' => marks,
            b'!' | b'$' | b'&'..=b';' | b'=' | b'@'..=b'Z' | b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => true,
            _ => false,
        };
        if sent {
            out.push(char::from(byte));
        } else {
            let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// Removes the dot segments `.` and `..` (RFC 3986, 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment == ".." {
            kept.pop();
        }
        match segment {
            "." | ".." if segments.peek().is_none() => kept.push(""),
            "." | ".." => {}
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str, path: &str) -> Url {
        let action = HttpGetAction {
            scheme: Scheme::Http,
            host: None,
            port: 80,
            path: path.to_owned(),
            headers: Vec::new(),
        };
        Url::of(&action, host)
    }

    #[test]
    fn the_url_of_a_manifest() {
        for (host, path, expected) in [
            ("10.0.0.1", "/a?b=c&d=%20", "http://10.0.0.1:80/a?b=c&d=%20"),
            ("fd00::1", "a b#c", "http://[fd00::1]:80/a%20b"),
            ("fe80::1%eth0", "/", "http://[fe80::1]:80/"),
            ("h", "", "http://h:80/"),
            ("h", "?q", "http://h:80/?q"),
            ("h", "/a?", "http://h:80/a?"),
            ("h", "/ä\"<>^`{|}\\", "http://h:80/%C3%A4%22%3C%3E%5E%60%7B%7C%7D%5C"),
            ("h", "/a/../b/.", "http://h:80/a/../b/."),
            // Only the path of a whole URL is used.
            ("h", "https://other:1/x?y", "http://h:80/x?y"),
            ("h", "//other", "http://h:80/"),
            // Not a URI reference: every character is literal.
            ("h", "/100%?a#b", "http://h:80/100%25%3Fa%23b"),
            ("h", "/a\n?", "http://h:80/a%0A%3F"),
            ("h", "/%zz", "http://h:80/%25zz"),
        ] {
            assert_eq!(of(host, path).to_string(), expected, "{host} {path}");
        }
    }

    #[test]
    fn the_url_of_a_location_header() {
        let base = Url { port: Some(8080), ..of("h", "/a/b/c?q") };
        for (location, expected) in [
            ("/x?y", "http://h:8080/x?y"),
            ("d", "http://h:8080/a/b/d"),
            ("./d/.", "http://h:8080/a/b/d/"),
            ("../d", "http://h:8080/a/d"),
            ("../../../../d/..", "http://h:8080/"),
            ("?z", "http://h:8080/a/b/c?z"),
            ("#f", "http://h:8080/a/b/c?q"),
            ("", "http://h:8080/a/b/c?q"),
            ("//h/x", "http://h/x"),
            ("HTTPS://u:p@h/x#f", "https://h/x"),
            ("http://h:1", "http://h:1/"),
            ("http://h?x", "http://h/?x"),
            ("http://h:/", "http://h/"),
            ("/ä b", "http://h:8080/%C3%A4%20b"),
        ] {
            let moved = base.follow(location, true).unwrap().map(|(url, _)| url.to_string());
            assert_eq!(moved.as_deref(), Some(expected), "{location}");
        }
        for foreign in ["//other/x", "http://H/", "http://h.:8080/", "mailto:h", "http:///x", "app://other/"]
        {
            assert_eq!(base.follow(foreign, true).unwrap(), None, "{foreign}");
        }
        for bad in ["http://h h/", "http://h:x/", "http://h:99999/", "http://[::1/", "/%zz", "/a\tb"] {
            assert!(matches!(base.follow(bad, true), Err(Fault::Location(_))), "{bad}");
        }
        assert!(matches!(base.follow("ftp://h/", true), Err(Fault::Scheme(scheme)) if scheme == "ftp"));
        assert!(base.follow("http://h/", true).unwrap().is_some_and(|(_, absolute)| absolute));
        assert!(base.follow("//h/", true).unwrap().is_some_and(|(_, absolute)| !absolute));
        let v6 = of("::1", "/");
        let (moved, _) = v6.follow("http://[::1]:9/y", true).unwrap().unwrap();
        assert_eq!((moved.host.as_str(), moved.port()), ("::1", 9));
    }

    #[test]
    fn the_url_of_a_configuration() {
        for (text, host, port, path) in [
            ("http://h", "h", 80, "/"),
            ("https://h?a=b", "h", 443, "/?a=b"),
            ("http://[::1]:8080/a/b?c#d", "::1", 8080, "/a/b?c"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port(), url.path.as_str()), (host, port, path), "{text}");
        }
        for text in ["", "/pods", "h:80/x", "//h/x", "http:///x", "http:x", "ftp://h/x", "http://h:x/"] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        let base = Url::parse("http://h/a").unwrap();
        let (moved, _) = base.follow("https://other/b", false).unwrap().unwrap();
        assert_eq!(moved.to_string(), "https://other/b");
        assert_eq!(base.follow("mailto:h", false).unwrap(), None);
    }

    #[test]
    fn the_default_port_depends_on_the_scheme() {
        let (plain, _) = of("h", "/").follow("http://h/", true).unwrap().unwrap();
        let (secure, _) = of("h", "/").follow("https://h/", true).unwrap().unwrap();
        assert_eq!((plain.port(), secure.port()), (80, 443));
    }
}
