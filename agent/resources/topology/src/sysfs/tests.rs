//! Trees like those of real machines in a temporary directory, and the tree of this machine.

use std::fs;

use super::*;

/// A tree with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
    root
}

/// Files of one CPU.
fn cpu(number: u32, socket: &str, siblings: &str, cache: Option<&str>) -> Vec<(String, String)> {
    let dir = format!("cpu/cpu{number}");
    let mut files = vec![
        (format!("{dir}/topology/physical_package_id"), socket.to_owned()),
        (format!("{dir}/topology/thread_siblings_list"), siblings.to_owned()),
        (format!("{dir}/cache/index0/level"), "1".to_owned()),
        (format!("{dir}/cache/index0/shared_cpu_list"), siblings.to_owned()),
    ];
    if let Some(cache) = cache {
        files.push((format!("{dir}/cache/index1/level"), "3".to_owned()));
        files.push((format!("{dir}/cache/index1/shared_cpu_list"), cache.to_owned()));
    }
    files
}

fn read_files(files: &[(String, String)]) -> Result<Machine, SysfsError> {
    let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    read(tree(&files).path())
}

fn file(path: &str, content: &str) -> (String, String) {
    (path.to_owned(), content.to_owned())
}

/// Number, core, socket, node and cache of each CPU.
fn rows(machine: &Machine) -> Vec<[u32; 5]> {
    let cpus = machine.cpus.all().iter().filter_map(|cpu| machine.cpus.cpu(cpu));
    cpus.map(|cpu| [cpu.cpu, cpu.core, cpu.socket, cpu.node, cpu.cache]).collect()
}

#[test]
fn two_sockets_with_threads_an_offline_cpu_and_two_caches_each() {
    // CPU 4 is offline: the sibling of CPU 0.
    let mut files = vec![
        file("cpu/online", "0-3,5-7"),
        file("node/online", "0,2"),
        file("node/node0/cpulist", "0-1,5"),
        file("node/node0/meminfo", "Node 0 MemTotal:       16384 kB\nNode 0 MemFree:  1 kB"),
        file("node/node0/distance", "10 21"),
        file("node/node0/hugepages/hugepages-2048kB/nr_hugepages", "3"),
        file("node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "0"),
        file("node/node2/cpulist", "2-3,6-7"),
        file("node/node2/meminfo", "Node 2 MemTotal:       8192 kB"),
        file("node/node2/distance", "21 10"),
    ];
    files.extend(cpu(0, "0", "0", Some("0")));
    files.extend(cpu(1, "0", "1,5", Some("1,5")));
    files.extend(cpu(5, "0", "1,5", Some("1,5")));
    for (number, siblings) in [(2, "2,6"), (3, "3,7"), (6, "2,6"), (7, "3,7")] {
        files.extend(cpu(number, "1", siblings, Some("2-3,6-7")));
    }
    let machine = read_files(&files).unwrap();
    assert_eq!(
        rows(&machine),
        [
            [0, 0, 0, 0, 0],
            [1, 1, 0, 0, 1],
            [2, 2, 1, 2, 2],
            [3, 3, 1, 2, 2],
            [5, 1, 0, 0, 1],
            [6, 2, 1, 2, 2],
            [7, 3, 1, 2, 2]
        ]
    );
    let pages = |size_kib, count| HugePages { size_kib, count };
    assert_eq!(machine.nodes[0].huge_pages, [pages(2048, 3), pages(1_048_576, 0)]);
    assert_eq!((machine.nodes[0].memory_bytes, machine.nodes[1].id), (16 << 20, 2));
    assert_eq!(machine.nodes[1].distances, [21, 10]);
}

#[test]
fn no_threads_no_cache_and_no_nodes() {
    let mut files = vec![file("cpu/online", "0-1")];
    files.extend(cpu(0, "-1", "0", None));
    files.extend(cpu(1, "-1", "1", None));
    let machine = read_files(&files).unwrap();
    assert_eq!(rows(&machine), [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]]);
    assert_eq!((machine.nodes.len(), machine.cpus.caches().len()), (1, 1));
}

#[test]
fn nodes_without_cpus_are_kept_and_two_nodes_of_a_socket_stay_apart() {
    let mut files = vec![file("cpu/online", "0-1"), file("node/online", "0-2")];
    for (node, cpus) in [(0, "0"), (1, "1"), (2, "")] {
        files.push(file(&format!("node/node{node}/cpulist"), cpus));
    }
    files.extend(cpu(0, "0", "0", None));
    files.extend(cpu(1, "0", "1", None));
    let machine = read_files(&files).unwrap();
    assert_eq!(rows(&machine), [[0, 0, 0, 0, 0], [1, 1, 0, 1, 1]]);
    assert_eq!((machine.nodes.len(), machine.cpus.nodes().len(), machine.cpus.sockets().len()), (3, 2, 1));
}

#[test]
fn what_cannot_be_read_is_named() {
    let broken = |path: &str, content: &str| {
        let mut files =
            vec![file("cpu/online", "0"), file("node/online", "0"), file("node/node0/cpulist", "0")];
        files.extend(cpu(0, "0", "0", None));
        files.retain(|(name, _)| name != path);
        files.push(file(path, content));
        read_files(&files).unwrap_err().to_string()
    };
    assert!(broken("cpu/online", "zero").ends_with("cpu/online: \"zero\" is not a list of CPUs or nodes"));
    assert!(broken("cpu/cpu0/topology/physical_package_id", "x").contains("\"x\" is not a number"));
    assert!(broken("node/node0/distance", "10 far").contains("is not a list of distances"));
    assert!(broken("node/online", "100").starts_with("NUMA node 100: only numbers up to 63"));
    let nothing = tempfile::tempdir().unwrap();
    assert!(read(nothing.path()).unwrap_err().to_string().contains("cpu/online"));
}

#[test]
fn this_machine_agrees_with_itself() {
    let machine = read(Path::new("/sys/devices/system")).unwrap();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    assert_eq!(machine.cpus.all().to_string(), online.trim());
    for units in [machine.cpus.cores(), machine.cpus.sockets(), machine.cpus.nodes(), machine.cpus.caches()] {
        let cpus: usize = units.iter().map(|unit| unit.cpus.len()).sum();
        assert_eq!(cpus, machine.cpus.all().len(), "every CPU is in one unit of each kind");
    }
    let numbers: Vec<u32> = machine.nodes.iter().map(|node| node.id).collect();
    assert!(machine.cpus.nodes().iter().all(|node| numbers.contains(&node.id)));
}
