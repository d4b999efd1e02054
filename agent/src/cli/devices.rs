//! `nodewarden devices`: the devices that plugins offer, and the containers they are allocated to.

use clap::Args;
use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{
    Device, DeviceOwner, DeviceResource, ListDevicesRequest, ListDevicesResponse,
};
use serde_json::{Value, json};

use super::events::Output;
use super::format::{printable, span};
use super::output::print;
use super::table::{Align, table};
use super::{CliError, SocketArg, client};
use nodewarden_api::grpc::time;

/// Print the devices of all plugins, their health, and which container each is allocated to
#[derive(Debug, Args)]
#[command(after_help = "\
A resource is listed while its plugin is connected and for nodewarden.devices.graceSeconds after it disconnected. A
device whose plugin no longer reports it has the health Unknown; containers keep the devices allocated to them.

Beside a kubelet (mode augment) these are the kubelet's devices, each with the device nodes that its container was
given; what a container can no longer open is listed below them.

Examples:
  nodewarden devices                     all resources with their devices
  nodewarden devices nvidia.com/gpu      one of them
  nodewarden devices --output json | jq '.resources[] | {name, capacity, allocatable, allocated}'")]
pub struct DevicesArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Print only this resource
    resource: Option<String>,
    /// Text for people or one JSON object for programs
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: DevicesArgs) -> Result<(), CliError> {
    let mut client = client::connect(&args.socket.socket).await?;
    let answer = client.list_devices(ListDevicesRequest {}).await;
    let mut answer = answer.map_err(CliError::call("ListDevices"))?.into_inner();
    if let Some(wanted) = &args.resource {
        answer.resources.retain(|own| own.name == *wanted);
        answer.removed.retain(|own| own.name == *wanted);
    }
    let text = match args.output {
        Output::Text => text(&answer, Timestamp::now()),
        Output::Json => format!("{}\n", json(&answer)),
    };
    Ok(print(&text)?)
}

fn text(answer: &ListDevicesResponse, now: Timestamp) -> String {
    let mut out = String::new();
    for problem in &answer.problems {
        out.push_str(&format!("warning: {}\n", printable(problem)));
    }
    if answer.resources.is_empty() {
        out.push_str("No devices: no device plugin has registered.\n");
    } else {
        let head = ["RESOURCE", "CAPACITY", "ALLOCATABLE", "ALLOCATED", "PLUGIN"].map(str::to_owned).to_vec();
        let rows = answer.resources.iter().map(|own| resource(own, answer.by_kubelet, now));
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        use Align::{Left, Right};
        out.push_str(&table(&rows, &[Left, Right, Right, Right, Left]));
        let mut head = vec!["RESOURCE", "DEVICE", "HEALTH", "NUMA", "CONTAINER"];
        head.extend(answer.by_kubelet.then_some("NODES"));
        let columns = head.len();
        let head = head.into_iter().map(str::to_owned).collect();
        let all =
            answer.resources.iter().flat_map(|own| own.devices.iter().map(|device| (&own.name, device)));
        let own = all.clone().map(|(resource, device)| row(resource, device, answer.by_kubelet));
        let rows: Vec<_> = std::iter::once(head).chain(own).collect();
        out.push_str(&format!("\n{}", table(&rows, &vec![Left; columns])));
        for (resource, device) in all.filter(|(_, device)| !device.problem.is_empty()) {
            let what = format!("{resource} {}: {}", device.id, device.problem);
            out.push_str(&format!("problem: {}\n", printable(&what)));
        }
    }
    for removed in &answer.removed {
        let since = removed.removed.as_ref().and_then(time::to_timestamp).map(|at| ago(at, now));
        out.push_str(&format!(
            "{} was dropped{}: its plugin did not come back\n",
            printable(&removed.name),
            since.map(|since| format!(" {since} ago")).unwrap_or_default()
        ));
    }
    out
}

fn resource(own: &DeviceResource, by_kubelet: bool, now: Timestamp) -> Vec<String> {
    let away = own.away_since.as_ref().and_then(time::to_timestamp);
    vec![
        printable(&own.name),
        own.capacity.to_string(),
        own.allocatable.map_or_else(|| "-".to_owned(), |devices| devices.to_string()),
        own.allocated.to_string(),
        match away {
            Some(at) => format!("away for {}", ago(at, now)),
            None if by_kubelet => "of the kubelet".to_owned(),
            None => "connected".to_owned(),
        },
    ]
}

fn row(resource: &str, device: &Device, by_kubelet: bool) -> Vec<String> {
    let numa: Vec<String> = device.numa.iter().map(ToString::to_string).collect();
    let dashed = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let mut row = vec![
        printable(resource),
        printable(&device.id),
        device.health.clone(),
        dashed(numa.join(",")),
        device.owner.as_ref().map_or_else(|| "-".to_owned(), owner),
    ];
    row.extend(by_kubelet.then(|| dashed(printable(&device.nodes.join(",")))));
    row
}

fn owner(owner: &DeviceOwner) -> String {
    match owner.name.as_str() {
        "" => format!("pod {} [{}]", owner.uid, owner.container),
        name => format!("{}/{name} [{}]", owner.namespace, owner.container),
    }
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(at).try_into().unwrap_or_default())
}

