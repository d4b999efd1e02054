//! The fixture for tests of garbage collection: a small disk, containerd with its images on it, a proxy in
//! front of it, and an agent that reaches only the proxy.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::manifest::{STAY, pod, shell};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{
    Containerd, CriProxy, Layer, LayeredImage, PAUSE_IMAGE, Sample, SmallDisk, Space, busybox, parse_samples,
};
use crate::harness::{Context, Failure};
use crate::{ensure, ensure_eq};

/// Bytes of the disk; fewer on an emulated machine, where the disk is in the guest's memory.
const DISK: [u64; 2] = [160 * MIB, 96 * MIB];
/// Bytes of an image's own layer. It takes twice as much of the disk: packed and unpacked.
pub const OWN_LAYER: [u64; 2] = [3 * MIB, 2 * MIB];
/// Number of shared layers: image `n` has the shared layer `n % SHARED`.
const SHARED: u64 = 3;

/// The disk, containerd on it, and the proxy: everything but the agent.
pub struct GcRuntime<'c> {
    pub context: &'c Context,
    // Dropped in this order: the disk last.
    pub proxy: CriProxy,
    pub disk: SmallDisk,
    socket: PathBuf,
}

impl<'c> GcRuntime<'c> {
    pub fn new(context: &'c Context) -> Result<(Self, Containerd), Failure> {
        let root = Containerd::root(context);
        let disk = SmallDisk::mount(&root, &context.temp.join("disk.img"), context.scaled(DISK))
            .map_err(Failure::file(&root))?;
        println!("images lie on {}", disk.kind());
        let containerd = Containerd::private(context)?;
        let socket = context.temp.join("proxy.sock");
        let proxy = CriProxy::start(containerd.socket(), &socket, &root).map_err(Failure::file(&socket))?;
        Ok((Self { context, proxy, disk, socket }, containerd))
    }

    /// The disk's size and use.
    pub fn space(&self) -> Result<Space, Failure> {
        self.disk.space().map_err(Failure::file(self.disk.path()))
    }

    /// The proxy's socket, at which the agent reaches the runtime.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// The archive of image number `n`, written by the first call.
    pub fn archive(&self, n: u64) -> Result<PathBuf, Failure> {
        let path = self.context.temp.join(&format!("image-{n}.tar"));
        if !path.exists() {
            let own = usize::try_from(self.context.scaled(OWN_LAYER)).unwrap_or(0);
            let shared = Layer { number: 1_000_000 + n % SHARED, bytes: own / 2 };
            let layers = vec![shared, Layer { number: n, bytes: own }];
            let image = LayeredImage { name: image(n), layers };
            image.write(&busybox(), &path).map_err(Failure::file(&path))?;
        }
        Ok(path)
    }

    /// Imports image number `n`.
    pub fn import(&self, containerd: &Containerd, n: u64) -> Result<(), Failure> {
        Ok(containerd.import(&self.archive(n)?)?)
    }
}

/// The name of image number `n`.
pub fn image(n: u64) -> String {
    format!("nodewarden.test/gc-{n}:1")
}

/// A pod with this image that keeps running.
pub fn running_pod(name: &str, image: &str) -> Value {
    pod(name, json!({ "containers": [shell("c", STAY, json!({ "image": image }))] }))
}

/// The runtime, and an agent that uses it.
pub struct GcFixture<'c> {
    // Dropped in this order: agent and containerd before disk and proxy.
    pub pods: PodFixture<'c>,
    pub runtime: GcRuntime<'c>,
}

impl<'c> GcFixture<'c> {
    /// `thresholds` are the high and the low one in percent; `kubelet` and `section` are further lines of the
    /// kubelet's and of nodewarden's configuration.
    pub fn new(
        context: &'c Context,
        thresholds: [u64; 2],
        kubelet: &str,
        section: &str,
    ) -> Result<Self, Failure> {
        let (runtime, containerd) = GcRuntime::new(context)?;
        let [high, low] = thresholds;
        let kubelet = format!(
            "imageGCHighThresholdPercent: {high}\nimageGCLowThresholdPercent: {low}\nimageMinimumGCAge: 1s\n{kubelet}"
        );
        let pods = PodFixture::with_runtime(context, containerd, runtime.socket(), &kubelet, section)?;
        Ok(Self { pods, runtime })
    }

    /// Imports image number `n`.
    pub fn import(&self, n: u64) -> Result<(), Failure> {
        self.runtime.import(self.pods.containerd(), n)
    }

    /// Imports images from number `first` on until `percent` of the disk is used. Returns the next number.
    pub fn import_to(&self, first: u64, percent: f64) -> Result<u64, Failure> {
        let mut n = first;
        while self.runtime.space()?.percent() < percent {
            self.import(n)?;
            n += 1;
        }
        Ok(n)
    }

