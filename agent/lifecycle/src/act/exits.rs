//! Containers that have ended: how, written into the record once each.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;

use crate::decide::observed::{ContainerSeen, ContainerStage};
use crate::decide::policy;
use crate::state::{Inner, PodState};
use nodewarden_cri::logs;
use nodewarden_cri::logs::LogPath;
use nodewarden_manifest::Pod;
use nodewarden_model::OomVictim;
use nodewarden_pods::paths::PodPaths;
use nodewarden_tasks::blocking;

/// Longest termination message in bytes (kubelet: MaxContainerTerminationMessageLength).
const LONGEST_MESSAGE: u64 = 4096;
/// Of the log, where it stands for the message (kubelet: …LogLines, …LogLength).
const LOG_LINES: u64 = 80;
const LOG_BYTES: usize = 2048;

/// Takes over how containers ended, with what they left as their messages.
pub async fn record(state: &PodState) {
    let pod = state.pod();
    let unread: Vec<ContainerSeen> = {
        let inner = state.read();
        let recorded = |seen: &ContainerSeen| {
            let last = inner.record.container(&seen.name).and_then(|record| record.last.as_ref());
            last.is_some_and(|last| last.id == seen.id)
        };
        let ended = inner.observed.containers.iter().filter(|seen| seen.stage == ContainerStage::Exited);
        ended.filter(|seen| !recorded(seen)).cloned().collect()
    };
    if unread.is_empty() {
        return;
    }
    let (own, paths) = (pod.clone(), state.env.paths(&pod));
    let read =
        move || unread.into_iter().map(|seen| (message(&own, &seen, &paths), seen.id)).collect::<Vec<_>>();
    let messages = blocking::POD_FILES.run(read).await.unwrap_or_default();
    let mut news = Vec::new();
    state.update(|inner| {
        for (message, id) in messages.into_iter().filter(|(message, _)| !message.is_empty()) {
            for seen in inner.observed.containers.iter_mut().filter(|seen| seen.id == id) {
                seen.message.clone_from(&message);
            }
        }
        news = inner.record.note_ends(&inner.pod, &inner.observed, &state.env.pods);
        inner.record.limit_ends(Timestamp::now());
    });
    for (name, ended) in news {
        let message = format!("Container {name} ended: {}, exit code {}", ended.reason, ended.exit_code);
        state.env.record_event(&pod, Some((&name, &ended.id)), "Exited", message);
    }
}

/// What the container left at its terminationMessagePath, else the end of its log if its policy says so and
/// it failed.
fn message(pod: &Pod, seen: &ContainerSeen, paths: &PodPaths) -> String {
    let file = paths.termination_log(&seen.name, seen.attempt);
    let left = read_some(&file);
    let fall_back = policy::spec_of(pod, &seen.name).is_some_and(|spec| falls_back(&spec));
    if left.is_empty() && fall_back && seen.exit_code != 0 {
        let log = LogPath::new(&paths.logs, PodPaths::log_name(&seen.name, seen.attempt));
        return String::from_utf8_lossy(&logs::tail(&log, LOG_LINES, LOG_BYTES).unwrap_or_default())
            .into_owned();
    }
    left
}

fn falls_back(container: &v1::Container) -> bool {
    container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError")
}

/// The beginning of a regular file; empty for anything else. Neither follows a link nor waits for a FIFO's
/// writer.
fn read_some(path: &Path) -> String {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else { return String::new() };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return String::new();
    }
    let mut bytes = Vec::new();
    // What cannot be read whole is shown as far as it was.
    let _ = file.take(LONGEST_MESSAGE).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a kill for memory belongs to a container that is known, and if so notes it there.
pub fn note_oom(state: &PodState, container_id: &str, victim: OomVictim) {
    let known = |inner: &Inner| {
        inner.observed.containers.iter().find(|seen| seen.id == container_id).map(|seen| seen.name.clone())
    };
    state.update(|inner| match known(inner) {
        Some(name) => note(inner, &name, container_id, victim),
        None => inner.early_ooms.push((container_id.to_owned(), victim)),
    });
}

/// Takes over kills that were reported before their container was known.
pub fn place_early_ooms(inner: &mut Inner) {
    let early = std::mem::take(&mut inner.early_ooms);
    for (id, victim) in early {
        match inner.observed.containers.iter().find(|seen| seen.id == id).map(|seen| seen.name.clone()) {
            Some(name) => note(inner, &name, &id, victim),
            None => inner.early_ooms.push((id, victim)),
        }
    }
    // Those of containers that never become known are few, and old ones are of no use.
    let now = Timestamp::now();
    inner.early_ooms.retain(|(_, victim)| now.duration_since(victim.time).as_secs() < 60);
}

fn note(inner: &mut Inner, name: &str, id: &str, victim: OomVictim) {
    inner.record.containers.get_or_default(name).note_oom(id, victim);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_termination_message_is_read_from_a_regular_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, fifo) = (dir.path().join("0"), dir.path().join("1"), dir.path().join("2"));
        fs::write(&file, "x".repeat(5000)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_some(&file).len(), 4096);
        for other in [link, fifo, dir.path().to_owned(), dir.path().join("3")] {
            assert_eq!(read_some(&other), "", "{}", other.display());
        }
    }
}
