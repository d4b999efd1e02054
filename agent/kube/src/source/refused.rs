//! Shows pods that this agent refuses, so that their status and an event say why.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodewarden_model::{Detail, EvictionCause, Origin, PodPhase, PodRef, PodView, StatusReason};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use tracing::warn;

use super::decode::Refused;
use super::state::RefusedPod;

/// The refused pods whose status is shown, by uid.
#[derive(Debug, Default)]
pub struct Shown(BTreeMap<Box<str>, Refused>);

impl Shown {
    /// Shows these pods as failed, and those no longer that are not among them. A pod that is new here is
    /// recorded in the journal, from where the API server gets an event.
    pub fn show(&mut self, refused: Vec<RefusedPod>, status: &PodStatusCache, journal: Option<&Journal>) {
        let uids: BTreeSet<&str> = refused.iter().map(|pod| &*pod.uid).collect();
        let left: Vec<_> = self.0.keys().filter(|uid| !uids.contains(&***uid)).cloned().collect();
        for uid in left {
            self.0.remove(&uid);
            status.remove(&uid);
        }
        for pod in refused {
            // One that has a worker after all is shown by it.
            let is_new = self.0.get(&pod.uid) != Some(&pod.refused);
            if is_new && (self.0.contains_key(&pod.uid) || !status.contains(&pod.uid)) {
                warn!("pod {}/{} is refused: {}", pod.pod.namespace, pod.pod.name, pod.refused.message);
                if let Some(journal) = journal {
                    record(journal, &pod);
                }
                status.set(view(&pod));
                self.0.insert(pod.uid, pod.refused);
            }
        }
    }
}

fn record(journal: &Journal, refused: &RefusedPod) {
    let RefusedPod { pod, refused, .. } = refused;
    let pod = PodRef {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        ..PodRef::default()
    };
    let detail = Detail::Pod { reason: refused.reason.to_owned(), message: refused.message.clone() };
    journal.append(Timestamp::now(), "", Some(pod), detail);
}

fn view(refused: &RefusedPod) -> PodView {
    let pod = refused.pod.clone();
    PodView {
        origin: Origin::api(format_args!("{}/{}", pod.namespace, pod.name)),
        pod,
        phase: PodPhase::Failed,
        reason: StatusReason::Ended(refused.refused.reason.to_owned()),
        message: format!("Pod was rejected: {}", refused.refused.message),
        started: Timestamp::now(),
        terminating: None,
        ips: Vec::new(),
        sandbox_id: String::new(),
        containers: Vec::new(),
        resize: None,
        resizing: None,
        evicted: Some(EvictionCause::Other),
        unseen: false,
        ended: false,
        api: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use nodewarden_manifest::Pod;
    use nodewarden_storage::journal::Limits;

    use super::*;

    fn refused(uid: &str, message: &str) -> RefusedPod {
        let metadata = ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("web".into()),
            uid: Some(uid.into()),
            ..ObjectMeta::default()
        };
        let refused = Refused { reason: "InvalidPodSpec", message: message.into() };
        RefusedPod { uid: uid.into(), pod: Arc::new(Pod::of_metadata(metadata)), refused }
    }

    #[tokio::test]
    async fn a_refused_pod_has_failed_and_is_in_the_journal_once_for_each_reason() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), Limits::default()).unwrap();
        let mut recorded = journal.subscribe(None);
        let (mut shown, status) = (Shown::default(), PodStatusCache::default());
        for message in ["no containers", "no containers", "no image"] {
            shown.show(vec![refused("u", message)], &status, Some(&journal));
            assert_eq!(status.get("u").unwrap().message, format!("Pod was rejected: {message}"));
        }
        shown.show(Vec::new(), &status, Some(&journal));
        assert!(status.get("u").is_none());
        journal.append(
            Timestamp::now(),
            "",
            None,
            Detail::Agent { reason: "End".into(), message: "".into() },
        );
        for expected in ["no containers", "no image"] {
            let event = recorded.next().await.unwrap();
            assert_eq!(event.pod.as_ref().map(|pod| &*pod.name), Some("web"));
            let Detail::Pod { reason, message } = &event.detail else { panic!("{event:?}") };
            assert_eq!((&**reason, &**message), ("InvalidPodSpec", expected));
        }
        assert!(recorded.next().await.unwrap().pod.is_none(), "nothing more is recorded");
        journal.close();
    }
}
