//! A client over a real socket.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nodewarden_proto::podresources::v1 as api;
use nodewarden_proto::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use nodewarden_proto::podresources::v1alpha1 as alpha;
use nodewarden_proto::podresources::v1alpha1::pod_resources_lister_client::PodResourcesListerClient as AlphaClient;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use super::*;
use crate::plugin::fixture;

struct Fixture;

impl PodResources for Fixture {
    fn pods(&self) -> Vec<PodDevices> {
        let memory = vec![MemoryBlock { resource: "memory".into(), size: 1 << 30, nodes: vec![0, 1] }];
        let container = |name: &str, devices: BTreeMap<_, _>| {
            let cpus = if devices.is_empty() { Vec::new() } else { vec![2, 3] };
            let memory = if devices.is_empty() { Vec::new() } else { memory.clone() };
            ContainerDevices { name: name.into(), devices, cpus, memory }
        };
        let gpus = BTreeMap::from([
            (-1, ["g3".to_owned()].into()),
            (0, ["g1".to_owned(), "g2".to_owned()].into()),
            (1, ["g2".to_owned()].into()),
        ]);
        let devices = BTreeMap::from([("v.com/gpu".to_owned(), gpus)]);
        let pod = |name: &str, containers| PodDevices {
            uid: "u".into(),
            namespace: "ml".into(),
            name: name.into(),
            containers,
        };
        vec![
            pod("train", vec![container("main", devices), container("log", BTreeMap::new())]),
            pod("idle", vec![container("main", BTreeMap::new())]),
        ]
    }

    fn allocatable_cpus(&self) -> Vec<u32> {
        vec![1, 2, 3]
    }

    fn allocatable_memory(&self) -> Vec<MemoryBlock> {
        vec![MemoryBlock { resource: "hugepages-2Mi".into(), size: 4 << 20, nodes: vec![1] }]
    }

    fn allocatable(&self) -> Vec<AllocatableDevices> {
        let ids: Vec<String> = (0..100_000).map(|n| format!("device-with-a-long-name-{n}")).collect();
        vec![
            AllocatableDevices {
                resource: "v.com/gpu".into(),
                devices: BTreeMap::from([(0, ["g1".to_owned()].into())]),
            },
            AllocatableDevices {
                resource: "v.com/many".into(),
                devices: BTreeMap::from([(-1, ids.into_iter().collect())]),
            },
        ]
    }
}

struct Running {
    client: PodResourcesListerClient<Channel>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), PodResourcesError>>,
}

async fn start(socket: &Path) -> Running {
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(Socket::claim(socket).unwrap(), Arc::new(Fixture), async {
        let _ = stopped.await;
    }));
    let channel = fixture::connect(socket).await;
    Running {
        client: PodResourcesListerClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE),
        stop,
        server,
    }
}

/// Resource, id and NUMA node of each message.
fn entries(devices: &[api::ContainerDevices]) -> Vec<(&str, &str, Option<i64>)> {
    let node = |d: &api::ContainerDevices| d.topology.as_ref().map(|topology| topology.nodes[0].id);
    devices.iter().map(|d| (d.resource_name.as_str(), d.device_ids[0].as_str(), node(d))).collect()
}

#[tokio::test]
async fn the_calls_return_pods_with_devices_cpus_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pod-resources/kubelet.sock");
    let Running { mut client, stop, server } = start(&socket).await;
    assert_eq!(std::fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);

    let list = client.list(api::ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    let names: Vec<_> =
        list.iter().map(|p| (p.namespace.as_str(), p.name.as_str(), p.containers.len())).collect();
    assert_eq!(names, [("ml", "train", 2), ("ml", "idle", 1)]);
    let main = &list[0].containers[0];
    assert_eq!(
        (main.name.as_str(), entries(&main.devices)),
        (
            "main",
            vec![
                ("v.com/gpu", "g3", None),
                ("v.com/gpu", "g1", Some(0)),
                ("v.com/gpu", "g2", Some(0)),
                ("v.com/gpu", "g2", Some(1)),
            ]
        )
    );

    assert_eq!(main.cpu_ids, [2, 3]);
    let memory = &main.memory[0];
    let nodes: Vec<i64> = memory.topology.iter().flat_map(|own| &own.nodes).map(|node| node.id).collect();
    assert_eq!((memory.memory_type.as_str(), memory.size, nodes), ("memory", 1 << 30, vec![0, 1]));
    assert!(list[1].containers[0].cpu_ids.is_empty() && list[1].containers[0].memory.is_empty());

    let get = |name: &str| api::GetPodResourcesRequest { pod_name: name.into(), pod_namespace: "ml".into() };
    let got = client.get(get("train")).await.unwrap().into_inner().pod_resources.unwrap();
    assert_eq!(got, list[0]);
    let status = client.get(get("gone")).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (tonic::Code::NotFound, "pod gone in namespace ml not found")
    );

    let answer = client.get_allocatable_resources(api::AllocatableResourcesRequest {}).await.unwrap();
    let api::AllocatableResourcesResponse { devices, cpu_ids, memory } = answer.into_inner();
    assert_eq!((cpu_ids, memory[0].size), (vec![1, 2, 3], 4 << 20));
    assert_eq!(entries(&devices[..1]), [("v.com/gpu", "g1", Some(0))]);
    assert_eq!(devices.len(), 100_001, "more than 4 MiB");

    let mut old = AlphaClient::new(fixture::connect(&socket).await);
    let list = old.list(alpha::ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources;
    let devices = &list[0].containers[0].devices;
    assert_eq!((devices.len(), devices[0].resource_name.as_str()), (1, "v.com/gpu"));
    assert_eq!(devices[0].device_ids, ["g1", "g2", "g3"]);
    drop(old);

    drop(client);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn the_socket_of_a_running_kubelet_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let _kubelet = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = Socket::claim(&socket).unwrap_err();
    assert!(matches!(error, SocketError::InUse { .. }), "{error}");
    assert!(socket.exists());
}
