use std::collections::VecDeque;
use std::path::Path;
use std::pin::pin;

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

/// Fails if something that waits is forgotten.
async fn within_seconds<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("an answer")
}

/// Polls `future` once.
async fn begin<F: Future>(future: &mut std::pin::Pin<&mut F>) {
    tokio::select! {
        biased;
        _ = future => panic!("it has to wait for the runtime"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_question_is_sent_at_once_for_all_who_wait_and_nothing_keeps_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    let (mut one, mut two, mut asks) = (pin!(list.next()), pin!(list.join()), pin!(list.list()));
    begin(&mut one).await;
    begin(&mut two).await;
    assert_eq!(list.0.waiting.lock().len(), 2);
    begin(&mut asks).await;
    assert!(list.0.waiting.lock().is_empty(), "it does not wait for others");
    let (one, two, asks) = within_seconds(async { tokio::join!(one, two, asks) }).await;
    let (one, two, asks) = (one.unwrap(), two.unwrap(), asks.unwrap());
    assert!(Arc::ptr_eq(&one, &asks) && Arc::ptr_eq(&two, &asks));
    let left = Arc::downgrade(&one);
    drop((one, two, asks));
    assert!(left.upgrade().is_none(), "a list of a thousand pods is large");
    tokio::time::sleep(GATHER * 2).await;
    assert_eq!(*runtime.asked.lock(), 1, "who joined has its answer");
    assert_eq!(number(list.list().await), "2", "it is not given again");
    assert!(list.answered().is_some());
}

#[tokio::test]
async fn a_part_that_joins_asks_if_no_other_does_and_all_get_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    let all = async { tokio::join!(list.next(), list.join(), list.join()) };
    let (next, one, two) = within_seconds(all).await;
    assert_eq!((number(next), number(one), number(two)), ("1".into(), "1".into(), "1".into()));
    assert_eq!(*runtime.asked.lock(), 1);
    assert!(list.answered().is_none(), "the names' own question");
    // One that joined and went away leaves nothing that keeps the next from asking.
    begin(&mut pin!(list.join())).await;
    assert_eq!(number(within_seconds(list.join()).await), "2");
}

#[tokio::test]
async fn who_waits_for_the_next_list_or_went_away_makes_no_question_be_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    begin(&mut pin!(list.join())).await;
    for _ in 0..10 {
        begin(&mut pin!(list.next())).await;
    }
    assert_eq!(list.0.waiting.lock().len(), 1, "the others are gone");
    tokio::time::timeout(GATHER * 3, list.next()).await.expect_err("no part asks");
    assert_eq!(*runtime.asked.lock(), 0);
}

/// Otherwise its list could lack what began before the caller came.
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
    let (next, second) = within_seconds(async { tokio::join!(list.next(), list.list()) }).await;
    assert_eq!((number(next), number(second)), ("2".into(), "2".into()));
    let_go.send(()).unwrap();
    assert_eq!(first.await.unwrap(), "1");
}

#[tokio::test]
async fn the_others_get_the_answer_if_who_asked_stops_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    let mut next = pin!(list.next());
    begin(&mut next).await;
    begin(&mut pin!(list.list())).await;
    assert_eq!(number(within_seconds(next).await), "1");
    assert_eq!(*runtime.asked.lock(), 1);
}

#[tokio::test]
async fn all_who_wait_get_the_error_and_the_next_question_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, list) = start(dir.path());
    // Its sender is dropped.
    runtime.held.lock().push_back(oneshot::channel().1);
    let all = async { tokio::join!(list.next(), list.join(), list.list()) };
    let (one, two, three) = within_seconds(all).await;
    let texts = [one, two, three].map(|answer| answer.unwrap_err().to_string());
    assert!(texts.iter().all(|text| *text == texts[0] && text.contains("no")), "{texts:?}");
    assert_eq!(*runtime.asked.lock(), 1);
    assert!(list.answered().is_none());
    tokio::time::timeout(Duration::from_secs(5), list.failed()).await.expect("the wait for a failure ends");
    assert_eq!(number(list.list().await), "2");
}
