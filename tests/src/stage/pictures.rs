//! `nodewarden-stage pictures`: pictures of the page of a real agent, with pods on a stand-in for a runtime
//! that work, wait, fail their probes and need more memory than they may have. Names are examples; nothing of
//! this machine is in view.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::e2e::page::fixture::Page;
use crate::e2e::pods::manifest::pod;
use crate::fixture::{Agent, AgentOptions, Layout, Manage, RuntimeFaults, StandInRuntime, TestRoot};
use crate::harness::{Context, Failure};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory for the pictures
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
}

/// The namespace of the pods, which is also typed into the filter: pods of others on this machine are not
/// shown.
const NAMESPACE: &str = "shop";
/// How long the pods run before the picture: until the one without memory has been started again.
const REST: Duration = Duration::from_secs(25);
/// The most bytes of a picture.
const LARGEST: usize = 150_000;
const SIZE: (u32, u32) = (1200, 640);

/// A pod: how many rounds of a loop it makes before it sleeps, how many bytes it has, its requests and
/// limits, and whether it is ready.
struct Example {
    name: &'static str,
    rounds: u32,
    bytes: u64,
    resources: Value,
    ready: bool,
}

/// Runs the command line.
pub fn main(agent: &Path, args: &Args) -> ExitCode {
    crate::harness::clean_up_when_interrupted();
    match take(agent, &args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("nodewarden-stage pictures: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn take(agent: &Path, folder: &Path) -> Result<(), Failure> {
    let own = std::env::current_exe().map_err(Failure::file("own binary"))?;
    let context = Context::new(agent.to_owned(), own, "pictures", std::process::id(), 1, Layout::detect()?)
        .map_err(Failure::file(std::env::temp_dir()))?;
    let done = stage(&context, folder);
    if done.is_err() {
        context.temp.print_logs(40);
    }
    let problems = context.problems().take();
    done?;
    if problems.is_empty() { Ok(()) } else { Err(Failure::Unexpected(problems.join("\n"))) }
}

/// Starts everything, waits, and takes the pictures.
fn stage(context: &Context, folder: &Path) -> Result<(), Failure> {
    // Dropped in the order in which they are here, from below: an agent would start the pods again.
    let root = TestRoot::new(context)?;
    let runtime = StandInRuntime::start(context, "pictures", RuntimeFaults::default())?;
    let [manifests, logs] = ["manifests", "pod-logs"].map(|kind| context.temp.join(kind));
    std::fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
    let manage = Manage {
        manifests: manifests.clone(),
        root: root.group().path().to_owned(),
        driver: "cgroupfs",
        reconcile_seconds: 60,
        kubelet: format!("podLogsDir: {}\nfailSwapOn: false\n", logs.display()),
        section: "nodeName: node-1\n".to_owned(),
    };
    let options = AgentOptions {
        runtime: Some(runtime.socket().to_owned()),
        manage: Some(manage),
        ..AgentOptions::default()
    };
    let agent = Agent::start(context, &options)?;
    for example in examples() {
        let path = manifests.join(format!("{}.json", example.name));
        let text = example.manifest(agent.http().port()).to_string();
        std::fs::write(&path, text).map_err(Failure::file(&path))?;
    }
    let wanted = examples().len() as u64;
    runtime.wait_until(context.patiently(60), "all containers run", |notes| notes.started >= wanted)?;
    let mut page = Page::open(context, &agent)?;
    std::thread::sleep(REST);
    page.go("pods")?;
    page.browser.evaluate(&format!(
        "(() => {{ const own = document.querySelector('#view-pods input'); own.value = '{NAMESPACE}'; \
         own.dispatchEvent(new Event('input')); }})()"
    ))?;
    for (name, dark) in [("page", false), ("page-dark", true)] {
        page.browser.appear(SIZE.0, SIZE.1, dark)?;
        std::thread::sleep(Duration::from_secs(2));
        save(&page.browser.picture()?, &folder.join(format!("{name}.png")))?;
    }
    page.has_no_problems()
}

/// Writes a picture in base64 as what it is.
fn save(picture: &str, path: &Path) -> Result<(), Failure> {
    let bytes =
        STANDARD.decode(picture).map_err(|error| Failure::Unexpected(format!("the picture: {error}")))?;
    let size = bytes.len();
    if size > LARGEST {
        return Err(Failure::Unexpected(format!("{} would have {size} bytes", path.display())));
    }
    std::fs::write(path, bytes).map_err(Failure::file(path))
}

fn examples() -> Vec<Example> {
    let resources = |cpu: &str, memory: &str, of_cpu: &str, of_memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": of_cpu, "memory": of_memory}});
    let example = |name, rounds, mib: u64, resources| Example {
        name,
        rounds,
        bytes: mib << 20,
        resources,
        ready: true,
    };
    vec![
        example("cart-6d4b9c7f58-x2k8p", 60_000, 20, resources("250m", "32Mi", "1", "64Mi")),
        example("checkout-7c5f6d9b4-q9w7z", 30_000, 12, resources("100m", "32Mi", "150m", "48Mi")),
        example("search-0", 110_000, 44, resources("500m", "64Mi", "1", "96Mi")),
        example("postgres-0", 15_000, 50, resources("200m", "64Mi", "200m", "64Mi")),
        example("redis-0", 5_000, 9, resources("100m", "32Mi", "100m", "32Mi")),
        Example {
            ready: false,
            ..example("payment-5b8d7c9f6-tt4mn", 8_000, 6, resources("50m", "16Mi", "100m", "32Mi"))
        },
        // More than it may have.
        example("recommend-84f6c5d7-k2vzs", 5_000, 48, resources("50m", "16Mi", "500m", "24Mi")),
        example("mail-0", 2_000, 4, json!({"requests": {"cpu": "10m", "memory": "16Mi"}})),
        example("report-28391-xk2lw", 40_000, 10, json!({})),
        example("thumbnails-hx5rk", 20_000, 16, json!({})),
    ]
}

impl Example {
    /// On the machine's network; its probe asks the agent, or no server.
    fn manifest(&self, port: u16) -> Value {
        // The value of a variable stays in memory, as often as the shell copies it.
        let hold = format!("x=$(head -c {} /dev/zero | tr '\\0' x)", self.bytes / 2);
        let work = format!("i=0; while [ $i -lt {} ]; do i=$((i+1)); done; sleep 0.4", self.rounds);
        let port = if self.ready { port } else { 1 };
        let container = json!({
            "name": "main",
            "image": "registry.example/shop:1.8",
            "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", format!("{hold}; while :; do {work}; done")],
            "resources": self.resources,
            "readinessProbe": {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 2},
        });
        let mut own = pod(self.name, json!({"containers": [container]}));
        own["metadata"]["namespace"] = NAMESPACE.into();
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_are_valid_pods() {
        for example in examples() {
            let pods = nodewarden_manifest::manifest::parse(&example.manifest(10_350).to_string());
            assert!(!pods.is_empty() && pods.into_iter().all(|pod| pod.is_ok()), "{}", example.name);
        }
    }
}
