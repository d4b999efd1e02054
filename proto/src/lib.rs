//! Protocol definitions and the clients and servers generated from them. One module a package.

/// nodewarden's own interface.
pub mod nodewarden {
    pub mod v1 {
        tonic::include_proto!("nodewarden.v1");
    }
}

/// Device plugins: the kubelet's protocol.
pub mod deviceplugin {
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");
    }
}

/// Plugins that the kubelet finds by their sockets in a directory.
pub mod pluginregistration {
    pub mod v1 {
        tonic::include_proto!("pluginregistration");
    }
}

/// Which pod has which devices, for those who watch a node: the kubelet's protocol.
pub mod podresources {
    pub mod v1 {
        tonic::include_proto!("v1");
    }
}

/// The container runtime interface (CRI), as far as it is used here.
pub mod runtime {
    pub mod v1 {
        tonic::include_proto!("runtime.v1");
    }
}

/// The messages of device plugins as a `google.protobuf.FileDescriptorSet`, for plugins in other languages.
pub const DEVICE_PLUGIN_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/device_plugin.binpb"));
