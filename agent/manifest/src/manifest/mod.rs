//! Pods from the text of a manifest file: YAML or JSON, one document or many, pods or lists of pods.

mod aliases;
mod decode;
mod error;
mod locate;
mod split;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1;
use serde::Deserialize;
use serde_json::Value;

pub use aliases::{LARGEST as LARGEST_EXPANDED, fits as aliases_fit};
pub use error::{ManifestError, ManifestFault};

use super::{Pod, Problem};
use aliases::Room;
use decode::{Mismatch, typed, value};
use split::{Document, split};

/// Maximum number of bytes parsed to find the lines of a document's problems; further problems get the
/// document's line.
const MAX_BYTES_PARSED: usize = 4 << 20;

/// The pods of a file in order, unchanged: without a uid if the manifest has none. A document or item of a
/// list that is not a valid pod is an error in its place and does not affect the others. Empty documents are
/// skipped, as in the kubelet. Documents in which aliases expand to too much are refused before any of it is
/// made.
pub fn parse(text: &str) -> Vec<Result<Pod, ManifestError>> {
    let mut pods = Vec::new();
    let mut room = Room::default();
    for (index, document) in split(text).into_iter().enumerate() {
        let error = |line, fault| ManifestError { document: index + 1, line, fault };
        match document {
            Ok(document) if !room.has_for(&document) => {
                pods.push(Err(error(document.line, ManifestFault::TooLarge { limit: aliases::LARGEST })));
            }
            Ok(document) => {
                let found = pods_of(&document).into_iter();
                pods.extend(found.map(|pod| pod.map_err(|(line, fault)| error(line, fault))));
            }
            Err(mismatch) => pods.push(Err(error(mismatch.line, mismatch.into()))),
        }
    }
    pods
}

/// `apiVersion` and `kind` of a Kubernetes object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a Kubernetes object")]
struct Head {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Value>,
}

type Found = Result<Pod, (usize, ManifestFault)>;

fn pods_of(document: &Document<'_>) -> Vec<Found> {
    let failed = |mismatch: Mismatch| vec![Err((mismatch.line, mismatch.into()))];
    let read = value(document).and_then(|value| Ok((typed::<Head>(&value, "", document)?, value)));
    let (head, value) = match read {
        Ok(read) => read,
        Err(mismatch) => return failed(mismatch),
    };
    match (head.api_version.as_str(), head.kind.as_str()) {
        ("v1", "Pod") => vec![pod(value, "", document)],
        ("v1", "PodList" | "List") => match typed::<List>(value, "", document) {
            Ok(list) => {
                let items = list.items.into_iter().enumerate();
                items.map(|(index, pod)| item(index, pod, document)).collect()
            }
            Err(mismatch) => failed(mismatch),
        },
        _ => {
            vec![Err((document.line, ManifestFault::Kind { api_version: head.api_version, kind: head.kind }))]
        }
    }
}

/// An item of a list; without a kind it is taken as a pod.
fn item(index: usize, value: Value, document: &Document<'_>) -> Found {
    let place = format!("items[{index}]");
    let field = |key, default: &str| match value.get(key) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        _ => default.to_owned(),
    };
    let (api_version, kind) = (field("apiVersion", "v1"), field("kind", "Pod"));
    if (api_version.as_str(), kind.as_str()) != ("v1", "Pod") {
        return Err((locate::line(document, &place), ManifestFault::Kind { api_version, kind }));
    }
    pod(value, &place, document)
}

/// `place`: the item's field, empty for the document.
fn pod(value: Value, place: &str, document: &Document<'_>) -> Found {
    let pod = typed(value, place, document).map_err(|mismatch| (mismatch.line, mismatch.into()))?;
    let before = if place.is_empty() { String::new() } else { format!("{place}.") };
    validated(pod, &before, document)
}

fn validated(pod: v1::Pod, place: &str, document: &Document<'_>) -> Found {
    Pod::from_kubernetes(pod).map_err(|problems| {
        let located = MAX_BYTES_PARSED / document.text.len().max(1);
        let at = |(index, problem)| {
            let Problem { field, value, expected } = problem;
            let field = format!("{place}{field}");
            let line = if index <= located { locate::line(document, &field) } else { document.line };
            (line, Problem { field, value, expected })
        };
        let problems: Vec<_> = problems.into_iter().enumerate().map(at).collect();
        let first = problems.iter().map(|(line, _)| *line).min().unwrap_or(document.line);
        (first, ManifestFault::Invalid { problems })
    })
}
