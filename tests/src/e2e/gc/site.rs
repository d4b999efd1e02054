//! What tests of garbage collection stand on: a small disk, containerd with its images on it, the proxy before it, and
//! an agent that sees only the proxy.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::e2e::pods::manifest::{STAY, pod, shell};
use crate::e2e::pods::stage::Stage;
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{
    Containerd, CriProxy, Layer, LayeredImage, PAUSE_IMAGE, Sample, SmallDisk, Space, busybox, parse_samples,
};
use crate::harness::{Context, Failure};
use crate::{ensure, ensure_eq};

/// How large the disk is; smaller where it is a guest's memory.
const DISK: [u64; 2] = [160 * MIB, 96 * MIB];
/// Of an image's own layer; it lies on the disk twice, as it came and unpacked.
pub const OWN: [u64; 2] = [3 * MIB, 2 * MIB];
/// Layers that images have in common, by turns.
const SHARED: u64 = 3;

/// The disk, containerd on it, and the proxy: all but the agent.
pub struct Ground<'c> {
    pub context: &'c Context,
    // Dropped in this order: the disk last.
    pub proxy: CriProxy,
    pub disk: SmallDisk,
    socket: PathBuf,
}

impl<'c> Ground<'c> {
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

    pub fn space(&self) -> Result<Space, Failure> {
        self.disk.space().map_err(Failure::file(self.disk.path()))
    }

    /// Where the agent finds the runtime.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// The archive of image number `n`; made once.
    pub fn archive(&self, n: u64) -> Result<PathBuf, Failure> {
        let path = self.context.temp.join(&format!("image-{n}.tar"));
        if !path.exists() {
            let own = usize::try_from(self.context.scaled(OWN)).unwrap_or(0);
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

/// A pod called `name` that stays, of an image.
pub fn stays(name: &str, image: &str) -> Value {
    pod(name, json!({ "containers": [shell("c", STAY, json!({ "image": image }))] }))
}

/// All of it with an agent.
pub struct Site<'c> {
    // The agent and containerd end before what they stand on.
    pub stage: Stage<'c>,
    pub ground: Ground<'c>,
}

impl<'c> Site<'c> {
    /// `thresholds` are the high and the low one; `kubelet` and `section` more lines.
    pub fn new(
        context: &'c Context,
        thresholds: [u64; 2],
        kubelet: &str,
        section: &str,
    ) -> Result<Self, Failure> {
        let (ground, containerd) = Ground::new(context)?;
        let [high, low] = thresholds;
        let kubelet = format!(
            "imageGCHighThresholdPercent: {high}\nimageGCLowThresholdPercent: {low}\nimageMinimumGCAge: 1s\n{kubelet}"
        );
        let stage = Stage::on(context, containerd, ground.socket(), &kubelet, section)?;
        Ok(Self { stage, ground })
    }

    pub fn import(&self, n: u64) -> Result<(), Failure> {
        self.ground.import(self.stage.containerd(), n)
    }

    /// Imports images from `first` on until the disk is so full. Returns the next number.
    pub fn import_to(&self, first: u64, percent: f64) -> Result<u64, Failure> {
        let mut n = first;
        while self.ground.space()?.percent() < percent {
            self.import(n)?;
            n += 1;
        }
        Ok(n)
    }

    /// Ids of all images that there are.
    pub fn images(&self) -> Result<BTreeSet<String>, Failure> {
        Ok(self.stage.cri().list_images()?.into_iter().map(|image| image.id).collect())
    }

    pub fn id(&self, name: &str) -> Result<String, Failure> {
        let id = self.stage.cri().image_id(name)?;
        id.ok_or_else(|| Failure::Unexpected(format!("there is no image {name}")))
    }

    /// Pods that stay, each of the image of its number: up, and their images never to be removed.
    pub fn pods(&mut self, numbers: &[u64]) -> Result<Vec<Alive>, Failure> {
        for n in numbers {
            self.stage.put([stays(&format!("pod{n}"), &image(*n))])?;
        }
        let alive = numbers.iter().map(|n| {
            let pod = self.stage.up(&format!("pod{n}"))?;
            self.ground.proxy.hold(&image(*n));
            let c = pod.container("c")?;
            Ok(Alive {
                name: pod.name().to_owned(),
                container: c.id().to_owned(),
                image: self.id(&image(*n))?,
            })
        });
        alive.collect()
    }

    /// The same with the images imported first.
    pub fn pods_after_import(&mut self, numbers: &[u64]) -> Result<Vec<Alive>, Failure> {
        numbers.iter().try_for_each(|n| self.import(*n))?;
        self.pods(numbers)
    }

    /// Pods run as they did, with their images; nothing in use was ever to be removed, and never two at once.
    pub fn all_well(&self, pods: &[Alive]) -> Result<(), Failure> {
        let images = self.images()?;
        for alive in pods {
            let pod = self.stage.up(&alive.name)?;
            let c = pod.container("c")?;
            ensure_eq!((c.id(), c.restarts()), (alive.container.as_str(), 0), "container of {}", alive.name);
            ensure!(images.contains(&alive.image), "the image of {} is gone", alive.name);
        }
        let pause = self.id(PAUSE_IMAGE)?;
        ensure!(self.ground.proxy.removals().iter().all(|one| one.id != pause), "sandboxes' image was to go");
        ensure!(self.ground.proxy.most_at_once() <= 1, "several images were removed at once");
        let wrongs = self.ground.proxy.violations();
        ensure!(wrongs.is_empty(), "removals of what is in use: {}", wrongs.join("; "));
        Ok(())
    }

    /// Waits until the use is at or below so many percent and nothing is removed any more.
    pub fn rests_below(&self, percent: u64, seconds: u64) -> Result<(), Failure> {
        let mut last = (0, Instant::now());
        let waited = eventually(self.ground.context.patiently(seconds), "", || {
            let removals = self.ground.proxy.removals().len();
            if removals != last.0 {
                last = (removals, Instant::now());
            }
            let quiet = last.1.elapsed() >= Duration::from_secs(2) * self.ground.context.patience;
            Ok((quiet && self.ground.space()?.above(percent) <= 0).then_some(()))
        });
        waited.map_err(|failure| {
            let (now, removals) = (self.ground.space().map(Space::percent), last.0);
            Failure::Unexpected(format!(
                "the use did not come to rest below {percent} %{failure}: {now:?} after {removals} removals"
            ))
        })
    }

    /// What the agent measures.
    pub fn samples(&self) -> Result<Vec<Sample>, Failure> {
        let answer = self.stage.agent()?.get("/metrics")?;
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

    /// Events of the last minutes, as text.
    pub fn events(&self) -> Result<String, Failure> {
        self.printed(&["events", "--since", "10m", "--no-follow"])
    }

    /// What a command that must succeed prints.
    pub fn printed(&self, command: &[&str]) -> Result<String, Failure> {
        let output = self.stage.command(command)?;
        ensure!(output.status.success(), "{command:?}: {}: {}", output.status, words(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Everything that a command printed.
pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A pod that must go on.
#[derive(Debug, Clone)]
pub struct Alive {
    pub name: String,
    pub container: String,
    /// Its id.
    pub image: String,
}