    /// Ids of all images in the runtime.
    pub fn images(&self) -> Result<BTreeSet<String>, Failure> {
        Ok(self.pods.cri().list_images()?.into_iter().map(|image| image.id).collect())
    }

    /// The id of an image.
    pub fn id(&self, name: &str) -> Result<String, Failure> {
        let id = self.pods.cri().image_id(name)?;
        id.ok_or_else(|| Failure::Unexpected(format!("there is no image {name}")))
    }

    /// Starts pods that keep running, each with the image of its number, and waits until they are up. From
    /// then on the proxy reports a removal of these images as wrong.
    pub fn start_pods(&mut self, numbers: &[u64]) -> Result<Vec<RunningPod>, Failure> {
        for n in numbers {
            self.pods.put([running_pod(&format!("pod{n}"), &image(*n))])?;
        }
        let alive = numbers.iter().map(|n| {
            let pod = self.pods.wait_up(&format!("pod{n}"))?;
            self.runtime.proxy.hold(&image(*n));
            let c = pod.container("c")?;
            Ok(RunningPod {
                name: pod.name().to_owned(),
                container: c.id().to_owned(),
                image: self.id(&image(*n))?,
            })
        });
        alive.collect()
    }

    /// Imports the images, then starts the pods as [`Self::start_pods`] does.
    pub fn pods_after_import(&mut self, numbers: &[u64]) -> Result<Vec<RunningPod>, Failure> {
        numbers.iter().try_for_each(|n| self.import(*n))?;
        self.start_pods(numbers)
    }

    /// Checks that these pods run unchanged with their images, and that the agent never tried to remove an
    /// image in use or two at the same time.
    pub fn check_unharmed(&self, pods: &[RunningPod]) -> Result<(), Failure> {
        let images = self.images()?;
        for alive in pods {
            let pod = self.pods.wait_up(&alive.name)?;
            let c = pod.container("c")?;
            ensure_eq!((c.id(), c.restarts()), (alive.container.as_str(), 0), "container of {}", alive.name);
            ensure!(images.contains(&alive.image), "the image of {} is gone", alive.name);
        }
        let pause = self.id(PAUSE_IMAGE)?;
        ensure!(
            self.runtime.proxy.removals().iter().all(|one| one.id != pause),
            "a removal of the sandboxes' image was requested"
        );
        ensure!(self.runtime.proxy.most_at_once() <= 1, "several images were removed at the same time");
        let violations = self.runtime.proxy.violations();
        ensure!(violations.is_empty(), "removals of images in use: {}", violations.join("; "));
        Ok(())
    }

    /// Waits until at most `percent` of the disk is used and removals have stopped.
    pub fn wait_settled_below(&self, percent: u64, seconds: u64) -> Result<(), Failure> {
        let mut last = (0, Instant::now());
        let waited = eventually(self.runtime.context.patiently(seconds), "", || {
            let removals = self.runtime.proxy.removals().len();
            if removals != last.0 {
                last = (removals, Instant::now());
            }
            let quiet = last.1.elapsed() >= Duration::from_secs(2) * self.runtime.context.patience;
            Ok((quiet && self.runtime.space()?.above(percent) <= 0).then_some(()))
        });
        waited.map_err(|failure| {
            let (now, removals) = (self.runtime.space().map(Space::percent), last.0);
            Failure::Unexpected(format!(
                "the use did not settle below {percent} %{failure}: {now:?} after {removals} removals"
            ))
        })
    }

    /// The samples of `/metrics`.
    pub fn samples(&self) -> Result<Vec<Sample>, Failure> {
        let answer = self.pods.agent()?.get("/metrics")?;
        ensure_eq!(answer.status, 200, "GET /metrics");
        Ok(parse_samples(&answer.text()))
    }

    /// The sum of a metric's samples with this label (any, if empty).
    pub fn metric(&self, name: &str, label: (&str, &str)) -> Result<f64, Failure> {
        let samples = self.samples()?;
        let wanted = samples.iter().filter(|sample| {
            sample.name == name
                && (label.0.is_empty() || sample.labels.get(label.0).is_some_and(|value| value == label.1))
        });
        Ok(wanted.map(|sample| sample.value).sum())
    }

    /// Output of `nodewarden events` for the last ten minutes.
    pub fn events(&self) -> Result<String, Failure> {
        self.output_of(&["events", "--since", "10m", "--no-follow"])
    }

    /// Standard output of a command that must succeed.
    pub fn output_of(&self, command: &[&str]) -> Result<String, Failure> {
        let output = self.pods.command(command)?;
        ensure!(output.status.success(), "{command:?}: {}: {}", output.status, output_text(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Standard output and standard error of a command.
pub fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A running pod that must not be harmed.
#[derive(Debug, Clone)]
pub struct RunningPod {
    pub name: String,
    pub container: String,
    /// The image's id.
    pub image: String,
}