fn json(answer: &ListDevicesResponse) -> Value {
    let at = |time: &Option<prost_types::Timestamp>| {
        time.as_ref().and_then(time::to_timestamp).map(|time| time.to_string())
    };
    let owner = |own: &DeviceOwner| json!({ "uid": own.uid, "namespace": own.namespace, "name": own.name, "container": own.container });
    let device = |own: &Device| {
        json!({
            "id": own.id, "health": own.health, "numa": own.numa, "owner": own.owner.as_ref().map(owner),
            "nodes": own.nodes, "problem": own.problem,
        })
    };
    let resource = |own: &DeviceResource| {
        json!({
            "name": own.name, "capacity": own.capacity, "allocatable": own.allocatable, "allocated": own.allocated,
            "awaySince": at(&own.away_since), "devices": own.devices.iter().map(device).collect::<Vec<_>>(),
        })
    };
    json!({
        "resources": answer.resources.iter().map(resource).collect::<Vec<_>>(),
        "removed": answer.removed.iter()
            .map(|own| json!({ "name": own.name, "removed": at(&own.removed) })).collect::<Vec<_>>(),
        "problems": answer.problems,
        "byKubelet": answer.by_kubelet,
        "denials": answer.denials.iter().map(|own| json!({
            "uid": own.uid, "namespace": own.namespace, "name": own.name, "device": own.device,
            "audited": own.audited, "denied": own.denied,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use nodewarden_proto::nodewarden::v1::RemovedResource;

    use super::*;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    fn answer() -> ListDevicesResponse {
        let device = |id: &str, health: &str, numa: &[i64], name: Option<&str>| Device {
            id: id.into(),
            health: health.into(),
            numa: numa.to_vec(),
            owner: name.map(|name| DeviceOwner {
                uid: "u1".into(),
                namespace: "shop".into(),
                name: name.into(),
                container: "c".into(),
            }),
            nodes: name.map(|_| "/dev/x".to_owned()).into_iter().collect(),
            problem: String::new(),
        };
        let devices = vec![
            device("d0", "Healthy", &[0], Some("cart")),
            device("d1", "Unhealthy", &[], Some("")),
            device("d2", "Healthy", &[0, 1], None),
        ];
        let own = |name: &str, away_since, devices| DeviceResource {
            name: name.into(),
            capacity: 3,
            allocatable: Some(2),
            allocated: 2,
            away_since,
            devices,
        };
        ListDevicesResponse {
            resources: vec![own("a.b/c", None, devices), own("x.y/z", at(40), Vec::new())],
            removed: vec![RemovedResource { name: "o.p/q".into(), removed: at(70) }],
            problems: vec!["trouble".into()],
            by_kubelet: false,
            denials: Vec::new(),
        }
    }

    #[test]
    fn tables() {
        let now = Timestamp::from_second(100).expect("a time");
        let expected = "\
warning: trouble
RESOURCE  CAPACITY  ALLOCATABLE  ALLOCATED  PLUGIN
a.b/c            3            2          2  connected
x.y/z            3            2          2  away for 1m0s

RESOURCE  DEVICE  HEALTH     NUMA  CONTAINER
a.b/c     d0      Healthy    0     shop/cart [c]
a.b/c     d1      Unhealthy  -     pod u1 [c]
a.b/c     d2      Healthy    0,1   -
o.p/q was dropped 30s ago: its plugin did not come back
";
        assert_eq!(text(&answer(), now), expected);
        let none = text(&ListDevicesResponse::default(), now);
        assert_eq!(none, "No devices: no device plugin has registered.\n");
    }

    #[test]
    fn beside_a_kubelet_the_nodes_are_shown_and_what_is_wrong_with_them() {
        let mut own = ListDevicesResponse { by_kubelet: true, removed: Vec::new(), ..answer() };
        own.resources.truncate(1);
        own.resources[0].allocatable = None;
        own.resources[0].devices[0].problem = "/dev/x: it is gone".into();
        let expected = "\
warning: trouble
RESOURCE  CAPACITY  ALLOCATABLE  ALLOCATED  PLUGIN
a.b/c            3            -          2  of the kubelet

RESOURCE  DEVICE  HEALTH     NUMA  CONTAINER      NODES
a.b/c     d0      Healthy    0     shop/cart [c]  /dev/x
a.b/c     d1      Unhealthy  -     pod u1 [c]     /dev/x
a.b/c     d2      Healthy    0,1   -              -
problem: a.b/c d0: /dev/x: it is gone
";
        assert_eq!(text(&own, Timestamp::from_second(100).expect("a time")), expected);
    }

    #[test]
    fn as_json() {
        let json = json(&answer());
        assert_eq!(json["resources"][0]["devices"][0]["owner"]["name"], "cart");
        assert_eq!(json["resources"][0]["devices"][2]["owner"], Value::Null);
        assert_eq!(json["resources"][1]["awaySince"], "1970-01-01T00:00:40Z");
        assert_eq!((&json["removed"][0]["name"], &json["problems"][0]), (&"o.p/q".into(), &"trouble".into()));
    }
}
