//! What is asked of the agent only while a pod's page is open: the pod as its manifest has it, and its
//! events. Pure.

use std::collections::VecDeque;

use nodewarden_model::Event;
use nodewarden_proto::nodewarden::v1::Pod;

/// How many events are kept.
const EVENTS: usize = 200;

/// A message about the pod.
#[derive(Debug)]
pub enum News {
    /// `None` if the agent does not run it: in mode observe it runs none.
    Pod(Option<Box<Pod>>),
    /// All events come again, from the oldest one.
    Again,
    Event(Box<Event>),
    /// Why there is no more for now.
    Trouble(String),
}

#[derive(Debug, Default)]
pub struct Details {
    pub pod: Option<Box<Pod>>,
    /// Oldest first.
    pub events: VecDeque<Event>,
    pub trouble: Option<String>,
}

impl Details {
    pub fn take(&mut self, news: News) {
        match news {
            News::Pod(pod) => self.pod = pod,
            News::Again => (self.events, self.trouble) = (VecDeque::new(), None),
            News::Event(event) => {
                if self.events.len() == EVENTS {
                    self.events.pop_front();
                }
                self.events.push_back(*event);
            }
            News::Trouble(text) => self.trouble = Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use nodewarden_model::Detail;

    fn event(seq: u64) -> News {
        let (time, detail) = (Timestamp::UNIX_EPOCH, Detail::CgroupCreated {});
        News::Event(Box::new(Event { seq, time, cgroup: "/a".into(), pod: None, detail }))
    }

    #[test]
    fn the_newest_events_are_kept() {
        let mut details = Details::default();
        (0..EVENTS as u64 + 5).for_each(|seq| details.take(event(seq)));
        let ends = |details: &Details| {
            details.events.front().zip(details.events.back()).map(|(a, b)| (a.seq, b.seq))
        };
        assert_eq!(ends(&details), Some((5, EVENTS as u64 + 4)));
        details.take(News::Trouble("gone".into()));
        assert_eq!((details.events.len(), details.trouble.as_deref()), (EVENTS, Some("gone")));
        details.take(News::Again);
        details.take(event(7));
        assert_eq!((ends(&details), &details.trouble), (Some((7, 7)), &None));
    }
}
