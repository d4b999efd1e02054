//! Compiles the .proto files with protox: no protoc needed.

use std::path::PathBuf;

const FILES: [&str; 10] = [
    "proto/deviceplugin/v1beta1/api.proto",
    "proto/nodewarden/v1/garbage.proto",
    "proto/nodewarden/v1/nodewarden.proto",
    "proto/nodewarden/v1/streams.proto",
    "proto/nodewarden/v1/pods.proto",
    "proto/nodewarden/v1/pressure.proto",
    "proto/pluginregistration/v1/api.proto",
    "proto/podresources/v1/api.proto",
    "proto/podresources/v1alpha1/api.proto",
    "proto/runtime/v1/api.proto",
];

/// The definitions of the device plugin API.
const DEVICE_PLUGIN_FILES: [&str; 1] = ["proto/deviceplugin/v1beta1/api.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, [PathBuf::from("proto")])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    let descriptors = protox::compile(DEVICE_PLUGIN_FILES, [PathBuf::from("proto")])?;
    let file = PathBuf::from(std::env::var("OUT_DIR")?).join("device_plugin.binpb");
    std::fs::write(file, prost::Message::encode_to_vec(&descriptors))?;
    Ok(())
}
