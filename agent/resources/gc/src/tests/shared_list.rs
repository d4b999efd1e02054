//! Periodic runs with a list that other parts read too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nodewarden_cri::SharedList;
use nodewarden_cri::runtime_fixture::{self, FakeRuntime};
use nodewarden_pods::spec::labels::{CONTAINER_NAME, OWNER, POD_UID};
use nodewarden_pods::status::DesiredPods;
use nodewarden_proto::runtime::v1 as cri;
use tonic::Status;

use crate::fixture::{Fixture, State, settings};
use crate::sweep::When;

/// Has an ended container of a pod that is gone, and counts how often it is listed.
#[derive(Clone, Default)]
struct Listed(Arc<AtomicU32>);

#[tonic::async_trait]
impl FakeRuntime for Listed {
    async fn list_pod_sandbox(
        &self,
        _: cri::ListPodSandboxRequest,
    ) -> Result<cri::ListPodSandboxResponse, Status> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(cri::ListPodSandboxResponse::default())
    }

    async fn list_containers(
        &self,
        _: cri::ListContainersRequest,
    ) -> Result<cri::ListContainersResponse, Status> {
        let labels = [(OWNER, "me"), (POD_UID, "gone"), (CONTAINER_NAME, "c")];
        let container = cri::Container {
            id: "c0".into(),
            state: cri::ContainerState::ContainerExited.into(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Default::default()
        };
        Ok(cri::ListContainersResponse { containers: vec![container] })
    }
}

#[tokio::test]
async fn a_periodic_run_shares_its_list_and_leaves_it_as_it_is_for_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let listed = Listed::default();
    let client = runtime_fixture::serve(listed.clone(), &dir.path().join("cri.sock"));
    let list = SharedList::new(client.endpoint(), Duration::from_secs(5));
    // By its own list the runtime has nothing.
    let fixture = Fixture::with(State::default(), &settings(), Some(list.clone()));
    fixture.board.set_desired(DesiredPods { complete: true, ..DesiredPods::default() });
    fixture.collector.run_once(When::Now).await;
    assert!(fixture.runtime.state().removed.is_empty() && listed.0.load(Ordering::Relaxed) == 0);
    let (other, ()) = tokio::join!(list.next(), fixture.collector.run_once(When::Shared));
    assert_eq!(listed.0.load(Ordering::Relaxed), 1, "both have one list");
    assert_eq!(fixture.runtime.state().removed, ["c0"]);
    assert_eq!(other.unwrap().containers.len(), 1);
}
