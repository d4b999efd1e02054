//! A question to the runtime that outlives the patience of those who asked it: a caller waits only as long as
//! its decision may, the question ends at the time limit of calls, and an answer that comes in between serves
//! the next caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// One question, which is asked again and again, at most once at a time.
#[derive(Debug)]
pub struct Question<T>(watch::Sender<State<T>>);

#[derive(Debug)]
struct State<T> {
    /// Since when the question is under way; `None` if it is not.
    since: Option<Instant>,
    /// How often it has ended.
    ended: u64,
    /// The last answer, and the number of the question that it belongs to.
    last: Option<(u64, Answer<T>)>,
}

/// What the runtime answered last.
#[derive(Debug)]
pub struct Answer<T> {
    /// The answer.
    pub value: Arc<T>,
    /// When it came.
    pub at: Instant,
    /// Whether it belongs to the question that the caller waited for.
    pub current: bool,
}

impl<T> Default for Question<T> {
    fn default() -> Self {
        Self(watch::Sender::new(State { since: None, ended: 0, last: None }))
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), at: self.at, current: self.current }
    }
}

impl<T: Send + Sync + 'static> Question<T> {
    /// The last answer. Asks with `call`, unless the question is under way already, and waits until it has
    /// been under way for `patience`. `None` if there was no answer yet. Must be called inside a tokio
    /// runtime.
    pub async fn ask<F>(&self, patience: Duration, call: impl FnOnce() -> F) -> Option<Answer<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut state = self.0.subscribe();
        let now = Instant::now();
        let (mut number, mut since) = (0, now);
        let begins = self.0.send_if_modified(|state| {
            let begins = state.since.is_none();
            (number, since) = (state.ended + 1, *state.since.get_or_insert(now));
            begins
        });
        if begins {
            self.begin(number, call());
        }
        // Time-out or not: what is known counts.
        let _ = timeout_at(since + patience, state.wait_for(|state| state.ended >= number)).await;
        let (last, answer) = self.0.borrow().last.clone()?;
        Some(Answer { current: last >= number, ..answer })
    }

    /// The last answer, without asking.
    pub fn last(&self) -> Option<Answer<T>> {
        let (_, answer) = self.0.borrow().last.clone()?;
        Some(Answer { current: false, ..answer })
    }

    fn begin(&self, number: u64, call: impl Future<Output = T> + Send + 'static) {
        // In a task of its own: after a panic the question is over as well.
        let (answer, state) = (tokio::spawn(call), self.0.clone());
        tokio::spawn(async move {
            let answer = answer.await.ok();
            state.send_modify(|state| {
                (state.since, state.ended) = (None, number);
                if let Some(value) = answer {
                    let answer = Answer { value: Arc::new(value), at: Instant::now(), current: true };
                    state.last = Some((number, answer));
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn ask(question: &Question<u32>, patience: u32, takes: u32, value: u32) -> Option<(u32, bool)> {
        let call = || async move {
            tokio::time::sleep(takes * SECOND).await;
            value
        };
        let answer = question.ask(patience * SECOND, call).await?;
        Some((*answer.value, answer.current))
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_serves_the_next_caller() {
        let (question, begun) = (Question::default(), Instant::now());
        assert_eq!(ask(&question, 5, 1, 1).await, Some((1, true)));
        assert_eq!(ask(&question, 5, 20, 2).await, Some((1, false)), "it takes longer");
        assert_eq!(begun.elapsed(), 6 * SECOND);
        assert_eq!(ask(&question, 5, 1, 3).await, Some((1, false)), "it is under way for 5 s already");
        assert_eq!(begun.elapsed(), 6 * SECOND);
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(ask(&question, 30, 1, 4).await, Some((2, true)), "joins the question under way");
        assert_eq!(begun.elapsed(), 21 * SECOND);
        assert_eq!(ask(&question, 5, 60, 5).await, Some((2, false)));
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_no_caller_waits_for_long_and_a_panic_ends_the_question() {
        let question = Question::default();
        assert_eq!(ask(&question, 5, 3600, 1).await, None);
        let begun = Instant::now();
        assert_eq!(ask(&question, 5, 1, 2).await, None);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let question: Question<u32> = Question::default();
        // Without the message and the backtrace, which would load the symbols into this process.
        let panics = || async { std::panic::resume_unwind(Box::new("planted")) };
        assert!(question.ask(SECOND, panics).await.is_none());
        assert_eq!(ask(&question, 5, 1, 3).await, Some((3, true)));
    }
}
