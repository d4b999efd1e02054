//! Converts images and steps of a collection into protobuf.

use nodewarden_proto::nodewarden::v1 as proto;

use super::super::time;
use nodewarden_model::FsUse;
use nodewarden_model::GcSettings;
use nodewarden_model::{GcOutcome, GcStep, ImageView, ImagesView};

/// The response without time, mode and settings, which the view does not contain.
pub fn images(view: ImagesView) -> proto::ListImagesResponse {
    proto::ListImagesResponse {
        images: view.images.into_iter().map(image).collect(),
        filesystem: view.fs.map(filesystem),
        wanted_bytes: view.wanted,
        problem: view.problem,
        ..proto::ListImagesResponse::default()
    }
}

fn image(own: ImageView) -> proto::Image {
    let state = own.state().to_owned();
    let last_used = own.known.and_then(|known| known.last_used);
    proto::Image {
        id: own.image.id,
        names: own.image.names,
        size_bytes: own.image.size,
        first_detected: own.known.map(|known| time::from_timestamp(known.first_detected)),
        last_used: last_used.map(time::from_timestamp),
        state,
        users: own.users,
    }
}

fn filesystem(own: FsUse) -> proto::FileSystem {
    proto::FileSystem {
        path: own.path.display().to_string(),
        capacity_bytes: own.capacity,
        available_bytes: own.available,
        inodes: own.inodes,
        inodes_free: own.inodes_free,
        used_bytes: own.used,
        inodes_used: own.inodes_used,
    }
}

pub fn settings(own: &GcSettings) -> proto::GarbageSettings {
    proto::GarbageSettings {
        high_percent: own.high_percent.into(),
        low_percent: own.low_percent.into(),
        minimum_age_seconds: own.min_age.as_secs(),
        maximum_age_seconds: own.max_age.map(|age| age.as_secs()),
    }
}

pub fn step(own: GcStep) -> proto::GarbageStep {
    proto::GarbageStep {
        time: Some(time::from_timestamp(own.time)),
        what: own.what.to_owned(),
        id: own.id,
        name: own.name,
        freed_bytes: own.freed,
        error: own.error,
        dry_run: own.dry,
    }
}

pub fn outcome(own: GcOutcome) -> proto::GarbageOutcome {
    proto::GarbageOutcome { wanted_bytes: own.wanted, freed_bytes: own.freed, reached: own.reached }
}
