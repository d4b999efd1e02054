use std::sync::atomic::{AtomicU32, Ordering};

use nodewarden_proto::runtime::v1 as cri;
use tonic::Status;

use super::*;
use crate::runtime_fixture::{self, FakeRuntime};

/// A runtime that counts what it is asked for.
#[derive(Clone, Default)]
struct Counting {
    versions: Arc<AtomicU32>,
    lists: Arc<AtomicU32>,
    away: Arc<AtomicU32>,
}

impl Counting {
    fn counted(&self) -> (u32, u32) {
        (self.versions.swap(0, Ordering::Relaxed), self.lists.swap(0, Ordering::Relaxed))
    }

    fn answers(&self) -> Result<(), Status> {
        if self.away.load(Ordering::Relaxed) > 0 { Err(Status::internal("no")) } else { Ok(()) }
    }
}

#[tonic::async_trait]
impl FakeRuntime for Counting {
    async fn version(&self, _: cri::VersionRequest) -> Result<cri::VersionResponse, Status> {
        let count = self.versions.fetch_add(1, Ordering::Relaxed);
        self.answers()?;
        let runtime_version = count.to_string();
        Ok(cri::VersionResponse { runtime_name: "fake".into(), runtime_version, ..Default::default() })
    }

    async fn list_pod_sandbox(
        &self,
        _: cri::ListPodSandboxRequest,
    ) -> Result<cri::ListPodSandboxResponse, Status> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.answers()?;
        Ok(cri::ListPodSandboxResponse::default())
    }

    async fn list_containers(
        &self,
        _: cri::ListContainersRequest,
    ) -> Result<cri::ListContainersResponse, Status> {
        Ok(cri::ListContainersResponse::default())
    }
}

fn asking(socket: &std::path::Path) -> Asking {
    let endpoint = Endpoint::parse(&socket.to_string_lossy()).unwrap();
    let shared = Shared {
        generation: AtomicU64::default(),
        list: SharedList::new(&endpoint, Duration::from_secs(5)),
        cache: Mutex::default(),
        state: Mutex::new(State::Asking),
        runtime_name: Mutex::default(),
        wanted: Notify::new(),
    };
    Asking { shared: Arc::new(shared), failures: 0, listed: None }
}

#[tokio::test]
async fn a_runtime_that_answers_another_part_is_not_asked_for_its_version_each_minute() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, socket) = (Counting::default(), dir.path().join("cri.sock"));
    let _client = runtime_fixture::serve(runtime.clone(), &socket);
    let mut asking = asking(&socket);
    asking.ask(Cause::Minute).await;
    assert_eq!(runtime.counted(), (1, 1), "the first time");
    asking.ask(Cause::Minute).await;
    assert_eq!(runtime.counted(), (1, 0), "no other part has asked");
    asking.shared.list.list().await.unwrap();
    asking.ask(Cause::Minute).await;
    assert_eq!(runtime.counted(), (0, 1), "the list of the other part alone");
    assert!(matches!(*asking.shared.state.lock(), State::Reached(_)));
    asking.ask(Cause::Wanted).await;
    assert_eq!(runtime.counted(), (1, 1), "a name is missing");
    asking.listed = Instant::now().checked_sub(pace::LIST);
    asking.ask(Cause::Minute).await;
    assert_eq!(runtime.counted(), (1, 1), "another version would be seen");
}

#[tokio::test]
async fn a_list_of_another_part_that_fails_is_followed_by_a_question_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, socket) = (Counting::default(), dir.path().join("cri.sock"));
    let _client = runtime_fixture::serve(runtime.clone(), &socket);
    let mut asking = asking(&socket);
    let list = asking.shared.list.clone();
    asking.ask(Cause::Minute).await;
    list.list().await.unwrap();
    runtime.away.store(1, Ordering::Relaxed);
    list.list().await.unwrap_err();
    tokio::time::timeout(Duration::from_secs(5), list.failed()).await.expect("the names learn of it");
    asking.ask(Cause::Failed).await;
    assert_eq!(asking.failures, 1);
    assert_eq!(*asking.shared.state.lock(), State::Away("Version: no (Internal error)".into()));
    runtime.away.store(0, Ordering::Relaxed);
    runtime.counted();
    asking.ask(Cause::Failed).await;
    assert_eq!((asking.failures, runtime.counted()), (0, (1, 1)), "it may have lost what it had");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_absent_runtime_is_a_state_not_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::parse(&dir.path().join("none.sock").to_string_lossy()).unwrap();
    let names = Names::new(&endpoint, Duration::from_secs(120));
    let deadline = Instant::now() + Duration::from_secs(5);
    while names.state() == State::Asking && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(names.state(), State::Away("Version: No such file or directory (os error 2)".into()));
    let identity = Arc::new(crate::enrich::tests::pod("uid"));
    assert!(Arc::ptr_eq(&names.name(&identity), &identity));
}

/// The runtime is not there, so only what the test teaches is known.
#[tokio::test]
async fn a_named_identity_is_looked_up_again_once_there_are_other_names() {
    use crate::enrich::tests::container;
    use crate::labels::CONTAINER_NAME;
    use crate::table::tests::listing;

    let dir = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::parse(&dir.path().join("none.sock").to_string_lossy()).unwrap();
    let names = Names::new(&endpoint, Duration::from_secs(120));
    let identity = Arc::new(container("uid-1", "c0c0c0c0c0c0"));
    let mut last = None;
    assert!(Arc::ptr_eq(&names.name_again(&identity, &mut last), &identity));
    assert!(last.is_none(), "without its names it is looked up each time");
    let renamed = |name: &str| {
        let mut listing = listing();
        listing.containers[0].labels = [(CONTAINER_NAME, name)].into();
        names.shared.learn(&listing);
    };
    for name in ["first", "second"] {
        renamed(name);
        let named = names.name_again(&identity, &mut last);
        let Identity::Container { names: Some(own), .. } = &*named else { panic!("{named:?}") };
        assert_eq!(own.name, name);
        assert!(Arc::ptr_eq(&named, &names.name_again(&identity, &mut last)));
    }
}
