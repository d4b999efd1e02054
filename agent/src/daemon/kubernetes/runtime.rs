//! What the node's status says of the container runtime.
//!
//! The status must not wait for a runtime that hangs, and a runtime that is slow must not count as one that
//! is down: each question has the time limit of calls, and the status takes what was answered lately.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use nodewarden_cri::{Client, Question, RuntimeError, Version};
use nodewarden_kube::node::{Image, RuntimeFacts, Unmet};

/// How long the status waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer counts while the next one is outstanding (kubelet: maxWaitForContainerRuntime).
const RECENT: Duration = Duration::from_secs(30);
/// How long a list of images is used.
const IMAGES: Duration = Duration::from_secs(30);
/// The conditions of a runtime that a node needs.
const NEEDED: [&str; 2] = ["RuntimeReady", "NetworkReady"];

/// Asks the runtime for the node's status.
pub struct RuntimeReader {
    client: Client,
    patience: Duration,
    /// Asked once; another version may answer after the runtime was away.
    version: Arc<Mutex<Option<Version>>>,
    facts: Question<RuntimeFacts>,
    /// The answer is `None` if the question failed.
    images: Question<Option<Vec<Image>>>,
}

impl RuntimeReader {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            patience: PATIENCE,
            version: Arc::default(),
            facts: Question::default(),
            images: Question::default(),
        }
    }

    /// Whether it answers, and what it reports.
    pub async fn facts(&self) -> RuntimeFacts {
        let (client, version) = (self.client.clone(), self.version.clone());
        let answer = self.facts.ask(self.patience, || async move {
            let facts = ask(&client, &version).await;
            facts.unwrap_or_else(|error| {
                *version.lock() = None;
                RuntimeFacts::Away(error.to_string())
            })
        });
        match answer.await.filter(|answer| answer.current || answer.at.elapsed() <= RECENT) {
            Some(answer) => answer.value.as_ref().clone(),
            None => RuntimeFacts::Away(format!("no answer within {} s", self.patience.as_secs_f64())),
        }
    }

    /// The images, as listed within the last 30 s or while the runtime last answered; `None` if it does not.
    pub async fn images(&self) -> Option<Vec<Image>> {
        let last = self.images.last().filter(|last| last.at.elapsed() < IMAGES && last.value.is_some());
        let answer = match last {
            Some(last) => Some(last),
            None => {
                let client = self.client.clone();
                self.images.ask(self.patience, || async move { images(&client).await.ok() }).await
            }
        };
        answer?.value.as_ref().clone()
    }
}

async fn ask(client: &Client, version: &Mutex<Option<Version>>) -> Result<RuntimeFacts, RuntimeError> {
    let conditions = client.conditions().await?;
    let known = version.lock().clone();
    let version = match known {
        Some(version) => version,
        None => {
            let found = client.version().await?;
            version.lock().insert(found).clone()
        }
    };
    let unmet = NEEDED.iter().filter_map(|needed| {
        let found = conditions.iter().find(|condition| condition.kind == *needed);
        match found {
            Some(condition) if condition.holds => None,
            Some(condition) => Some(Unmet {
                condition: (*needed).to_owned(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            }),
            None => Some(Unmet {
                condition: (*needed).to_owned(),
                reason: "Unknown".to_owned(),
                message: "the runtime does not report it".to_owned(),
            }),
        }
    });
    Ok(RuntimeFacts::Answers { name: version.name, version: version.version, unmet: unmet.collect() })
}

async fn images(client: &Client) -> Result<Vec<Image>, RuntimeError> {
    let mut by_id: BTreeMap<String, Image> = BTreeMap::new();
    for image in client.list_images().await? {
        let own = by_id.entry(image.id).or_insert_with(|| Image { names: Vec::new(), size: image.size });
        // Digests come first, as in the kubelet.
        for name in image.repo_digests.into_iter().chain(image.repo_tags) {
            if !own.names.contains(&name) {
                own.names.push(name);
            }
        }
    }
    Ok(by_id.into_values().collect())
}

#[cfg(test)]
mod tests {
    use nodewarden_cri::runtime_fixture::{self, FakeRuntime};
    use nodewarden_proto::runtime::v1 as cri;
    use tonic::Status;

    use super::*;

    /// A runtime that takes so long for each answer about its status.
    struct Slow(Duration);

    #[tonic::async_trait]
    impl FakeRuntime for Slow {
        async fn status(&self, _: cri::StatusRequest) -> Result<cri::StatusResponse, Status> {
            tokio::time::sleep(self.0).await;
            Ok(cri::StatusResponse::default())
        }

        async fn version(&self, _: cri::VersionRequest) -> Result<cri::VersionResponse, Status> {
            Ok(cri::VersionResponse { runtime_name: "slow".into(), ..Default::default() })
        }
    }

    #[tokio::test]
    async fn a_slow_runtime_answers_and_one_that_hangs_does_not_hold_the_status() {
        let dir = tempfile::tempdir().unwrap();
        let takes = Duration::from_millis(400);
        let client = runtime_fixture::serve(Slow(takes), &dir.path().join("cri.sock"));
        let of = |client| RuntimeReader { patience: Duration::from_millis(50), ..RuntimeReader::new(client) };
        let slow = of(client.clone());
        assert_eq!(slow.facts().await, RuntimeFacts::Away("no answer within 0.05 s".into()), "not yet");
        tokio::time::sleep(2 * takes).await;
        for _ in 0..2 {
            let facts = slow.facts().await;
            assert!(matches!(&facts, RuntimeFacts::Answers { name, .. } if name == "slow"), "{facts:?}");
        }
        let limited = of(client.with_request_limit(takes / 4));
        limited.facts().await;
        tokio::time::sleep(takes).await;
        let facts = limited.facts().await;
        assert!(
            matches!(&facts, RuntimeFacts::Away(why) if why.contains("0.1 s")),
            "its own limit: {facts:?}"
        );
    }
}
