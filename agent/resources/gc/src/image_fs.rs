//! Where images are, asked of the runtime in the background: a slow runtime, often slow because the disk is
//! short of space, must not keep the node's file systems from being read.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::runtime::{ImageFsInfo, Runtime};

/// How long the first caller of a question waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The runtime's last answer.
pub struct ImageFs {
    runtime: Arc<dyn Runtime>,
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A question is under way.
    asking: bool,
    /// Questions that were answered or failed.
    ended: u64,
    last: Option<ImageFsInfo>,
    /// Why the last question failed.
    problem: Option<String>,
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
        Self { runtime, state: watch::Sender::default() }
    }

    /// Asks the runtime and waits for at most 2 s; not at all if an earlier question has no answer yet. The
    /// question itself has the runtime's own time limit.
    pub async fn known(&self) -> Known {
        let mut state = self.state.subscribe();
        let ended = state.borrow_and_update().ended;
        let current = self.ask() && {
            let answered = state.wait_for(|state| state.ended > ended);
            tokio::time::timeout(PATIENCE, answered).await.is_ok()
        };
        let state = self.state.borrow();
        match (&state.problem, current) {
            (None, true) => Known { info: state.last.clone(), problem: None },
            (Some(problem), true) => stale(&state, problem.clone()),
            (_, false) => stale(&state, "the runtime has not answered ImageFsInfo yet".to_owned()),
        }
    }

    /// Starts a question; false if one is under way.
    fn ask(&self) -> bool {
        if !self.state.send_if_modified(|state| !std::mem::replace(&mut state.asking, true)) {
            return false;
        }
        let (runtime, state) = (self.runtime.clone(), self.state.clone());
        tokio::spawn(async move {
            // In a task of its own: after a panic the question is over as well.
            let answer = tokio::spawn(async move { runtime.image_fs_info().await }).await;
            let answer = answer.map_err(|error| error.to_string());
            let answer = answer.and_then(|answer| answer.map_err(|error| error.to_string()));
            state.send_modify(|state| {
                state.asking = false;
                state.ended += 1;
                match answer {
                    Ok(info) => (state.last, state.problem) = (Some(info), None),
                    Err(problem) => state.problem = Some(problem),
                }
            });
        });
        true
    }
}

/// The places of the last answer, without its figures.
fn stale(state: &State, problem: String) -> Known {
    let mut info = state.last.clone();
    for place in info.iter_mut().flat_map(|info| info.images.iter_mut().chain(&mut info.containers)) {
        (place.used, place.inodes_used) = (None, None);
    }
    Known { info, problem: Some(problem) }
}
