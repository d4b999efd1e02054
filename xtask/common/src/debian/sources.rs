//! The machine's apt sources: where its Debian mirror is, read from both formats of sources.list(5).

/// A place that packages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Address of the archive.
    pub uri: String,
    /// Its suites, such as `bookworm` and `bookworm-updates`.
    pub suites: Vec<String>,
    /// Its components, such as `main`.
    pub components: Vec<String>,
}

/// Sources in one-line format: `deb [options] uri suite component...`.
pub fn parse_list(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with(char::is_whitespace) {
        return None; // deb-src
    }
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(options) => options.split_once(']')?.1,
        None => rest,
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    Some(Source { uri, suites: vec![suite], components: words.collect() })
}

/// Sources in deb822 format: paragraphs of `Field: values`.
pub fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    for paragraph in lines.split(|line| line.trim().is_empty()) {
        let words = |field: &str| field_words(paragraph, field);
        let enabled = !words("Enabled").iter().any(|word| word.eq_ignore_ascii_case("no"));
        if !enabled || !words("Types").iter().any(|word| word == "deb") {
            continue;
        }
        let (suites, components) = (words("Suites"), words("Components"));
        sources.extend(words("URIs").into_iter().map(|uri| Source {
            uri,
            suites: suites.clone(),
            components: components.clone(),
        }));
    }
    sources
}

/// The words of one field, with its continuation lines, which begin with a space.
fn field_words(paragraph: &[&str], field: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut inside = false;
    for line in paragraph {
        let value = if line.starts_with([' ', '\t']) {
            *line
        } else {
            let Some((name, value)) = line.split_once(':') else { continue };
            inside = name.trim().eq_ignore_ascii_case(field);
            value
        };
        if inside {
            words.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The archive of the machine's own release: the first source that has the suite `codename` in components.
pub fn archive<'a>(sources: &'a [Source], codename: &str) -> Option<&'a Source> {
    sources
        .iter()
        .find(|source| !source.components.is_empty() && source.suites.iter().any(|suite| suite == codename))
}

/// The value of a field in os-release(5), without its quotes.
pub fn os_release_field<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once('='));
    fields.find(|(name, _)| *name == field).map(|(_, value)| value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(uri: &str, suites: &[&str], components: &[&str]) -> Source {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Source { uri: uri.to_owned(), suites: owned(suites), components: owned(components) }
    }

    #[test]
    fn one_line_sources() {
        let text = "# comment\n\
            deb http://mirror.test/debian bookworm main contrib # trailing\n\
            deb [arch=amd64 signed-by=/k.gpg]  http://other.test/apt stable main\n\
            deb-src http://mirror.test/debian bookworm main\n\
            deb http://flat.test/ ./\n\
            debris\n";
        assert_eq!(
            parse_list(text),
            [
                source("http://mirror.test/debian", &["bookworm"], &["main", "contrib"]),
                source("http://other.test/apt", &["stable"], &["main"]),
                source("http://flat.test/", &["./"], &[]),
            ]
        );
    }

    #[test]
    fn deb822_sources() {
        let text = "Types: deb deb-src\n# in between\nURIs: http://a.test/debian\n http://b.test/debian\n\
            Suites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n\n\n\
            Types: deb\nEnabled: no\nURIs: http://off.test\nSuites: x\nComponents: main\n\n\
            types: deb-src\nURIs: http://src.test\nSuites: x\n";
        let suites = ["bookworm", "bookworm-updates"];
        assert_eq!(
            parse_deb822(text),
            [
                source("http://a.test/debian", &suites, &["main"]),
                source("http://b.test/debian", &suites, &["main"]),
            ]
        );
    }

    #[test]
    fn the_archive_is_the_one_with_the_own_release() {
        let sources = [
            source("http://flat.test/", &["bookworm"], &[]),
            source("http://security.test", &["bookworm-security"], &["main"]),
            source("http://mirror.test", &["bookworm", "bookworm-updates"], &["main"]),
        ];
        assert_eq!(archive(&sources, "bookworm").unwrap().uri, "http://mirror.test");
        assert_eq!(archive(&sources, "trixie"), None);
    }

    #[test]
    fn os_release_fields() {
        let text = "VERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(os_release_field(text, "VERSION_CODENAME"), Some("bookworm"));
        assert_eq!(os_release_field(text, "VERSION"), Some("12 (bookworm)"));
        assert_eq!(os_release_field(text, "CODENAME"), None);
    }
}
