//! What the runtime has: sandboxes and containers as its lists have them, without what the agent reads
//! nowhere. A list of a thousand pods is decoded item by item, so that never more than one is there in full.

use std::collections::HashMap;

use nodewarden_proto::runtime::v1 as cri;
use prost::Message;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, message, skip_field};

use super::labels;

/// One response of the runtime to both list calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The response to ListPodSandbox.
    pub sandboxes: Vec<ListedSandbox>,
    /// The response to ListContainers.
    pub containers: Vec<ListedContainer>,
}

/// A sandbox of a list: the fields of CRI's `PodSandbox` that the agent reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListedSandbox {
    /// The runtime's id.
    pub id: String,
    /// Name, namespace and uid of its pod, and which of the pod's sandboxes it is.
    pub metadata: Option<cri::PodSandboxMetadata>,
    /// A [`cri::PodSandboxState`].
    pub state: i32,
    /// When it was created, in nanoseconds since 1970.
    pub created_at: i64,
    /// The labels that the agent reads.
    pub labels: Labels,
}

/// A container of a list: the fields of CRI's `Container` that the agent reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListedContainer {
    /// The runtime's id.
    pub id: String,
    /// The sandbox that it is in.
    pub pod_sandbox_id: String,
    /// Its name, and which container of this name it is.
    pub metadata: Option<cri::ContainerMetadata>,
    /// The image that it was created with, as a name or an id.
    pub image: String,
    /// The image as the pod's author wrote it; empty where the runtime does not keep it.
    pub user_specified_image: String,
    /// The image as the runtime knows it.
    pub image_ref: String,
    /// Id of the image; empty for runtimes that do not report it.
    pub image_id: String,
    /// A [`cri::ContainerState`].
    pub state: i32,
    /// When it was created, in nanoseconds since 1970.
    pub created_at: i64,
    /// The labels that the agent reads.
    pub labels: Labels,
    /// The annotations that the agent reads.
    pub annotations: Labels,
}

/// The labels or annotations of [`labels::READ`] that an object has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<[(&'static str, String)]>);

impl Labels {
    /// The value of a label; `None` if the object lacks it, or the agent does not read it.
    pub fn get(&self, name: &str) -> Option<&String> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Whether the object has a label that the agent reads.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl From<HashMap<String, String>> for Labels {
    fn from(mut all: HashMap<String, String>) -> Self {
        let there = labels::READ.into_iter().filter(|name| all.contains_key(*name)).count();
        let mut kept = Vec::with_capacity(there);
        kept.extend(labels::READ.into_iter().filter_map(|name| Some((name, all.remove(name)?))));
        Self(kept.into_boxed_slice())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Labels {
    fn from(pairs: [(&str, &str); N]) -> Self {
        let all: HashMap<_, _> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        all.into()
    }
}

impl From<cri::PodSandbox> for ListedSandbox {
    fn from(listed: cri::PodSandbox) -> Self {
        Self {
            id: listed.id,
            metadata: listed.metadata,
            state: listed.state,
            created_at: listed.created_at,
            labels: listed.labels.into(),
        }
    }
}

impl From<cri::Container> for ListedContainer {
    fn from(listed: cri::Container) -> Self {
        let image = listed.image.unwrap_or_default();
        Self {
            id: listed.id,
            pod_sandbox_id: listed.pod_sandbox_id,
            metadata: listed.metadata,
            image: image.image,
            user_specified_image: image.user_specified_image,
            image_ref: listed.image_ref,
            image_id: listed.image_id,
            state: listed.state,
            created_at: listed.created_at,
            labels: listed.labels.into(),
            annotations: listed.annotations.into(),
        }
    }
}

/// An item of a list as the protocol has it, and as it is kept.
pub(super) trait Item: Default + Send + Sync {
    type Sent: Message + Default + Into<Self>;
}

impl Item for ListedSandbox {
    type Sent = cri::PodSandbox;
}

impl Item for ListedContainer {
    type Sent = cri::Container;
}

/// The response to ListPodSandbox or ListContainers, whose items both are field 1.
#[derive(Debug, Default)]
pub(super) struct Items<T>(pub(super) Vec<T>);

/// The field of the items.
const ITEMS: u32 = 1;

impl<T: Item> Message for Items<T> {
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        if tag != ITEMS {
            return skip_field(wire_type, tag, buffer, context);
        }
        let mut item = T::Sent::default();
        message::merge(wire_type, &mut item, buffer, context)?;
        self.0.push(item.into());
        Ok(())
    }

    /// It is only ever received.
    fn encode_raw(&self, _: &mut impl BufMut) {}

    fn encoded_len(&self) -> usize {
        0
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn a_list_is_decoded_without_what_is_not_read() {
        let container = |id: &str| cri::Container {
            id: id.into(),
            pod_sandbox_id: "s".into(),
            metadata: Some(cri::ContainerMetadata { name: "main".into(), attempt: 3 }),
            image: Some(cri::ImageSpec {
                image: "sha256:1".into(),
                user_specified_image: "busybox".into(),
                ..Default::default()
            }),
            image_ref: "sha256:1".into(),
            state: 1,
            created_at: 5,
            labels: pairs([("app", "web"), (labels::POD_UID, "u"), (labels::OWNER, "me")]),
            annotations: pairs([("note", "long"), (labels::TERMINATION_GRACE_PERIOD, "30")]),
            ..Default::default()
        };
        let sent = cri::ListContainersResponse { containers: vec![container("a"), container("b")] };
        // A field of a later version of the protocol after it.
        let mut bytes = sent.encode_to_vec();
        bytes.extend([0x7a, 2, b'h', b'i']);
        let Items::<ListedContainer>(read) = Items::decode(&*bytes).unwrap();
        assert_eq!(read, sent.containers.into_iter().map(Into::into).collect::<Vec<ListedContainer>>());
        let own = &read[1];
        assert_eq!((own.id.as_str(), own.state, own.created_at), ("b", 1, 5));
        assert_eq!((own.image.as_str(), own.user_specified_image.as_str()), ("sha256:1", "busybox"));
        assert_eq!(own.labels.get(labels::POD_UID).unwrap(), "u");
        assert_eq!(own.annotations.get(labels::TERMINATION_GRACE_PERIOD).unwrap(), "30");
        assert_eq!((own.labels.0.len(), own.annotations.0.len()), (2, 1));
        assert!(!own.labels.contains_key("app") && !own.annotations.contains_key("note"));
    }

    #[test]
    fn a_list_that_breaks_off_is_refused() {
        let sandbox = cri::PodSandbox { id: "s".into(), ..Default::default() };
        let bytes = cri::ListPodSandboxResponse { items: vec![sandbox] }.encode_to_vec();
        assert_eq!(Items::<ListedSandbox>::decode(&*bytes).unwrap().0[0].id, "s");
        assert!(Items::<ListedSandbox>::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
