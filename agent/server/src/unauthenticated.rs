//! How many connections are open: of clients that are authenticated, and of those that are not yet.
//!
//! A connection is unauthenticated until one of its requests was authenticated, which takes an honest client
//! milliseconds. When there are too many, the oldest of that client is cut instead of refusing the newest: a
//! thousand silent connections keep no client out.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Unauthenticated connections in all.
    pub unauthenticated: usize,
    /// Unauthenticated connections of one client.
    pub of_one: usize,
    /// Authenticated connections.
    pub known: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { unauthenticated: 256, of_one: 64, known: 1000 }
    }
}

/// The connections. Clones share them.
#[derive(Debug, Clone)]
pub struct Unauthenticated(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: Bounds,
    list: Mutex<List>,
    known: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// Oldest first.
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    client: IpAddr,
    /// Dropped when the connection has to end.
    _keep: oneshot::Sender<()>,
}

/// A connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    list: Unauthenticated,
    number: u64,
    /// Set once the client is known.
    known: Mutex<Option<(OwnedSemaphorePermit, Open)>>,
}

impl Unauthenticated {
    /// No connections yet.
    pub fn new(bounds: Bounds) -> Self {
        let known = Arc::new(Semaphore::new(bounds.known));
        Self(Arc::new(Inner { bounds, list: Mutex::default(), known }))
    }

    /// A place for a new connection of `client`, what ends when the connection has to, and whether another
    /// was cut for it.
    pub fn enter(&self, client: IpAddr) -> (Place, oneshot::Receiver<()>, bool) {
        let Inner { bounds, list, .. } = &*self.0;
        let mut list = list.lock();
        let own = list.open.iter().filter(|open| open.client == client).count();
        let cut = if own >= bounds.of_one {
            list.open.iter().position(|open| open.client == client)
        } else if list.open.len() >= bounds.unauthenticated {
            Some(0)
        } else {
            None
        };
        if let Some(oldest) = cut {
            list.open.remove(oldest);
        }
        let (keep, end) = oneshot::channel();
        let number = list.next;
        list.next += 1;
        list.open.push_back(Open { number, client, _keep: keep });
        (Place { list: self.clone(), number, known: Mutex::default() }, end, cut.is_some())
    }
}

impl Place {
    /// Marks the client as known. `false` if there are too many connections of known clients, or if this one
    /// was cut.
    pub fn know(&self) -> bool {
        let mut known = self.known.lock();
        if known.is_some() {
            return true;
        }
        let Ok(permit) = self.list.0.known.clone().try_acquire_owned() else { return false };
        let Some(own) = self.leave() else { return false };
        *known = Some((permit, own));
        true
    }

    /// Takes this connection out of the unauthenticated ones.
    fn leave(&self) -> Option<Open> {
        let mut list = self.list.0.list.lock();
        let at = list.open.binary_search_by_key(&self.number, |open| open.number).ok()?;
        list.open.remove(at)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { unauthenticated: 4, of_one: 2, known: 3 };

    fn client(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn the_oldest_unauthenticated_connection_of_the_same_client_is_cut() {
        let all = Unauthenticated::new(BOUNDS);
        let (other, mut other_end, _) = all.enter(client(9));
        let (_first, mut first_end, _) = all.enter(client(1));
        let (_second, mut second_end, cut) = all.enter(client(1));
        assert!(!cut && first_end.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
        let (_third, _third_end, cut) = all.enter(client(1));
        let closed = Err(oneshot::error::TryRecvError::Closed);
        assert!(cut);
        assert_eq!(first_end.try_recv(), closed);
        assert_ne!(second_end.try_recv(), closed);
        assert_ne!(other_end.try_recv(), closed, "another client is not touched");
        assert!(other.know());
    }

    #[test]
    fn those_who_are_known_are_not_cut() {
        let all = Unauthenticated::new(BOUNDS);
        let (admin, mut end, _) = all.enter(client(1));
        assert!(admin.know() && admin.know());
        let more: Vec<_> = (0..50).map(|n| all.enter(client(n % 7))).collect();
        assert_ne!(end.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        // Of the others only the newest are left: those before them cannot become known any more.
        let known: Vec<bool> = more.iter().map(|(place, ..)| place.know()).collect();
        assert_eq!(known.iter().filter(|known| **known).count(), BOUNDS.known - 1);
        assert!(!known[0]);
        drop((admin, more));
        let (again, ..) = all.enter(client(1));
        assert!(again.know(), "places are given back");
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_allowed(clients in prop::collection::vec((0..6u8, prop::bool::ANY), 0..200)) {
            let all = Unauthenticated::new(BOUNDS);
            let mut held = Vec::new();
            for (last, keep) in clients {
                let (place, end, _) = all.enter(client(last));
                match keep {
                    true => held.push((place, end)),
                    false => drop(place),
                }
                let list = all.0.list.lock();
                prop_assert!(list.open.len() <= BOUNDS.unauthenticated);
                let own = list.open.iter().filter(|open| open.client == client(last)).count();
                prop_assert!(own <= BOUNDS.of_one);
                drop(list);
                let open = all.0.list.lock().open.len();
                let is_open = |end: &mut oneshot::Receiver<()>| {
                    end.try_recv() == Err(oneshot::error::TryRecvError::Empty)
                };
                let alive = held.iter_mut().map(|(_, end)| usize::from(is_open(end))).sum::<usize>();
                prop_assert_eq!(open, alive);
            }
        }
    }
}
