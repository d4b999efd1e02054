//! Protocol definitions and the clients and servers generated from them, one module per package and version.
//! Messages and fields are described in the `.proto` files below `proto/`, not all of which are ours.

#![deny(missing_docs)]

/// nodewarden's own interface.
pub mod nodewarden {
    /// Version 1, the only one.
    #[allow(missing_docs)] // generated
    pub mod v1 {
        tonic::include_proto!("nodewarden.v1");
    }
}

/// The kubelet's device plugin API.
pub mod deviceplugin {
    /// Version 1beta1, which kubelets speak.
    #[allow(missing_docs)] // generated
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");
    }
}

/// The kubelet's plugin watcher API, for plugins that are found by their sockets in a directory.
pub mod pluginregistration {
    /// Version 1.
    #[allow(missing_docs)] // generated
    pub mod v1 {
        tonic::include_proto!("pluginregistration");
    }
}

/// The kubelet's PodResources API, which lists the devices of each pod for monitoring agents.
pub mod podresources {
    /// Version 1.
    #[allow(missing_docs)] // generated
    pub mod v1 {
        tonic::include_proto!("v1");
    }
    /// As of before Kubernetes 1.20.
    #[allow(missing_docs)] // generated
    pub mod v1alpha1 {
        tonic::include_proto!("v1alpha1");
    }
}

/// The part of the container runtime interface (CRI) that nodewarden uses.
pub mod runtime {
    /// Version 1, of containerd from 1.6 on and of CRI-O.
    #[allow(missing_docs)] // generated
    pub mod v1 {
        tonic::include_proto!("runtime.v1");
    }
}

/// The device plugin API as an encoded `google.protobuf.FileDescriptorSet`, for plugins in other languages.
pub const DEVICE_PLUGIN_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/device_plugin.binpb"));
