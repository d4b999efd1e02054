//! Which files a package installs, and where.

use crate::DistError;
use crate::archive::{self, Effort};
use crate::generated::Generated;
use crate::tree::Tree;
use crate::units::Mode;

/// The kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Debian's.
    Deb,
    /// That of Fedora, openSUSE and others.
    Rpm,
}

/// Where the configuration is.
pub const CONFIGURATION: &str = "etc/nodewarden";
/// Where the documents are.
pub const DOCUMENTS: &str = "usr/share/doc/nodewarden";
/// Where dashboards, rules and the schema are.
pub const SHARED: &str = "usr/share/nodewarden";

/// A document, and its name in the package.
const TEXTS: [(&str, &str); 25] = [
    ("AUGMENT.md", include_str!("../../../docs/AUGMENT.md")),
    ("CHANGELOG.md", include_str!("../../../CHANGELOG.md")),
    ("CONFIGURATION.md", include_str!("../../../docs/CONFIGURATION.md")),
    ("CONFORMANCE.md", include_str!("../../../docs/CONFORMANCE.md")),
    ("EVENTS.md", include_str!("../../../docs/EVENTS.md")),
    ("KERNELS.md", include_str!("../../../docs/KERNELS.md")),
    ("METRICS.md", include_str!("../../../docs/METRICS.md")),
    ("OPERATING.md", include_str!("../../../docs/OPERATING.md")),
    ("README.md", include_str!("../../../README.md")),
    ("RUNBOOKS.md", include_str!("../../../docs/RUNBOOKS.md")),
    ("SECURITY.md", include_str!("../../../SECURITY.md")),
    ("SPECIFICATION.md", include_str!("../../../docs/SPECIFICATION.md")),
    ("UPGRADING.md", include_str!("../../../docs/UPGRADING.md")),
    ("decisions.md", include_str!("../../../docs/decisions.md")),
    ("first-ten-minutes.md", include_str!("../../../docs/first-ten-minutes.md")),
    ("installing.md", include_str!("../../../docs/installing.md")),
    ("limits.md", include_str!("../../../docs/limits.md")),
    ("manage.md", include_str!("../../../docs/manage.md")),
    ("migrating.md", include_str!("../../../docs/migrating.md")),
    ("node.md", include_str!("../../../docs/node.md")),
    ("observe.md", include_str!("../../../docs/observe.md")),
    ("page.md", include_str!("../../../docs/page.md")),
    ("resources.md", include_str!("../../../docs/resources.md")),
    ("security.md", include_str!("../../../docs/security.md")),
    ("troubleshooting.md", include_str!("../../../docs/troubleshooting.md")),
];
const EXAMPLES: [(&str, &str); 4] = [
    ("besteffort.yaml", include_str!("../../../deploy/examples/besteffort.yaml")),
    ("burstable.yaml", include_str!("../../../deploy/examples/burstable.yaml")),
    ("config.yaml", include_str!("../../../deploy/config.yaml")),
    ("guaranteed.yaml", include_str!("../../../deploy/examples/guaranteed.yaml")),
];
/// What Prometheus and Grafana load.
pub const MONITORING: [(&str, &str); 6] = [
    ("dashboards/agent.json", include_str!("../../../deploy/monitoring/dashboards/agent.json")),
    ("dashboards/evictions.json", include_str!("../../../deploy/monitoring/dashboards/evictions.json")),
    ("dashboards/node.json", include_str!("../../../deploy/monitoring/dashboards/node.json")),
    ("dashboards/pod.json", include_str!("../../../deploy/monitoring/dashboards/pod.json")),
    ("rules/alerts.yaml", include_str!("../../../deploy/monitoring/rules/alerts.yaml")),
    ("rules/recording.yaml", include_str!("../../../deploy/monitoring/rules/recording.yaml")),
];
const APACHE: &str = include_str!("../../../LICENSE-APACHE");
const GPL: &str = include_str!("../../../LICENSE-GPL");

/// Everything that a package of `format` installs.
///
/// # Errors
/// When something can't be compressed.
pub fn of(format: Format, binary: &[u8], generated: &Generated, effort: Effort) -> Result<Tree, DistError> {
    let mut tree = Tree::default();
    tree.program("usr/bin/nodewarden", binary);
    for mode in Mode::ALL {
        tree.file(&format!("usr/lib/systemd/system/{}", mode.unit()), mode.text());
        tree.configuration(&format!("{CONFIGURATION}/{}", mode.configuration()), mode.settings());
    }
    tree.folder(&format!("{CONFIGURATION}/manifests"));
    for own in &generated.completions {
        let place = if format == Format::Deb { own.debian } else { own.elsewhere };
        tree.file(place, own.text.as_slice());
    }
    for (name, page) in &generated.pages {
        tree.file(&format!("usr/share/man/man1/{name}.gz"), archive::gzip(page, effort)?);
    }
    for (name, text) in TEXTS {
        tree.file(&format!("{DOCUMENTS}/{name}"), text);
    }
    for (name, text) in EXAMPLES {
        tree.file(&format!("{DOCUMENTS}/examples/{name}"), text);
    }
    for (name, text) in MONITORING {
        tree.file(&format!("{SHARED}/{name}"), text);
    }
    tree.file(&format!("{SHARED}/config.schema.json"), generated.schema.as_slice());
    match format {
        Format::Deb => tree.file(&format!("{DOCUMENTS}/copyright"), copyright()),
        Format::Rpm => {
            tree.file("usr/share/licenses/nodewarden/LICENSE-APACHE", APACHE);
            tree.file("usr/share/licenses/nodewarden/LICENSE-GPL", GPL);
        }
    }
    Ok(tree)
}

/// Debian's machine-readable copyright file, version 1.0.
fn copyright() -> String {
    let paragraph = |text: &str| {
        let lines =
            text.lines().map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") });
        lines.collect::<String>()
    };
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: nodewarden\n\n\
         Files: *\nCopyright: the authors of nodewarden\nLicense: Apache-2.0 or GPL-2.0\n\n\
         License: Apache-2.0\n{}\nLicense: GPL-2.0\n{}",
        paragraph(APACHE),
        paragraph(GPL)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_own_places() {
        let deb = of(Format::Deb, b"binary", &Generated::default(), Effort::Quick).unwrap();
        let rpm = of(Format::Rpm, b"binary", &Generated::default(), Effort::Quick).unwrap();
        assert!(deb.data("usr/share/doc/nodewarden/copyright").is_some());
        assert!(rpm.data("usr/share/licenses/nodewarden/LICENSE-GPL").is_some());
        let configuration = |tree: &Tree| {
            let files = tree.entries().filter(|(_, entry)| entry.configuration);
            files.map(|(path, _)| path.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(configuration(&deb), ["etc/nodewarden/config.yaml", "etc/nodewarden/manage.yaml"]);
        assert_eq!(configuration(&deb), configuration(&rpm));
        assert!(!deb.entries().any(|(path, _)| path.starts_with('/')));
    }

    #[test]
    fn the_copyright_file_has_no_empty_line_inside_a_licence() {
        let text = copyright();
        assert_eq!(text.matches("\n\n").count(), 3, "one between each two paragraphs");
    }
}
