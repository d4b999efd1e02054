//! A real Prometheus over a scrape that is repeated, with counters that grow.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// So many scrapes, so many seconds apart.
const SCRAPES: u64 = 41;
const INTERVAL: u64 = 30;
/// What Prometheus adds to each series.
const TARGET: &str = "instance=\"node-1:10350\",job=\"nodewarden\"";

/// A running Prometheus. Dropping it kills it.
pub struct Server {
    child: Child,
    address: SocketAddr,
    now: u64,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the Prometheus beside `promtool` with the samples of `scrape`; those of `counters` grow.
    pub fn start(promtool: &Path, scrape: &str, counters: &BTreeSet<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 60;
        let (text, data) = (folder.path().join("scrapes"), folder.path().join("data"));
        fs::write(&text, repeated(scrape, counters, now)).unwrap();
        let mut blocks = Command::new(promtool);
        let output = blocks.args(["tsdb", "create-blocks-from", "openmetrics"]).args([&text, &data]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let config = folder.path().join("prometheus.yml");
        fs::write(&config, "global: {}\n").unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(promtool.with_file_name("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { child, address, now, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.get("/-/ready").is_none_or(|(status, _)| status != 200) {
            assert!(Instant::now() < deadline, "Prometheus does not become ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// How many series an instant query leads to; the text says why Prometheus refuses it.
    pub fn count(&self, query: &str) -> Result<usize, String> {
        let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let path = format!("/api/v1/query?time={}&query={query}", self.now);
        let (_, body) = self.get(&path).ok_or("Prometheus does not answer")?;
        let answer: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        match answer["data"]["result"].as_array() {
            Some(result) => Ok(result.len()),
            None => Err(answer["error"].to_string()),
        }
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }
}

/// The samples of `scrape` at several times up to `now`, in OpenMetrics, each series once.
fn repeated(scrape: &str, counters: &BTreeSet<String>, now: u64) -> String {
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    let up = "up 1";
    for line in scrape.lines().chain([up]).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = match line.rfind('}') {
            Some(end) => (&line[..=end], &line[end + 1..]),
            None => line.split_once(' ').unwrap(),
        };
        let value: f64 = value.split_whitespace().next().unwrap().parse().unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let more = if labels == "}" { "" } else { "," };
        let series = format!("{name}{{{TARGET}{more}{labels}");
        if !seen.insert(series.clone()) {
            continue;
        }
        let grows =
            counters.contains(name) || ["_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end));
        for scrape in 0..SCRAPES {
            let value = if grows { value + (value + 1.0) * scrape as f64 } else { value };
            let time = now - (SCRAPES - 1 - scrape) * INTERVAL;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{series} {value} {time}");
        }
    }
    text.push_str("# EOF\n");
    text
}
