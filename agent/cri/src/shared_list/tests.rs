use std::collections::VecDeque;
use std::path::Path;

use nodewarden_proto::runtime::v1 as cri;
use tonic::Status;

use super::*;
use crate::runtime_fixture::{self, FakeRuntime};

/// A runtime whose lists name the number of the question, and which answers when it is let.
#[derive(Clone, Default)]
struct Numbered {
    asked: Arc<Mutex<usize>>,
    /// By question: it is answered when this is done, with an error if the sender is dropped.
    held: Arc<Mutex<VecDeque<oneshot::Receiver<()>>>>,
}

#[tonic::async_trait]
impl FakeRuntime for Numbered {
    async fn list_pod_sandbox(
        &self,
        _: cri::ListPodSandboxRequest,
    ) -> Result<cri::ListPodSandboxResponse, Status> {
        let number = {
            let mut asked = self.asked.lock();
            *asked += 1;
            *asked
        };
        let held = self.held.lock().pop_front();
        if let Some(held) = held {
            held.await.map_err(|_| Status::internal("no"))?;
        }
        let sandbox = cri::PodSandbox { id: number.to_string(), ..Default::default() };
        Ok(cri::ListPodSandboxResponse { items: vec![sandbox] })
    }

    async fn list_containers(
        &self,
        _: cri::ListContainersRequest,
    ) -> Result<cri::ListContainersResponse, Status> {
        Ok(cri::ListContainersResponse::default())
    }
}

fn start(dir: &Path) -> (Numbered, SharedList) {
    let (runtime, socket) = (Numbered::default(), dir.join("cri.sock"));
    let client = runtime_fixture::serve(runtime.clone(), &socket);
    (runtime, SharedList::new(client.endpoint(), Duration::from_secs(5)))
}

fn number(answer: Answer) -> String {
    answer.unwrap().sandboxes[0].id.clone()
}

#[tokio::test]
async fn who_asks_at_the_same_time_shares_one_list_and_nothing_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    let late = async {
        tokio::time::sleep(GATHER / 4).await;
        list.list().await
    };
    let (one, two, three) = tokio::join!(list.list(), list.list(), late);
    let (one, two, three) = (one.unwrap(), two.unwrap(), three.unwrap());
    assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&one, &three));
    assert_eq!(*runtime.asked.lock(), 1);
    let left = Arc::downgrade(&one);
    drop((one, two, three));
    assert!(left.upgrade().is_none(), "a list of a thousand pods is large");
    assert_eq!(number(list.list().await), "2", "it is not given again");
    assert!(list.answered().is_some());
}

/// Otherwise its list could lack what began before the caller asked.
#[tokio::test]
async fn a_question_that_is_under_way_is_not_joined() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    let (let_go, held) = oneshot::channel();
    runtime.held.lock().push_back(held);
    let first = tokio::spawn({
        let list = list.clone();
        async move { number(list.list().await) }
    });
    while *runtime.asked.lock() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(number(list.list().await), "2");
    let_go.send(()).unwrap();
    assert_eq!(first.await.unwrap(), "1");
}

#[tokio::test]
async fn the_others_get_the_answer_if_the_first_stops_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    let first = tokio::spawn({
        let list = list.clone();
        async move { list.list().await.map(drop) }
    });
    while list.0.waiting.lock().is_none() {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert_eq!(number(list.list().await), "1");
    assert_eq!(*runtime.asked.lock(), 1);
}

#[tokio::test]
async fn all_who_wait_get_the_error_and_the_next_question_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    // Its sender is dropped.
    runtime.held.lock().push_back(oneshot::channel().1);
    let (one, two) = tokio::join!(list.list(), list.list());
    assert_eq!(one.unwrap_err().to_string(), two.unwrap_err().to_string());
    assert!(list.answered().is_none());
    tokio::time::timeout(Duration::from_secs(5), list.failed()).await.expect("who waits for that is told");
    assert_eq!(number(list.list().await), "2");
}
