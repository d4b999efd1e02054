//! Entry points for fuzzing: the URLs of redirects.

use nodewarden_manifest::Scheme;

use super::url::Url;

/// Follows these `Location` headers from a URL of this host; the URLs on the way.
pub fn redirects<'a>(host: &str, locations: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut at = Url { scheme: Scheme::Http, host: host.to_owned(), port: Some(8080), path: "/a/b?c".into() };
    let mut urls = Vec::new();
    for location in locations {
        let Ok(Some((next, _))) = at.follow(location, true) else { break };
        urls.push(next.to_string());
        at = next;
    }
    urls
}
