//! `nodewarden cpus`: the machine's CPUs and NUMA nodes, which container has what of them, and who else ran
//! there.

use std::collections::BTreeMap;

use clap::Args;
use nodewarden_machine::cpu_list::CpuList;
use nodewarden_proto::nodewarden::v1::{
    ContainerMemory, CpuPlace, DeviceOwner, ExclusiveCpu, GetCpuMapRequest, GetCpuMapResponse,
    ListExclusiveCpusRequest, NodeMemory,
};
use serde_json::{Value, json};

use super::events::Output;
use super::format::{bytes, printable};
use super::output::print;
use super::table::{Align, table};
use super::{CliError, SocketArg, client};

/// Print the CPUs and NUMA nodes, and which containers have them for themselves
#[derive(Debug, Args)]
#[command(after_help = "\
A CPU is reserved (never given to a container alone), shared (by all containers without CPUs of their own), or a
container's own. FOREIGN is the share of the time since it became exclusive in which others ran on it: kernel threads,
tasks of other cgroups, interrupts. LONGEST is the longest time that one of them had it at once in the last minute.

Examples:
  nodewarden cpus                        the map of sockets, NUMA nodes and cores
  nodewarden cpus --output json | jq '.cpus[] | select(.owners != [])'")]
pub struct CpusArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Text for people or one JSON object for programs
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: CpusArgs) -> Result<(), CliError> {
    let mut client = client::connect(&args.socket.socket).await?;
    let map = client.get_cpu_map(GetCpuMapRequest {}).await;
    let map = map.map_err(CliError::call("GetCpuMap"))?.into_inner();
    let used = client.list_exclusive_cpus(ListExclusiveCpusRequest {}).await;
    let used = used.map_err(CliError::call("ListExclusiveCpus"))?.into_inner();
    let by_cpu: BTreeMap<u32, ExclusiveCpu> = used.cpus.into_iter().map(|own| (own.cpu, own)).collect();
    let text = match args.output {
        Output::Text => text(&map, &by_cpu, &used.problem),
        Output::Json => format!("{}\n", json(&map, &by_cpu)),
    };
    Ok(print(&text)?)
}

/// CPUs one after the other of one core that are the same in everything that is shown.
struct Group<'a> {
    first: &'a CpuPlace,
    cpus: Vec<u32>,
}

fn groups<'a>(cpus: &'a [CpuPlace], used: &BTreeMap<u32, ExclusiveCpu>) -> Vec<Group<'a>> {
    let mut sorted: Vec<&CpuPlace> = cpus.iter().collect();
    sorted.sort_by_key(|own| (own.socket, own.node, own.core, own.cpu));
    let mut groups: Vec<Group<'_>> = Vec::new();
    for own in sorted {
        let same = |group: &&mut Group<'_>| {
            let first = group.first;
            let place = (first.socket, first.node) == (own.socket, own.node);
            let plain = first.owners.is_empty() && own.owners.is_empty() && !used.contains_key(&own.cpu);
            place && plain && (first.reserved, first.shared) == (own.reserved, own.shared)
        };
        match groups.last_mut().filter(same) {
            Some(group) => group.cpus.push(own.cpu),
            None => groups.push(Group { first: own, cpus: vec![own.cpu] }),
        }
    }
    groups
}

fn text(map: &GetCpuMapResponse, used: &BTreeMap<u32, ExclusiveCpu>, problem: &str) -> String {
    if map.cpus.is_empty() {
        return "No CPUs: the agent runs in mode observe, or keeps cgroups alone.\n".to_owned();
    }
    let mut out = format!(
        "Policies: CPU manager {}, memory manager {}, topology manager {}\n",
        map.cpu_policy, map.memory_policy, map.topology_policy
    );
    if !problem.is_empty() {
        out.push_str(&format!(
            "warning: who else runs on exclusive CPUs is not counted: {}\n",
            printable(problem)
        ));
    }
    let head = ["SOCKET", "NUMA", "CORE", "CPUS", "STATE", "CONTAINER", "FOREIGN", "LONGEST"];
    let rows = groups(&map.cpus, used).into_iter().map(|group| row(&group, used));
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect();
    use Align::{Left, Right};
    out.push_str(&format!("\n{}", table(&rows, &[Right, Right, Right, Left, Left, Left, Right, Left])));
    let head = ["NUMA", "MEMORY", "ALLOCATABLE", "CONTAINERS"].map(str::to_owned).to_vec();
    let rows = map.nodes.iter().map(|node| memory_row(node, &map.memory));
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    out.push_str(&format!("\n{}", table(&rows, &[Right, Right, Right, Left])));
    out
}

