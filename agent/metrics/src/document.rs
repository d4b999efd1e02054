//! Writes docs/METRICS.md from the tables of families, and compares it with what is there.

use std::fmt::Write as _;
use std::path::Path;

use nodewarden_model::Topic;

use crate::cadvisor::names::LEFT_OUT;
use crate::family::{Desc, Kind};
use crate::{Cadvisor, Own, Resource, Sli};

const HEAD: &str = "\
# Metrics

Every metric that the agent exports, from the tables in its code: written by
`NODEWARDEN_WRITE_DOCS=1 cargo test -p nodewarden-metrics the_document`, and compared by a test.

A value that is not known is left out, never 0. A histogram's series end with `_bucket` (with the label `le`), `_sum` and
`_count`. [deploy/monitoring](../deploy/monitoring) has dashboards, alerts and recording rules, and
[RUNBOOKS.md](RUNBOOKS.md) a section for each alert.
";

/// The whole document.
fn document() -> String {
    let mut text = HEAD.to_owned();
    let (of_kubelet, own): (Vec<_>, Vec<_>) =
        Own::ALL.iter().map(|family| family.desc()).partition(|desc| !desc.name.starts_with("nodewarden_"));
    section(&mut text, "The agent, the node and managed pods", "At `/metrics`.", own);
    let under_kubelets_names =
        "At `/metrics`, and those of probes at `/metrics/probes` too. Mode manage, but for `process_`.";
    section(&mut text, "The same under the kubelet's names", under_kubelets_names, of_kubelet);
    for topic in Topic::ALL {
        let families: Vec<_> = topic.spec().families.iter().map(|family| &family.desc).collect();
        if !families.is_empty() {
            let title = format!("Topic `{}`, for each cgroup", topic.name());
            section(&mut text, &title, "At `/metrics`, while the topic is on.", families);
        }
    }
    let cadvisor = Cadvisor::ALL.iter().map(|family| family.desc()).collect();
    section(&mut text, "cAdvisor's", "At `/metrics/cadvisor`.", cadvisor);
    let resource = Resource::ALL.iter().map(|family| family.desc()).collect();
    section(&mut text, "The kubelet's resource metrics", "At `/metrics/resource`.", resource);
    let slis = Sli::ALL.iter().map(|family| family.desc()).collect();
    section(&mut text, "Health checks", "At `/metrics/slis` of the node's server.", slis);
    text.push_str("\n## cAdvisor's that are left out\n\n| metric | why |\n|---|---|\n");
    for (name, why) in LEFT_OUT {
        let _ = writeln!(text, "| `{name}` | {} |", cell(why));
    }
    text
}

fn section(text: &mut String, title: &str, place: &str, families: Vec<&'static Desc>) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n## {title}\n\n{place}\n\n| metric | type | labels | what it is |\n|---|---|---|---|\n"
    );
    for desc in families {
        let labels: Vec<_> = desc.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = match desc.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(text, "| `{}` | {kind} | {} | {} |", desc.name, labels.join(", "), cell(desc.help));
    }
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// With NODEWARDEN_WRITE_DOCS the document is written instead.
#[test]
fn the_document_is_that_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    if std::env::var_os("NODEWARDEN_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == document(),
        "docs/METRICS.md is not what the tables say: run \
         NODEWARDEN_WRITE_DOCS=1 cargo test -p nodewarden-metrics the_document"
    );
}
