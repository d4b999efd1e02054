//! Tests of the fixture itself, without an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fixture::{GcRuntime, OWN_LAYER, image};
use super::judge;
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{BUSYBOX_IMAGE, Cri, PodSpec, RemovalAction, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("gc_disk_and_proxy_work", disk_and_proxy)
    .needs(&[Capability::Root, Capability::PrivateCri, Capability::MemoryCgroup])
    .without_agent()];

/// Images take and free space of the disk as real ones do, and the proxy fails, delays and records removals
/// as ordered.
fn disk_and_proxy(context: &Context) -> Result<(), Failure> {
    let (runtime, containerd) = GcRuntime::new(context)?;
    let cri = Cri::connect(runtime.socket())?;
    let used = || -> Result<u64, Failure> { Ok(runtime.space()?.used()) };
    let empty = used()?;
    // Images 0 and 3 share their lower layer, 1 has another.
    for n in [0, 3, 1] {
        runtime.import(&containerd, n)?;
    }
    let full = used()?;
    let size = |n: u64| -> Result<u64, Failure> {
        let name = image(n);
        let images = cri.list_images()?;
        let found = images.iter().find(|one| one.repo_tags.contains(&name));
        Ok(found.map(|one| one.size).unwrap_or_default())
    };
    // Each layer once, packed and unpacked: three own layers, two shared ones of half their size, and
    // busybox.
    let (least, most, took) = (2 * 4 * context.scaled(OWN_LAYER), 2 * 3 * size(0)?, full - empty);
    ensure!(took >= least && took < most, "three images took {took} bytes, not {least} to {most}");

    let done = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&done);
    runtime.proxy.when_done(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    runtime.proxy.rule(|number, _| if number % 3 == 0 { RemovalAction::Fail } else { RemovalAction::Pass });
    let refused = cri.remove_image(&image(0));
    ensure!(
        refused.is_err_and(|error| error.to_string().contains("refused by the test")),
        "the removal was not refused"
    );
    ensure!(cri.image_id(&image(0))?.is_some(), "the image was removed though its removal was refused");
    cri.remove_image(&image(0))?;
    cri.remove_image(&image(3))?;
    ensure!(
        cri.image_id(&image(0))?.is_none() && cri.image_id(&image(1))?.is_some(),
        "the wrong image was removed"
    );
    ensure_eq!(done.load(Ordering::SeqCst), 2, "removals carried out");
    let removals = runtime.proxy.removals();
    let freed: Vec<u64> = removals.iter().map(|one| judge::largest(std::slice::from_ref(one))).collect();
    // The shared layer is freed with the second image.
    ensure!(freed[0] == 0 && freed[1] > MIB && freed[2] > freed[1] + MIB, "freed: {freed:?}");
    ensure_eq!(removals[1].names, [image(0)], "names of a removed image");

    // A hanging removal blocks only its caller, and is not carried out.
    runtime.proxy.rule(|_, _| RemovalAction::Hang);
    let socket = runtime.socket().to_owned();
    let hangs = std::thread::spawn(move || {
        Cri::connect(&socket).map(|cri| {
            let _refused_in_the_end = cri.remove_image(&image(1));
        })
    });
    eventually(context.patiently(10), "the removal was not requested", || {
        Ok((runtime.proxy.removals().len() == 4).then_some(()))
    })?;
    ensure!(
        cri.image_id(&image(1))?.is_some() && !hangs.is_finished(),
        "the hanging removal was answered or carried out"
    );
    ensure!(runtime.proxy.violations().is_empty(), "{:?}", runtime.proxy.violations());

    in_use(context, &runtime, &cri)
}

/// Checks that the proxy reports removals of a container's image, of the sandboxes' and of a held one, and of
/// none of them once they are unused.
fn in_use(context: &Context, runtime: &GcRuntime<'_>, cri: &Cri) -> Result<(), Failure> {
    runtime.proxy.rule(|_, _| RemovalAction::Fail);
    let root = TestRoot::new(context)?;
    let spec = PodSpec { name: "p", namespace: "n", uid: "u", cgroup_parent: root.group().path() };
    let mut pod = cri.run_pod(&spec, context.problems())?;
    pod.start_container("c", BUSYBOX_IMAGE, &["/bin/true"], 0)?;
    runtime.proxy.hold(&image(1));
    for (number, name) in [BUSYBOX_IMAGE, crate::fixture::PAUSE_IMAGE, &image(1)].into_iter().enumerate() {
        let _refused = cri.remove_image(name);
        ensure_eq!(runtime.proxy.violations().len(), number + 1, "removals of images in use, after {name}");
    }
    runtime.proxy.release(&image(1));
    pod.remove()?;
    let _refused = cri.remove_image(BUSYBOX_IMAGE);
    let _refused = cri.remove_image(&image(1));
    ensure_eq!(runtime.proxy.violations().len(), 3, "removals of images in use, once they are unused");
    Ok(())
}