fn row(group: &Group<'_>, used: &BTreeMap<u32, ExclusiveCpu>) -> Vec<String> {
    let own = group.first;
    let state = match (own.owners.is_empty(), own.reserved, own.shared) {
        (false, _, _) => "exclusive",
        (true, true, true) => "reserved, shared",
        (true, true, false) => "reserved",
        (true, false, _) => "shared",
    };
    let use_of = used.get(&own.cpu).filter(|_| !own.owners.is_empty());
    vec![
        own.socket.to_string(),
        own.node.to_string(),
        if group.cpus.len() == 1 { own.core.to_string() } else { String::new() },
        group.cpus.iter().copied().collect::<CpuList>().to_string(),
        state.to_owned(),
        own.owners.iter().map(name).collect::<Vec<_>>().join(", "),
        use_of.and_then(foreign).unwrap_or_default(),
        use_of.map(longest).unwrap_or_default(),
    ]
}

fn memory_row(node: &NodeMemory, memory: &[ContainerMemory]) -> Vec<String> {
    let here = memory.iter().filter(|own| own.nodes.contains(&node.node));
    let shown = here.filter_map(|own| {
        let nodes = own.nodes.iter().copied().collect::<CpuList>();
        let with = if own.nodes.len() > 1 { format!(" (of nodes {nodes})") } else { String::new() };
        Some(format!(
            "{}: {} of {}{with}",
            name(own.owner.as_ref()?),
            bytes(own.bytes),
            printable(&own.resource)
        ))
    });
    let allocatable = (node.allocatable_bytes > 0).then(|| bytes(node.allocatable_bytes));
    vec![
        node.node.to_string(),
        bytes(node.total_bytes),
        allocatable.unwrap_or_else(|| "-".to_owned()),
        shown.collect::<Vec<_>>().join("; "),
    ]
}

/// `default/web (c)`, or the uid of a pod that is not known.
fn name(owner: &DeviceOwner) -> String {
    match owner.name.is_empty() {
        true => format!("pod {} ({})", printable(&owner.uid), printable(&owner.container)),
        false => format!(
            "{}/{} ({})",
            printable(&owner.namespace),
            printable(&owner.name),
            printable(&owner.container)
        ),
    }
}

/// The share of the time in which others than the owner ran; `None` while nothing was counted.
fn foreign(own: &ExclusiveCpu) -> Option<String> {
    let total: u64 = own.used.iter().map(|used| used.ns).sum();
    let others = own.used.iter().filter(|used| !matches!(used.by.as_str(), "owner" | "idle"));
    let others: u64 = others.map(|used| used.ns).sum();
    (total > 0).then(|| format!("{:.3} %", others as f64 / total as f64 * 100.0))
}

fn longest(own: &ExclusiveCpu) -> String {
    let Some(turn) = own.longest.iter().max_by_key(|turn| turn.ns) else { return String::new() };
    let who = if turn.name.is_empty() { turn.by.clone() } else { printable(&turn.name) };
    format!("{:.3} ms {who}", turn.ns as f64 / 1e6)
}

