//! Saves a pod's record in the background.

use std::sync::Arc;

use super::Record;
use super::store::Store;
use nodewarden_storage::write_behind::WriteBehind;

/// Saves the newest record of one pod. Cloning shares it.
pub type RecordSaver = WriteBehind<Record>;

/// A saver into `store`. Must be called inside a tokio runtime.
pub fn saver(store: Arc<Store>) -> RecordSaver {
    let write = move |record: Record| store.save(&record).map(drop);
    WriteBehind::on_blocking_thread("a restart of the agent would know less of this pod", write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, pod};

    #[tokio::test]
    async fn the_newest_record_is_on_disk_once_settled() {
        let dir = tempfile::tempdir().unwrap();
        let (store, ..) = Store::open(dir.path()).unwrap();
        let pod = pod(serde_json::json!({"containers": [{"name": "c", "image": "i"}]}));
        let record = |accepted| Record::new(&pod, "/manifests/p.yaml", at(accepted));
        let saver = saver(Arc::new(store));
        for accepted in 0..5 {
            saver.save(record(accepted));
        }
        saver.settled().await.unwrap();
        assert_eq!(Store::open(dir.path()).unwrap().1, [record(4)]);
    }
}
