//! Text and JSON of a garbage collection's steps and outcome. Pure.

use std::collections::{BTreeMap, HashMap};

use nodewarden_proto::nodewarden::v1::{GarbageOutcome, GarbageStep};
use serde_json::{Value, json};

use crate::cli::format::{bytes, printable};
use crate::cli::images::short;
use nodewarden_api::grpc::time;

/// Progress of a collection: the sums over its steps so far.
#[derive(Debug, Default)]
pub struct Progress {
    /// Sizes of images in bytes, by image ID.
    sizes: HashMap<String, u64>,
    wanted: u64,
    dry: bool,
    freed: u64,
    /// Bytes of the images that would be removed, as reported by the runtime.
    planned: u64,
    /// Number of removals that succeeded or are planned, by kind of object.
    removed: BTreeMap<String, usize>,
    failed: usize,
}

impl Progress {
    pub fn new(sizes: HashMap<String, u64>, wanted: u64, dry: bool) -> Self {
        Self { sizes, wanted, dry, ..Self::default() }
    }

    /// Adds a step to the sums.
    pub fn count(&mut self, step: &GarbageStep) {
        self.freed = self.freed.saturating_add(step.freed_bytes.unwrap_or(0));
        if !step.error.is_empty() {
            self.failed += 1;
            return;
        }
        *self.removed.entry(step.what.clone()).or_default() += 1;
        if step.what == "image" {
            self.planned = self.planned.saturating_add(self.sizes.get(&step.id).copied().unwrap_or(0));
        }
    }

    /// Adds a step to the sums and returns its line.
    pub fn step(&mut self, step: &GarbageStep) -> String {
        self.count(step);
        let id = short(&step.id);
        let name = match printable(&step.name) {
            name if name.is_empty() || name == id => id,
            name => format!("{name} ({id})"),
        };
        let what = printable(&step.what);
        if !step.error.is_empty() {
            return format!("{what} {name} not removed: {}", printable(&step.error));
        }
        let size = self.sizes.get(&step.id).filter(|_| step.what == "image");
        match (self.dry, step.freed_bytes) {
            (true, _) => {
                let size = size.map(|size| format!(", {}", bytes(*size))).unwrap_or_default();
                format!("{what} {name} would be removed{size}")
            }
            (false, None) => format!("{what} {name} removed"),
            (false, Some(freed)) if self.wanted == 0 => {
                format!("{what} {name} removed, freed {}", bytes(freed))
            }
            (false, Some(freed)) => format!(
                "{what} {name} removed, freed {}: {} of {}",
                bytes(freed),
                bytes(self.freed),
                bytes(self.wanted)
            ),
        }
    }

    /// The last line of the output.
    pub fn summary(&self, outcome: &GarbageOutcome) -> String {
        let removed = self.removed.iter().map(|(what, n)| counted(what, *n)).collect::<Vec<_>>().join(", ");
        let wanted = match outcome.wanted_bytes {
            0 => String::new(),
            wanted => format!(" of {} wanted", bytes(wanted)),
        };
        match (self.dry, removed.is_empty()) {
            (_, true) if outcome.wanted_bytes == 0 && self.failed == 0 => "Nothing to collect".to_owned(),
            (true, true) => format!("Nothing can be removed; 0{wanted}"),
            (true, false) if self.planned == 0 => format!("Would remove {removed}"),
            (true, false) => {
                format!("Would remove {removed}; {}{wanted} (runtime-reported)", bytes(self.planned))
            }
            (false, true) => format!("Nothing removed; freed {}{wanted}", bytes(outcome.freed_bytes)),
            (false, false) => format!("Removed {removed}; freed {}{wanted}", bytes(outcome.freed_bytes)),
        }
    }

    /// Failed removals and a missed target; always empty for a plan.
    pub fn problems(&self, outcome: &GarbageOutcome) -> Vec<String> {
        if self.dry {
            return Vec::new();
        }
        let failed = (self.failed > 0).then(|| match self.failed {
            1 => "a removal failed".to_owned(),
            n => format!("{n} removals failed"),
        });
        let short = (outcome.wanted_bytes > 0 && !outcome.reached).then(|| {
            format!(
                "not enough was freed ({} of {}): `nodewarden images` shows why the other images are kept",
                bytes(outcome.freed_bytes),
                bytes(outcome.wanted_bytes)
            )
        });
        failed.into_iter().chain(short).collect()
    }
}

fn counted(what: &str, count: usize) -> String {
    match (what, count) {
        ("sandbox", n) if n > 1 => format!("{n} sandboxes"),
        ("logs", 1) => "logs of one container or pod".to_owned(),
        ("logs", n) => format!("logs of {n} containers or pods"),
        (what, 1) => format!("1 {}", printable(what)),
        (what, n) => format!("{n} {}s", printable(what)),
    }
}

pub fn step_json(step: &GarbageStep) -> Value {
    let at = step.time.as_ref().and_then(time::to_timestamp).map(|time| time.to_string());
    json!({
        "time": at, "what": step.what, "id": step.id, "name": step.name, "freed": step.freed_bytes,
        "error": step.error, "dryRun": step.dry_run,
    })
}

pub fn outcome_json(outcome: &GarbageOutcome) -> Value {
    json!({
        "outcome": { "wanted": outcome.wanted_bytes, "freed": outcome.freed_bytes, "reached": outcome.reached }
    })
}
