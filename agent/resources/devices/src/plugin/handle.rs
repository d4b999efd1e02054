//! The handle of one registration of a plugin, with the calls to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_proto::deviceplugin::v1beta1 as api;
use nodewarden_proto::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::{LARGEST_MESSAGE, Options, PluginAddress, PluginError, connection};

/// How a registration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The plugin has stopped, or the agent ends.
    Stopped,
    /// Another registration of its resource has replaced it.
    Replaced,
}

/// One registration of a plugin. Once it has ended, its calls fail at once, also those in progress.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    address: PluginAddress,
    generation: u64,
    options: Options,
    client: DevicePluginClient<Channel>,
    limit: Duration,
    end: watch::Sender<Option<End>>,
}

impl Plugin {
    /// Asks the plugin for its options. `requested` are those of its registration; they are used if the
    /// plugin does not implement the call.
    pub(super) async fn query(
        address: PluginAddress,
        generation: u64,
        channel: Channel,
        requested: Option<Options>,
        limit: Duration,
    ) -> Result<Self, PluginError> {
        let mut client = DevicePluginClient::new(channel)
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE);
        let asked = client.get_device_plugin_options(api::Empty {});
        let options = match connection::answer(&address, "GetDevicePluginOptions", limit, asked).await {
            Ok(options) => options.into(),
            Err(e) if e.is_unimplemented() => requested.unwrap_or_default(),
            Err(e) => match requested {
                Some(requested) => {
                    tracing::warn!("{e}: the options of its registration are used");
                    requested
                }
                None => return Err(e),
            },
        };
        let end = watch::Sender::new(None);
        Ok(Self(Arc::new(Inner { address, generation, options, client, limit, end })))
    }

    /// The plugin's extended resource.
    pub fn resource(&self) -> &str {
        &self.0.address.resource
    }

    /// The plugin's resource and socket.
    pub fn address(&self) -> &PluginAddress {
        &self.0.address
    }

    /// The registration's number; larger than that of every earlier one.
    pub fn generation(&self) -> u64 {
        self.0.generation
    }

    /// Which optional calls the plugin asks for.
    pub fn options(&self) -> Options {
        self.0.options
    }

    /// Calls GetPreferredAllocation for one container: which of the available devices the plugin prefers.
    /// Empty if it has no preference or does not offer the call.
    ///
    /// # Errors
    /// The call failed; name resource, socket, call and cause.
    pub async fn preferred(
        &self,
        available: Vec<String>,
        must_include: Vec<String>,
        size: usize,
    ) -> Result<Vec<String>, PluginError> {
        const CALL: &str = "GetPreferredAllocation";
        if !self.0.options.preferred_allocation {
            return Ok(Vec::new());
        }
        let allocation_size =
            i32::try_from(size).map_err(|_| self.malformed(CALL, format!("{size} devices wanted")))?;
        let request = api::ContainerPreferredAllocationRequest {
            available_device_i_ds: available,
            must_include_device_i_ds: must_include,
            allocation_size,
        };
        let request = api::PreferredAllocationRequest { container_requests: vec![request] };
        let mut client = self.0.client.clone();
        let answer = self.call(CALL, client.get_preferred_allocation(request)).await?;
        // An empty answer is no preference, as for the kubelet.
        let first = answer.container_responses.into_iter().next();
        Ok(first.map(|response| response.device_i_ds).unwrap_or_default())
    }

    /// Calls Allocate for one container.
    ///
    /// # Errors
    /// The call failed, or the answer is not for exactly one container; the error names resource, socket,
    /// call and cause.
    pub async fn allocate(
        &self,
        devices: Vec<String>,
    ) -> Result<api::ContainerAllocateResponse, PluginError> {
        const CALL: &str = "Allocate";
        let request = api::AllocateRequest {
            container_requests: vec![api::ContainerAllocateRequest { devices_ids: devices }],
        };
        let mut client = self.0.client.clone();
        let mut answer = self.call(CALL, client.allocate(request)).await?.container_responses;
        match (answer.pop(), answer.len()) {
            (Some(response), 0) => Ok(response),
            (None, _) => Err(self.malformed(CALL, "no containers in the answer, expected 1".to_owned())),
            (_, others) => {
                Err(self.malformed(CALL, format!("{} containers in the answer, expected 1", others + 1)))
            }
        }
    }

    /// Calls PreStartContainer, if the plugin asks for it.
    ///
    /// # Errors
    /// The call failed; name resource, socket, call and cause.
    pub async fn pre_start(&self, devices: Vec<String>) -> Result<(), PluginError> {
        if !self.0.options.pre_start_required {
            return Ok(());
        }
        let request = api::PreStartContainerRequest { devices_ids: devices };
        let mut client = self.0.client.clone();
        self.call("PreStartContainer", client.pre_start_container(request)).await?;
        Ok(())
    }

    pub(super) fn client(&self) -> DevicePluginClient<Channel> {
        self.0.client.clone()
    }

    /// How long a call may take.
    pub(super) fn limit(&self) -> Duration {
        self.0.limit
    }

    /// Ends the registration, so that its calls fail. Only the first end counts.
    pub(super) fn end(&self, how: End) {
        self.0.end.send_if_modified(|end| end.replace(end.unwrap_or(how)).is_none());
    }

    /// Waits until the registration has ended.
    pub(super) async fn ended(&self) -> End {
        let mut end = self.0.end.subscribe();
        // The sender lives as long as `self`.
        end.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(End::Stopped)
    }

    async fn call<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, PluginError> {
        tokio::select! {
            biased;
            _ = self.ended() => Err(PluginError::Ended { plugin: self.0.address.clone(), call }),
            answer = connection::answer(&self.0.address, call, self.0.limit, answer) => answer,
        }
    }

    fn malformed(&self, call: &'static str, what: String) -> PluginError {
        PluginError::Malformed { plugin: self.0.address.clone(), call, what }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { address, generation, options, end, .. } = &*self.0;
        f.debug_struct("Plugin")
            .field("address", address)
            .field("generation", generation)
            .field("options", options)
            .field("end", &*end.borrow())
            .finish_non_exhaustive()
    }
}
