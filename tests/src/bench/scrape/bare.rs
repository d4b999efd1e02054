//! What a scrape cannot do without: reading figures of each cgroup, and sending the text. Both alone, in this
//! process.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::fixture::{Group, Scraper};
use crate::harness::Failure;

/// How often each is done.
const TIMES: usize = 20;
/// The files without which a container's figures are not new: its CPU time and its memory.
const FILES: [(&str, &[&str]); 2] = [
    ("cpuacct", &["cpuacct.usage", "cpu.stat"]),
    ("memory", &["memory.usage_in_bytes", "memory.current", "memory.stat"]),
];

/// Milliseconds that it takes to get this text from a server that has nothing to do but send it.
///
/// # Errors
/// The server cannot be started, or does not answer.
pub fn sending(text: &[u8]) -> Result<Vec<f64>, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::file("bind"))?;
    let address = listener.local_addr().map_err(Failure::file("getsockname"))?;
    std::thread::scope(|scope| {
        let server = scope.spawn(move || (0..=TIMES).try_for_each(|_| answer(&listener, text)));
        let mut scraper = Scraper::default();
        // The first one is not measured: the client gets its memory.
        get(&mut scraper, address)?;
        let times = (0..TIMES).map(|_| get(&mut scraper, address)).collect::<Result<Vec<_>, _>>()?;
        let served = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served.map_err(Failure::file("send"))?;
        Ok(times)
    })
}

fn get(scraper: &mut Scraper, address: SocketAddr) -> Result<f64, Failure> {
    Ok(scraper.get(address, "/", Duration::from_secs(10))?.took.as_secs_f64() * 1e3)
}

fn answer(listener: &TcpListener, text: &[u8]) -> std::io::Result<()> {
    let (stream, _) = listener.accept()?;
    let request = BufReader::new(&stream).lines();
    request.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
    (&stream).write_all(head.as_bytes())?;
    (&stream).write_all(text)
}

/// Milliseconds that it takes to read the files of these cgroups, which are kept open.
///
/// # Errors
/// One cannot be opened or read.
pub fn reading(groups: &[Group]) -> Result<Vec<f64>, Failure> {
    let files: Vec<File> =
        groups.iter().map(open).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let mut buffer = [0; 8192];
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        for file in &files {
            file.read_at(&mut buffer, 0).map_err(Failure::file("pread"))?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// The files of a cgroup that this kernel has.
fn open(group: &Group) -> Result<Vec<File>, Failure> {
    let mut files = Vec::new();
    for (controller, names) in FILES {
        // v2 has no controller of this name, and CPU time without one.
        let hierarchy = group.hierarchy(controller).or_else(|_| group.hierarchy("memory"))?;
        let paths = names.iter().map(|name| group.directory(hierarchy).join(name));
        for path in paths.filter(|path| path.exists()) {
            files.push(File::open(&path).map_err(Failure::file(&path))?);
        }
    }
    Ok(files)
}
