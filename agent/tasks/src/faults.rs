//! Whose work a thread does: a panic in work for a pod is a fault of the agent that this pod brings out, and
//! the agent that is started after it must know which pod that is. A build with `panic = "abort"` ends at
//! every panic, so it is written down by the panic hook, before the process ends.

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic;
use std::sync::Arc;

thread_local! {
    static POD: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Marks `work` as work for the pod with this uid, whichever thread does it.
pub fn about<F: Future>(uid: Arc<str>, work: F) -> impl Future<Output = F::Output> {
    let mut work = Box::pin(work);
    poll_fn(move |context| {
        let _marked = Marked::with(&uid);
        work.as_mut().poll(context)
    })
}

/// From now on `write` gets the uid and the panic's text at each panic in work for a pod.
pub fn on_panic(write: impl Fn(&str, &str) + Send + Sync + 'static) {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some(uid) = pod() {
            write(&uid, &text(info));
        }
        before(info);
    }));
}

/// The uid of the pod for which this thread works.
fn pod() -> Option<Arc<str>> {
    // Neither fails but while the thread ends, when it works for no pod.
    POD.try_with(|pod| pod.try_borrow().ok().and_then(|pod| pod.clone())).ok().flatten()
}

/// A panic's text and place.
pub(crate) fn text(info: &panic::PanicHookInfo<'_>) -> String {
    let text = info.payload_as_str().unwrap_or("no text");
    let place = info.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    format!("{text}{}", place.unwrap_or_default())
}

/// The thread works for a pod until this is dropped.
struct Marked(Option<Arc<str>>);

impl Marked {
    fn with(uid: &Arc<str>) -> Self {
        Self(POD.replace(Some(uid.clone())))
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        POD.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_laid_to_the_pod_whose_work_it_was() {
        static WRITTEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
        on_panic(|uid, text| WRITTEN.lock().unwrap().push((uid.to_owned(), text.to_owned())));
        let faulty = |text: &'static str| async move {
            tokio::task::yield_now().await;
            panic!("{text}");
        };
        let inner = move || about("inner".into(), faulty("in the inner one"));
        let nested = async move {
            assert!(tokio::spawn(inner()).await.is_err());
            assert_eq!(pod().as_deref(), Some("outer"));
            faulty("in the outer one").await;
        };
        assert!(tokio::spawn(about("outer".into(), nested)).await.is_err());
        assert!(tokio::spawn(faulty("for no pod")).await.is_err());
        assert_eq!(pod(), None);
        let written = WRITTEN.lock().unwrap();
        let found = written.iter().map(|(uid, text)| (uid.as_str(), text.split(" (").next().unwrap()));
        assert_eq!(found.collect::<Vec<_>>(), [("inner", "in the inner one"), ("outer", "in the outer one")]);
        assert!(written[0].1.contains("faults.rs:"), "{}", written[0].1);
    }
}
