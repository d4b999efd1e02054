//! Which of the kernels in Debian's package lists is the newest of a family.
//!
//! Up to 6.x a kernel is one package, `linux-image-<release>`. Later ones are two, `linux-binary-` and
//! `linux-modules-<release>`, and `linux-image-<release>` only asks for both; an upload can have one of the
//! two before the other.

use std::collections::BTreeMap;

use crate::assets::Family;
use xtask_common::debian::{Row, compare};

/// The end of the names of the kernels for virtual machines.
const FLAVOUR: &str = "-cloud-amd64";

/// A kernel all of whose packages are there.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// What `uname -r` says.
    pub release: String,
    /// Debian's version.
    pub version: String,
    /// Its packages, each `name=version`.
    pub packages: Vec<String>,
}

/// The regular expression that finds the packages of `family` by name.
pub fn pattern(family: Family) -> String {
    let version = match family {
        Family::V5_10 => r"5\.10\.",
        Family::V6_1 => r"6\.1\.",
        Family::V6_12 => r"6\.12\.",
        Family::V7 => r"([7-9]|[1-9][0-9]+)\.",
    };
    format!("^linux-(image|binary|modules)-{version}.*{FLAVOUR}$")
}

/// The newest kernel of `family` that is whole.
pub fn newest(rows: &[Row], family: Family) -> Option<Choice> {
    // By release and version: packages of one kernel have both in common.
    let mut kernels = BTreeMap::<(&str, &str), Vec<(&str, &Row)>>::new();
    for row in rows {
        let parts = row.package.strip_prefix("linux-").and_then(|name| name.split_once('-'));
        let Some((kind, release)) = parts else { continue };
        if release.ends_with(FLAVOUR) && belongs(release, family) {
            kernels.entry((release, &row.version)).or_default().push((kind, row));
        }
    }
    let split = |release: &str| {
        let mut all = kernels.iter().filter(|((other, _), _)| *other == release);
        all.any(|(_, packages)| packages.iter().any(|(kind, _)| *kind != "image"))
    };
    let whole = kernels.iter().filter_map(|((release, version), packages)| {
        let parts: &[&str] = if split(release) { &["binary", "modules"] } else { &["image"] };
        let package =
            |part: &&str| packages.iter().find(|(kind, _)| kind == part).map(|(_, row)| row.exact());
        let packages = parts.iter().map(package).collect::<Option<Vec<_>>>()?;
        Some(Choice { release: (*release).to_owned(), version: (*version).to_owned(), packages })
    });
    whole.max_by(|a, b| compare(&a.version, &b.version).then_with(|| compare(&a.release, &b.release)))
}

fn belongs(release: &str, family: Family) -> bool {
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().ok());
    let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
    match family {
        Family::V5_10 => (major, minor) == (Some(5), Some(10)),
        Family::V6_1 => (major, minor) == (Some(6), Some(1)),
        Family::V6_12 => (major, minor) == (Some(6), Some(12)),
        Family::V7 => major >= Some(7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(packages: &[(&str, &str)]) -> Vec<Row> {
        let row = |(package, version): &(&str, &str)| Row {
            package: (*package).to_owned(),
            version: (*version).to_owned(),
            suite: "x".to_owned(),
        };
        packages.iter().map(row).collect()
    }

    fn release(packages: &[(&str, &str)], family: Family) -> Option<String> {
        newest(&rows(packages), family).map(|choice| choice.release)
    }

    #[test]
    fn the_newest_of_the_family_by_version_not_by_name() {
        let packages = [
            ("linux-image-6.1.0-9-cloud-amd64", "6.1.27-1"),
            ("linux-image-6.1.0-50-cloud-amd64", "6.1.170-3"),
            ("linux-image-6.1.0-50-cloud-amd64", "6.1.176-1"),
            ("linux-image-6.1.0-49-cloud-amd64", "6.1.174-1"),
            ("linux-image-6.12.107+deb13-cloud-amd64", "6.12.107-1"),
            ("linux-image-6.12.9+deb13-cloud-amd64", "6.12.9-1"),
            ("linux-image-6.12.200+deb13-amd64", "6.12.200-1"),
            ("linux-image-6.12.200+deb13-cloud-amd64-unsigned", "6.12.200-1"),
            ("linux-image-cloud-amd64", "6.12.200-1"),
        ];
        let chosen = newest(&rows(&packages), Family::V6_1).unwrap();
        assert_eq!(chosen.packages, ["linux-image-6.1.0-50-cloud-amd64=6.1.176-1"]);
        assert_eq!(release(&packages, Family::V6_12).as_deref(), Some("6.12.107+deb13-cloud-amd64"));
        assert_eq!(release(&packages, Family::V7), None);
    }

    #[test]
    fn a_kernel_without_its_binary_is_not_chosen() {
        let packages = [
            ("linux-image-7.2.13+deb14-cloud-amd64", "7.2.13-1"),
            ("linux-binary-7.2.13+deb14-cloud-amd64", "7.2.13-1"),
            ("linux-modules-7.2.13+deb14-cloud-amd64", "7.2.13-1"),
            ("linux-image-7.3.4-cloud-amd64", "7.3.4-1"),
            ("linux-modules-7.3.4-cloud-amd64", "7.3.4-1"),
        ];
        let chosen = newest(&rows(&packages), Family::V7).unwrap();
        assert_eq!(chosen.release, "7.2.13+deb14-cloud-amd64");
        assert_eq!(
            chosen.packages,
            [
                "linux-binary-7.2.13+deb14-cloud-amd64=7.2.13-1",
                "linux-modules-7.2.13+deb14-cloud-amd64=7.2.13-1",
            ]
        );
    }

    #[test]
    fn both_packages_must_be_of_one_version() {
        let packages = [
            ("linux-binary-7.2.13-cloud-amd64", "7.2.13-1"),
            ("linux-modules-7.2.13-cloud-amd64", "7.2.13-2"),
            ("linux-modules-7.2.13-cloud-amd64", "7.2.13-1"),
        ];
        let chosen = newest(&rows(&packages), Family::V7).unwrap();
        assert_eq!(chosen.version, "7.2.13-1");
    }

    #[test]
    fn a_single_package_of_a_later_family_will_do() {
        let packages = [("linux-image-7.0.4+deb13-cloud-amd64", "7.0.4-1~bpo13+1")];
        assert!(release(&packages, Family::V7).is_some());
        assert!(release(&[("linux-image-10.1-cloud-amd64", "10.1-1")], Family::V7).is_some());
    }

    #[test]
    fn patterns_name_the_family_only() {
        assert_eq!(pattern(Family::V5_10), r"^linux-(image|binary|modules)-5\.10\..*-cloud-amd64$");
        assert_eq!(pattern(Family::V6_1), r"^linux-(image|binary|modules)-6\.1\..*-cloud-amd64$");
    }
}
