//! What `apt-cache madison` and `apt-cache search` print.

use super::version;

/// One version of a package in one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The package.
    pub package: String,
    /// Its Debian version.
    pub version: String,
    /// The suite that has it, such as `bookworm-backports`.
    pub suite: String,
}

impl Row {
    /// `name=version`, as apt wants it.
    pub fn exact(&self) -> String {
        format!("{}={}", self.package, self.version)
    }
}

/// The lines `package | version | address suite/component architecture Packages` of `apt-cache madison`, in
/// its order.
pub fn parse_madison(text: &str) -> Vec<Row> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Row> {
    let mut fields = line.split('|').map(str::trim);
    let (package, version, source) = (fields.next()?, fields.next()?, fields.next()?);
    let mut words = source.split_whitespace();
    let (_, place) = (words.next()?, words.next()?);
    if words.last() != Some("Packages") {
        return None;
    }
    let suite = place.rsplit_once('/').map_or(place, |(suite, _)| suite);
    Some(Row { package: package.to_owned(), version: version.to_owned(), suite: suite.to_owned() })
}

/// The names in the lines `name - summary` of `apt-cache search`.
pub fn parse_search(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.split_once(" - "));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// The row of the newest version of `package`.
pub fn newest<'a>(rows: &'a [Row], package: &str) -> Option<&'a Row> {
    let rows = rows.iter().filter(|row| row.package == package);
    rows.max_by(|a, b| version::compare(&a.version, &b.version))
}

/// The version of `package` whose upstream part is `wanted`, the first one of any if `None`.
pub fn of_upstream<'a>(rows: &'a [Row], package: &str, wanted: Option<&str>) -> Option<&'a Row> {
    let mut rows = rows.iter().filter(|row| row.package == package);
    rows.find(|row| wanted.is_none_or(|wanted| upstream(&row.version) == wanted))
}

/// The upstream part of a Debian version: `1.95.0` of `1:1.95.0+dfsg1-2~bpo13+1`.
pub fn upstream(debian: &str) -> &str {
    let version = debian.split_once(':').map_or(debian, |(_, rest)| rest);
    version.split(['+', '-', '~']).next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADISON: &str = "\
        qemu-system-x86 | 1:7.2+dfsg-7+deb12u18 | http://x/debian bookworm/main amd64 Packages\n\
        qemu-system-x86 | 1:10.0.2+ds-2~bpo12+1 | http://x/debian bookworm-backports/main amd64 Packages\n\
        qemu-system-x86 | 1:9.2.0+ds-2~bpo12+1 | http://x/debian bookworm-backports/main amd64 Packages\n\
        qemu | 1:7.2+dfsg-7 | http://x/debian bookworm/main Sources\n\
        N: something else\n";

    #[test]
    fn the_newest_is_found_with_its_suite() {
        let rows = parse_madison(MADISON);
        assert_eq!(rows.len(), 3);
        let row = newest(&rows, "qemu-system-x86").unwrap();
        assert_eq!(
            (row.version.as_str(), row.suite.as_str()),
            ("1:10.0.2+ds-2~bpo12+1", "bookworm-backports")
        );
        assert_eq!(row.exact(), "qemu-system-x86=1:10.0.2+ds-2~bpo12+1");
        assert_eq!(newest(&rows, "qemu"), None);
    }

    #[test]
    fn the_upstream_version_must_be_the_very_same() {
        let list = "  rust-src | 1.96.1+dfsg1-2~bpo13+1 | http://x trixie-backports/main amd64 Packages\n\
            rust-src | 1.95.0+dfsg1-2~bpo13+1 | http://x trixie-backports/main amd64 Packages\n";
        let rows = parse_madison(list);
        let version = |wanted| of_upstream(&rows, "rust-src", wanted).map(|row| row.version.as_str());
        assert_eq!(version(Some("1.95.0")), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(version(Some("1.95")), None);
        assert_eq!(version(None), Some("1.96.1+dfsg1-2~bpo13+1"));
        assert_eq!(of_upstream(&[], "rust-src", None), None);
    }

    #[test]
    fn upstream_versions() {
        for (debian, expected) in
            [("1.95.0+dfsg1-2", "1.95.0"), ("2:1.2-1", "1.2"), ("1.0~rc1-1", "1.0"), ("3", "3")]
        {
            assert_eq!(upstream(debian), expected);
        }
    }

    #[test]
    fn names_of_a_search() {
        let text = "linux-image-6.1.0-50-cloud-amd64 - Linux 6.1 for x86-64 cloud - signed\nodd line\n";
        assert_eq!(parse_search(text), ["linux-image-6.1.0-50-cloud-amd64"]);
    }
}
