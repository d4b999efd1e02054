//! Where images are, asked of the runtime in the background: a slow runtime, often slow because the disk is
//! short of space, must not keep the node's file systems from being read.

use std::sync::Arc;
use std::time::Duration;

use nodewarden_cri::Question;
use parking_lot::Mutex;

use super::runtime::{ImageFsInfo, Runtime};

/// How long the first caller of a question waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The runtime's last answer.
pub struct ImageFs {
    runtime: Arc<dyn Runtime>,
    /// Its answer is why it failed, if it did.
    question: Question<Option<String>>,
    last: Arc<Mutex<Option<ImageFsInfo>>>,
}

/// What is known now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The last answer; `None` before the first one. Its figures are left out unless they are current.
    pub info: Option<ImageFsInfo>,
    /// Why it is not current.
    pub problem: Option<String>,
}

impl ImageFs {
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, question: Question::default(), last: Arc::default() }
    }

    /// Asks the runtime and waits until the question is under way for 2 s. It has the runtime's own time
    /// limit.
    pub async fn known(&self) -> Known {
        let (runtime, last) = (self.runtime.clone(), self.last.clone());
        let answer = self.question.ask(PATIENCE, || async move {
            match runtime.image_fs_info().await {
                Ok(info) => {
                    *last.lock() = Some(info);
                    None
                }
                Err(error) => Some(error.to_string()),
            }
        });
        let problem = match answer.await.filter(|answer| answer.current) {
            Some(answer) => answer.value.as_ref().clone(),
            None => Some("the runtime has not answered ImageFsInfo yet".to_owned()),
        };
        let info = self.last.lock().clone();
        match problem {
            None => Known { info, problem: None },
            Some(problem) => stale(info, problem),
        }
    }
}

/// The places of the last answer, without its figures.
fn stale(mut info: Option<ImageFsInfo>, problem: String) -> Known {
    for place in info.iter_mut().flat_map(|info| info.images.iter_mut().chain(&mut info.containers)) {
        (place.used, place.inodes_used) = (None, None);
    }
    Known { info, problem: Some(problem) }
}
