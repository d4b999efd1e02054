//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

use nodewarden_cri::Listing;
use nodewarden_pods::spec::Ownership;
use nodewarden_proto::runtime::v1 as cri;
use nodewarden_storage::fuzzing::{read_state, write_state};

use crate::act::look;
use crate::decide::observed::Observed;
use crate::record::Record;
use crate::record::store::FORMAT;

/// Reads a pod's record from its file, or from the record alone without the version and checksum around it.
/// What is accepted is written as a file, read, and written again: both files. `None` when it is refused.
pub fn record(bytes: &[u8]) -> Option<[String; 2]> {
    let read: Record = read_state(FORMAT, bytes).or_else(|| serde_json::from_slice(bytes).ok())?;
    // Whether it is a pod by today's rules does not matter here, only that it is decided.
    let _ = read.manifest.pod(nodewarden_manifest::PodKind::Api);
    let first = write_state(FORMAT, &read)?;
    let again: Option<Record> = read_state(FORMAT, first.as_bytes());
    let again = again.and_then(|again| write_state(FORMAT, &again)).unwrap_or_default();
    Some([first, again])
}

/// Reads the runtime's answers about one pod; whether a listing of the same objects differs from what was
/// read.
pub fn observed(
    listing: &Listing,
    statuses: &[cri::ContainerStatus],
    sandboxes: &[cri::PodSandboxStatus],
) -> bool {
    let ips = |at: usize| sandboxes.get(at).map(look::ips).unwrap_or_default();
    let seen = Observed {
        sandboxes: listing
            .sandboxes
            .iter()
            .enumerate()
            .map(|(at, listed)| look::sandbox(listed, ips(at)))
            .collect(),
        containers: statuses.iter().map(|status| look::container(status, "".into())).collect(),
    };
    for container in &seen.containers {
        let _ = (seen.newest(&container.name), seen.ended(&container.name).count());
    }
    let _ = seen.sandbox();
    look::differs(&seen, &look::ours(listing.clone(), &Ownership::new(String::new(), false)))
}
