//! Every page is in the table of contents, and every link of the documents leads to a file and a heading that
//! exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use nodewarden_testing::documents::{self, Document};

use super::SOURCES;

const CONTENTS: &str = "docs/SUMMARY.md";

fn documents() -> Vec<Document> {
    documents::read(&documents::repository()).unwrap()
}

/// The path in the repository to which `target` leads from a document; `None` if it leads out of the
/// repository.
fn resolve(document: &str, target: &str) -> Option<String> {
    let from = Path::new(document).parent()?;
    let mut path = PathBuf::new();
    for part in from.join(target).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    Some(path.to_string_lossy().into_owned())
}

#[test]
fn links_lead_somewhere() {
    let (root, documents) = (documents::repository(), documents());
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        documents.iter().map(|document| (document.path.as_str(), document.anchors())).collect();
    let mut problems = Vec::new();
    let mut followed = 0;
    for document in &documents {
        for link in document.links() {
            followed += 1;
            let (file, anchor) = link.text.split_once('#').unwrap_or((&link.text, ""));
            let path =
                if file.is_empty() { Some(document.path.clone()) } else { resolve(&document.path, file) };
            let Some(path) = path.filter(|path| root.join(path).exists()) else {
                problems.push(format!("{}: {} does not exist", link.place, link.text));
                continue;
            };
            if path == CONTENTS || !SOURCES.iter().any(|source| Path::new(&path).starts_with(source)) {
                problems.push(format!("{}: {} is not in the book", link.place, link.text));
            }
            let known =
                anchor.is_empty() || anchors.get(path.as_str()).is_some_and(|all| all.contains(anchor));
            if !known {
                problems.push(format!("{}: {} has no such heading", link.place, link.text));
            }
        }
    }
    println!("{followed} links");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(followed >= 100, "only {followed} links were found");
}

#[test]
fn every_page_is_in_the_contents_once() {
    let documents = documents();
    let contents = documents.iter().find(|document| document.path == CONTENTS).unwrap();
    let mut listed: Vec<String> =
        contents.links().iter().map(|link| resolve(CONTENTS, &link.text).unwrap()).collect();
    listed.sort();
    let pages: Vec<&str> =
        documents.iter().map(|document| document.path.as_str()).filter(|path| *path != CONTENTS).collect();
    assert_eq!(listed, pages);
}

#[test]
fn paths_are_resolved_from_the_document() {
    assert_eq!(resolve("docs/a.md", "../deploy/b").as_deref(), Some("deploy/b"));
    assert_eq!(resolve("a.md", "docs/b.md").as_deref(), Some("docs/b.md"));
    assert_eq!(resolve("a.md", "../b"), None);
}