fn json(map: &GetCpuMapResponse, used: &BTreeMap<u32, ExclusiveCpu>) -> Value {
    let owner = |own: &DeviceOwner| json!({ "uid": own.uid, "namespace": own.namespace, "name": own.name, "container": own.container });
    let cpu = |own: &CpuPlace| {
        let counted = used.get(&own.cpu);
        let times = counted.map(|own| {
            let each =
                own.used.iter().map(|used| (used.by.clone(), json!({ "ns": used.ns, "count": used.count })));
            each.collect::<serde_json::Map<_, _>>()
        });
        let longest = counted.map(|own| {
            let turn = |turn: &nodewarden_proto::nodewarden::v1::CpuTurn| {
                json!({ "by": turn.by, "ns": turn.ns, "pid": turn.pid, "name": turn.name })
            };
            own.longest.iter().map(turn).collect::<Vec<_>>()
        });
        json!({
            "cpu": own.cpu,
            "core": own.core,
            "socket": own.socket,
            "node": own.node,
            "cache": own.cache,
            "reserved": own.reserved,
            "shared": own.shared,
            "owners": own.owners.iter().map(owner).collect::<Vec<_>>(),
            "used": times,
            "longest": longest,
        })
    };
    let memory = |own: &ContainerMemory| json!({ "owner": own.owner.as_ref().map(owner), "resource": own.resource, "bytes": own.bytes, "nodes": own.nodes });
    let node = |own: &NodeMemory| json!({ "node": own.node, "totalBytes": own.total_bytes, "allocatableBytes": own.allocatable_bytes });
    json!({
        "cpuManagerPolicy": map.cpu_policy,
        "memoryManagerPolicy": map.memory_policy,
        "topologyManagerPolicy": map.topology_policy,
        "cpus": map.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "nodes": map.nodes.iter().map(node).collect::<Vec<_>>(),
        "memory": map.memory.iter().map(memory).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use nodewarden_proto::nodewarden::v1::{CpuTurn, CpuUse};

    use super::*;

    fn owner() -> DeviceOwner {
        DeviceOwner { uid: "u".into(), namespace: "ns".into(), name: "web".into(), container: "c".into() }
    }

    fn map() -> GetCpuMapResponse {
        let place = |cpu: u32, owned: bool| CpuPlace {
            cpu,
            core: cpu / 2 * 2,
            socket: cpu / 4,
            node: cpu / 4,
            cache: 0,
            reserved: cpu == 0,
            shared: !owned,
            owners: if owned { vec![owner()] } else { Vec::new() },
        };
        let node = |node| NodeMemory { node, total_bytes: 8 << 30, allocatable_bytes: 7 << 30 };
        GetCpuMapResponse {
            cpu_policy: "static".into(),
            memory_policy: "Static".into(),
            topology_policy: "restricted".into(),
            cpus: (0..8).map(|cpu| place(cpu, cpu == 2)).collect(),
            nodes: vec![node(0), node(1)],
            memory: vec![ContainerMemory {
                owner: Some(owner()),
                resource: "memory".into(),
                bytes: 1 << 30,
                nodes: vec![0],
            }],
        }
    }

    fn used() -> BTreeMap<u32, ExclusiveCpu> {
        let of = |by: &str, ns| CpuUse { by: by.into(), ns, count: 1 };
        let own = ExclusiveCpu {
            cpu: 2,
            used: vec![of("owner", 990_000), of("idle", 9_000), of("softirq", 1_000)],
            longest: vec![CpuTurn { by: "softirq".into(), ns: 1_000, pid: 0, name: "RCU".into() }],
            ..ExclusiveCpu::default()
        };
        [(2, own)].into()
    }

    #[test]
    fn the_map_has_a_line_for_each_run_of_equal_cpus_and_each_exclusive_one() {
        let shown = text(&map(), &used(), "");
        let lines: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.contains(&"0 0 0 0 reserved, shared".to_owned()), "{shown}");
        assert!(lines.contains(&"0 0 2 2 exclusive ns/web (c) 0.100 % 0.001 ms RCU".to_owned()), "{shown}");
        assert!(lines.contains(&"1 1 4-7 shared".to_owned()), "{shown}");
        assert!(shown.contains("ns/web (c): 1"), "{shown}");
        assert!(text(&GetCpuMapResponse::default(), &BTreeMap::new(), "").starts_with("No CPUs"));
    }

    #[test]
    fn json_has_every_cpu_with_its_owner_and_use() {
        let value = json(&map(), &used());
        assert_eq!(value["cpus"].as_array().map(Vec::len), Some(8));
        assert_eq!(value["cpus"][2]["owners"][0]["name"], "web");
        assert_eq!(value["cpus"][2]["used"]["softirq"]["ns"], 1_000);
        assert_eq!(value["memory"][0]["nodes"], json!([0]));
    }
}
