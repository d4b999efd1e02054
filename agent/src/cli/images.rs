//! `nodewarden images`: the images, and why each is kept or would be removed.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{
    FileSystem, GarbageSettings, Image, ListImagesRequest, ListImagesResponse,
};
use serde_json::{Value, json};

use super::events::Output;
use super::format::{bytes, count, printable, span};
use super::output::print;
use super::table::{Align, table};
use super::{CliError, SocketArg, client};
use nodewarden_api::grpc::time;

/// Number of users of an image that are named; the others are counted.
const NAMED: usize = 2;

/// Print the runtime's images, and why each is kept or would be removed
#[derive(Debug, Args)]
#[command(after_help = "\
Images are listed in the order in which they would be removed, kept ones at the end.
SIZE is reported by the runtime: layers shared by several images are counted in each.

Examples:
  nodewarden images                      all of them, and how full their file system is
  nodewarden images --output json | jq -r '.images[] | select(.state == \"removable\") | .names[0]'
  nodewarden gc --dry-run                what a collection would remove now")]
pub struct ImagesArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Text or one JSON object
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: ImagesArgs) -> Result<(), CliError> {
    let socket = args.socket.socket;
    let mut client = client::garbage(client::channel(&socket).await?);
    let answer = client.list_images(ListImagesRequest {}).await;
    let answer = answer.map_err(client::refused(socket))?.into_inner();
    let text = match args.output {
        Output::Text => text(&answer, Timestamp::now()),
        Output::Json => format!("{}\n", json(&answer)),
    };
    Ok(print(&text)?)
}

fn text(answer: &ListImagesResponse, now: Timestamp) -> String {
    let mut out = String::new();
    if !answer.problem.is_empty() {
        out.push_str(&format!("warning: {}\n", printable(&answer.problem)));
    }
    if answer.images.is_empty() {
        // If there is a problem, an empty list does not mean that there are no images.
        if answer.problem.is_empty() {
            out.push_str("No images.\n");
        }
    } else {
        let head = ["IMAGE", "ID", "SIZE", "FIRST SEEN", "LAST USED", "STATE"].map(str::to_owned).to_vec();
        let rows: Vec<_> =
            std::iter::once(head).chain(answer.images.iter().map(|own| row(own, now))).collect();
        use Align::{Left, Right};
        out.push_str(&table(&rows, &[Left, Left, Right, Right, Right, Left]));
        let total = answer.images.iter().map(|own| own.size_bytes).sum();
        out.push_str(&format!("\n{}, {} (runtime-reported)\n", images(answer.images.len()), bytes(total)));
    }
    if let Some(fs) = &answer.filesystem {
        out.push_str(&format!("{}\n", filesystem(fs)));
    }
    if let Some(settings) = &answer.settings {
        out.push_str(&format!("{}\n", thresholds(settings, answer)));
    }
    out
}

fn row(own: &Image, now: Timestamp) -> Vec<String> {
    let ago = |at: Option<&prost_types::Timestamp>, never: &str| {
        at.and_then(time::to_timestamp)
            .map_or_else(|| never.to_owned(), |at| format!("{} ago", since(at, now)))
    };
    let unused = if own.first_detected.is_some() { "never" } else { "-" };
    vec![
        name(own),
        short(&own.id),
        bytes(own.size_bytes),
        ago(own.first_detected.as_ref(), "-"),
        ago(own.last_used.as_ref(), unused),
        state(own),
    ]
}

