//! Measures allocation by the device manager alone, in this process: real plugins on real sockets, one pod
//! after the other, with the checkpoint on disk. The first figure is the agent's own part: choosing devices,
//! bookkeeping and the checkpoint, without waiting for plugins' answers. The second figure includes the calls
//! over the sockets and through gRPC on both sides, and leaves out only the time in the plugins' own code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_config::DeviceSettings;
use nodewarden_devices::{ContainerDemand, Devices, PodDemand};
use nodewarden_manifest::ContainerKind;

use super::allocation::{BOUND, DEVICES, EACH, PLUGINS, PODS, behaviour, name};
use crate::bench::{Bound, Figure, Run};
use crate::ensure_eq;
use crate::fixture::NativePlugin;
use crate::harness::Failure;

const ROUNDS: usize = 5;

/// # Errors
/// A pod does not get its devices.
pub fn measure(run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
    let pods = run.sizes.pods.unwrap_or(PODS[0]).min(PODS[0]);
    let dir = run.context.temp.join("d");
    let settings = DeviceSettings { kubelet_dir: dir.clone(), ..DeviceSettings::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::file("the bench's threads"))?;
    let (devices, serving) = runtime.block_on(Devices::start(&settings, Arc::new(|_| {})));
    let plugins = (0..PLUGINS)
        .map(|number| NativePlugin::start(&behaviour(&settings.plugin_dir(), number), None))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::file("a plugin's threads"))?;
    let begun = Instant::now();
    while devices.view(&[]).resources.iter().filter_map(|own| own.allocatable).sum::<usize>()
        < PLUGINS * DEVICES
    {
        ensure_eq!(begun.elapsed() < run.context.patiently(20), true, "every plugin has registered");
        std::thread::sleep(Duration::from_millis(10));
    }
    run.progress(&format!("the device manager alone gives {pods} pods their devices"));
    let mut own = Vec::new();
    let mut whole = Vec::new();
    // The first round uses new connections; before each further round all devices are released.
    for number in (0..ROUNDS).flat_map(|_| 0..pods) {
        if number == 0 {
            (0..pods).for_each(|number| devices.release(&demand(number).uid));
        }
        let before = plugins.iter().map(NativePlugin::busy).sum::<Duration>();
        let begun = Instant::now();
        let given = runtime.block_on(devices.admit(&demand(number)));
        let took = begun.elapsed();
        let given = given.map_err(|error| Failure::Unexpected(format!("pod {number}: {error}")))?;
        let busy = plugins.iter().map(NativePlugin::busy).sum::<Duration>().saturating_sub(before);
        own.extend(given.map(|given| given.own.as_secs_f64() * 1e3));
        whole.push(took.saturating_sub(busy).as_secs_f64() * 1e3);
    }
    let allocated: usize = devices.view(&[]).resources.iter().map(|own| own.allocated).sum();
    ensure_eq!(allocated, pods * (EACH[0] + EACH[1]) as usize, "devices that are given");
    drop((serving, plugins));
    Ok(vec![
        Figure::of(
            "devices",
            "a pod's allocation of 2 resources, without the waits for plugins",
            "ms",
            &own,
            BOUND,
        ),
        Figure::of(
            "devices",
            "the same with the calls' way there and back, two at once",
            "ms",
            &whole,
            Bound::NONE,
        ),
    ])
}

fn demand(number: usize) -> PodDemand {
    let wanted = [(name(number), EACH[0] as usize), (name(number + 1), EACH[1] as usize)];
    let wanted: BTreeMap<String, usize> = wanted
        .into_iter()
        .map(|(name, count)| (format!("{}/{name}", crate::e2e::devices::fixture::DOMAIN), count))
        .collect();
    let container = ContainerDemand { name: "c".into(), kind: ContainerKind::Regular, wanted };
    PodDemand { uid: format!("00000000-0000-0000-0000-{number:012}"), containers: vec![container] }
}
