//! Devices that a running container was given and can no longer open. Pure.

use std::collections::BTreeMap;

use super::node::{Numbers, name};

/// A container, and the device that it was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The runtime's id of the container.
    pub id: String,
    /// The device.
    pub device: Numbers,
}

/// Whether a container can open a device that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// It can.
    Open,
    /// It cannot, for this reason.
    Lost(String),
    /// That is not known.
    Unknown,
}

/// A look at a device of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub place: Place,
    /// Uid of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// Path of the device.
    pub path: String,
    /// The container has it for sure: it need not have been seen to be able to open it.
    pub certain: bool,
    pub access: Access,
}

/// What has become of a device of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It can no longer be opened.
    Lost,
    /// It can be opened again.
    Back,
}

/// A change to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which way.
    pub changed: Changed,
    /// Uid of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// A sentence.
    pub message: String,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    was_open: bool,
    /// Why it is lost now.
    lost: Option<String>,
}

/// Which devices were seen to be open, and which are lost.
#[derive(Debug, Clone, Default)]
pub struct Losses(BTreeMap<Place, Seen>);

impl Losses {
    /// Takes the looks at all devices of all running containers; returns what changed. A device is lost when
    /// it cannot be opened, and the container has it for sure or was seen to be able to open it.
    pub fn update(&mut self, looks: Vec<Look>) -> Vec<Change> {
        let mut before = std::mem::take(&mut self.0);
        let mut changes = Vec::new();
        for look in looks {
            let mut seen = before.remove(&look.place).unwrap_or_default();
            let change = |changed, message| Change {
                changed,
                uid: look.uid.clone(),
                container: look.container.clone(),
                message,
            };
            let device = format!("{} ({})", look.path, name(look.place.device));
            match look.access {
                Access::Open => {
                    seen.was_open = true;
                    if seen.lost.take().is_some() {
                        changes.push(change(Changed::Back, format!("{device} can be opened again")));
                    }
                }
                Access::Lost(why) if seen.was_open || look.certain => {
                    if seen.lost.is_none() {
                        changes
                            .push(change(Changed::Lost, format!("{device} can no longer be opened: {why}")));
                    }
                    seen.lost = Some(why);
                }
                Access::Lost(_) | Access::Unknown => {}
            }
            self.0.insert(look.place, seen);
        }
        changes
    }

    /// How many are lost now.
    pub fn count(&self) -> usize {
        self.0.values().filter(|seen| seen.lost.is_some()).count()
    }

    /// Why a container has lost a device; `None` if it has not.
    pub fn why(&self, place: &Place) -> Option<&str> {
        self.0.get(place)?.lost.as_deref()
    }
}

#[cfg(test)]
mod tests;