fn since(at: Timestamp, now: Timestamp) -> String {
    span(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

/// The first name, and the number of further tags.
fn name(own: &Image) -> String {
    let tags = own.names.iter().filter(|name| !name.contains('@')).count();
    match own.names.first() {
        None => "<none>".to_owned(),
        Some(name) if tags > 1 => format!("{} (+{})", printable(name), tags - 1),
        Some(name) => printable(name),
    }
}

/// Shortens an ID for display: without the algorithm, and only the first characters of a digest.
pub fn short(id: &str) -> String {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    match digits.get(..12) {
        Some(start) if digits.len() == 64 => start.to_owned(),
        _ => printable(digits),
    }
}

/// Why the image is kept, or that it would be removed.
fn state(own: &Image) -> String {
    let (named, more) = own.users.split_at(own.users.len().min(NAMED));
    let users = match more.len() {
        _ if named.is_empty() => String::new(),
        0 => format!(": {}", named.join(", ")),
        more => format!(": {} and {more} more", named.join(", ")),
    };
    let word = match own.state.as_str() {
        "removable" => "would be removed",
        "container" => "in use",
        "sandbox" => "in use by sandboxes",
        "pinned" => "pinned by the runtime",
        "manifest" => "needed",
        "just_used" => "just used",
        "young" => "too young",
        "not_needed" => "unused; enough space is free",
        // A state of a newer agent.
        other => other,
    };
    printable(&format!("{word}{users}"))
}

fn images(count: usize) -> String {
    format!("{count} image{}", if count == 1 { "" } else { "s" })
}

/// Usage in percent, rounded as the kubelet does it: the available share is rounded down.
fn percent_used(available: u64, capacity: u64) -> Option<u128> {
    let free = (u128::from(available.min(capacity)) * 100).checked_div(capacity.into())?;
    Some(100 - free)
}

fn filesystem(fs: &FileSystem) -> String {
    let path = printable(&fs.path);
    let Some(used) = percent_used(fs.available_bytes, fs.capacity_bytes) else {
        return format!("{path} reports no capacity");
    };
    // Some file systems report no inodes.
    let inodes = percent_used(fs.inodes_free, fs.inodes)
        .map(|used| format!(", {used}% of {} inodes", count(fs.inodes)))
        .unwrap_or_default();
    format!(
        "{path}: {used}% of {} in use{inodes}; {} available",
        bytes(fs.capacity_bytes),
        bytes(fs.available_bytes)
    )
}

fn thresholds(settings: &GarbageSettings, answer: &ListImagesResponse) -> String {
    let GarbageSettings { high_percent, low_percent, .. } = settings;
    let wanted = match answer.wanted_bytes {
        _ if answer.filesystem.is_none() => String::new(),
        0 => "; nothing is to be freed now".to_owned(),
        wanted => format!("; {} are to be freed now", bytes(wanted)),
    };
    let mut line = match *high_percent {
        100 => "Images are never removed to free space (imageGCHighThresholdPercent is 100)".to_owned(),
        _ => {
            format!("Above {high_percent}% unused images are removed until {low_percent}% is in use{wanted}")
        }
    };
    if let Some(age) = settings.maximum_age_seconds {
        line.push_str(&format!(
            "; images unused for {} are removed in any case",
            span(Duration::from_secs(age))
        ));
    }
    if answer.mode == "observe" {
        line.push_str(". In mode observe nothing is removed");
    }
    line
}

fn json(answer: &ListImagesResponse) -> Value {
    let at = |time: &Option<prost_types::Timestamp>| {
        time.as_ref().and_then(time::to_timestamp).map(|time| time.to_string())
    };
    let image = |own: &Image| {
        json!({
            "id": own.id, "names": own.names, "size": own.size_bytes, "firstDetected": at(&own.first_detected),
            "lastUsed": at(&own.last_used), "state": own.state, "users": own.users,
        })
    };
    let fs = |own: &FileSystem| {
        json!({
            "path": own.path, "capacity": own.capacity_bytes, "available": own.available_bytes, "inodes": own.inodes,
            "inodesFree": own.inodes_free, "used": own.used_bytes, "inodesUsed": own.inodes_used,
        })
    };
    let settings = |own: &GarbageSettings| {
        json!({
            "imageGCHighThresholdPercent": own.high_percent, "imageGCLowThresholdPercent": own.low_percent,
            "imageMinimumGCAgeSeconds": own.minimum_age_seconds, "imageMaximumGCAgeSeconds": own.maximum_age_seconds,
        })
    };
    json!({
        "time": at(&answer.time),
        "mode": answer.mode,
        "images": answer.images.iter().map(image).collect::<Vec<_>>(),
        "filesystem": answer.filesystem.as_ref().map(fs),
        "wanted": answer.wanted_bytes,
        "settings": answer.settings.as_ref().map(settings),
        "problem": answer.problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_api::grpc::garbage::answer_of;
    use nodewarden_model::GcSettings;
    use nodewarden_model::fixture::images as view;

    fn answer() -> ListImagesResponse {
        ListImagesResponse { mode: "manage".into(), ..answer_of(view(), &GcSettings::default()) }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_100).unwrap()
    }

    #[test]
    fn every_image_is_listed_with_the_reason_why_it_is_kept() {
        let expected = "\
IMAGE       ID      SIZE  FIRST SEEN  LAST USED  STATE
shop/old:1  0a0a   120Mi   1m40s ago  1m31s ago  would be removed
shop/old:2  0b0b  80.0Mi   1m35s ago      never  would be removed
<none>      0c0c  8.00Mi           -          -  too young
shop/web:1  0d0d  64.0Mi   1m37s ago    10s ago  in use: shop/cart [web]
pause:3     0e0e  1.00Mi   1m40s ago    10s ago  in use by sandboxes

5 images, 273Mi (runtime-reported)
/var/lib/containerd: 90% of 20.0Gi in use, 10% of 1.00M inodes; 2.00Gi available
Above 85% unused images are removed until 80% is in use; 2.00Gi are to be freed now
";
        assert_eq!(text(&answer(), now()), expected);
    }

    #[test]
    fn missing_times_and_capacity_are_shown_as_unknown() {
        let away = ListImagesResponse {
            images: Vec::new(),
            filesystem: None,
            wanted_bytes: 0,
            problem: "the runtime is\naway".into(),
            mode: "observe".into(),
            ..answer()
        };
        let expected = "\
warning: the runtime is?away
Above 85% unused images are removed until 80% is in use. In mode observe nothing is removed
";
        assert_eq!(text(&away, now()), expected);
        let fs = FileSystem { path: "/x".into(), ..FileSystem::default() };
        assert_eq!(filesystem(&fs), "/x reports no capacity");
        let none = text(&ListImagesResponse::default(), now());
        assert_eq!(none, "No images.\n");
    }

    #[test]
    fn the_thresholds_line_states_the_configuration() {
        let settings = |high_percent, maximum_age_seconds| GarbageSettings {
            high_percent,
            low_percent: 80,
            minimum_age_seconds: 120,
            maximum_age_seconds,
        };
        let idle = ListImagesResponse { wanted_bytes: 0, ..answer() };
        assert_eq!(
            thresholds(&settings(90, Some(86_400)), &idle),
            "Above 90% unused images are removed until 80% is in use; nothing is to be freed now; images unused for 1d0h are removed in any case"
        );
        assert_eq!(
            thresholds(&settings(100, None), &idle),
            "Images are never removed to free space (imageGCHighThresholdPercent is 100)"
        );
    }

    #[test]
    fn names_ids_and_users_are_shortened() {
        let names = |names: &[&str]| {
            name(&Image { names: names.iter().map(ToString::to_string).collect(), ..Image::default() })
        };
        assert_eq!(names(&["a:1", "a:2", "b:1", "a@sha256:1"]), "a:1 (+2)");
        assert_eq!(names(&["a@sha256:1", "b@sha256:1"]), "a@sha256:1");
        assert_eq!(short(&format!("sha256:{}", "ab".repeat(32))), "abababababab");
        assert_eq!(short("/var/log/pods/x"), "/var/log/pods/x");
        let users = |users: &[&str]| {
            state(&Image {
                state: "container".into(),
                users: users.iter().map(ToString::to_string).collect(),
                ..Image::default()
            })
        };
        assert_eq!(users(&["a", "b", "c", "d"]), "in use: a, b and 2 more");
        assert_eq!(users(&["a", "b"]), "in use: a, b");
    }

    #[test]
    fn percent_as_the_kubelet_rounds_it() {
        for (available, capacity, used) in [
            (0, 0, None),
            (1, 1000, Some(100)),
            (149, 1000, Some(86)),
            (1000, 1000, Some(0)),
            (2000, 1000, Some(0)),
            (u64::MAX, u64::MAX, Some(0)),
        ] {
            assert_eq!(percent_used(available, capacity), used, "{available} of {capacity}");
        }
    }

    #[test]
    fn as_json() {
        let json = json(&answer());
        assert_eq!(json["images"][0]["lastUsed"], "2023-11-14T22:13:29Z");
        assert_eq!(
            (&json["images"][1]["lastUsed"], &json["images"][1]["state"]),
            (&Value::Null, &"removable".into())
        );
        assert_eq!(json["settings"]["imageGCHighThresholdPercent"], 85);
        assert_eq!(
            (&json["filesystem"]["inodesUsed"], &json["wanted"]),
            (&Value::Null, &(2u64 << 30).into())
        );
    }
}
