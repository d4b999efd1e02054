//! The tests' own ground, without an agent: images take the disk and give it back as real ones do, and the proxy does what
//! it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::judge;
use super::site::{Ground, OWN, image};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{BUSYBOX_IMAGE, Cri, PodSpec, RemovalAction, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("gc_ground", ground)
    .needs(&[Capability::Root, Capability::PrivateCri, Capability::MemoryCgroup])
    .without_agent()];

fn ground(context: &Context) -> Result<(), Failure> {
    let (ground, containerd) = Ground::new(context)?;
    let cri = Cri::connect(ground.socket())?;
    let used = || -> Result<u64, Failure> { Ok(ground.space()?.used()) };
    let empty = used()?;
    // 0 and 3 have their lower layer in common, 1 has another.
    for n in [0, 3, 1] {
        ground.import(&containerd, n)?;
    }
    let full = used()?;
    let size = |n: u64| -> Result<u64, Failure> {
        let name = image(n);
        let images = cri.list_images()?;
        let found = images.iter().find(|one| one.repo_tags.contains(&name));
        Ok(found.map(|one| one.size).unwrap_or_default())
    };
    // Each layer once, as it came and unpacked: three of their own, two of half the size, and busybox.
    let (least, most, took) = (2 * 4 * context.scaled(OWN), 2 * 3 * size(0)?, full - empty);
    ensure!(took >= least && took < most, "three images took {took} bytes, not {least} to {most}");

    let done = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&done);
    ground.proxy.when_done(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    ground.proxy.rule(|number, _| if number % 3 == 0 { RemovalAction::Fail } else { RemovalAction::Pass });
    let refused = cri.remove_image(&image(0));
    ensure!(refused.is_err_and(|error| error.to_string().contains("the test says so")), "it was not refused");
    ensure!(cri.image_id(&image(0))?.is_some(), "it was removed all the same");
    cri.remove_image(&image(0))?;
    cri.remove_image(&image(3))?;
    ensure!(
        cri.image_id(&image(0))?.is_none() && cri.image_id(&image(1))?.is_some(),
        "the wrong one is gone"
    );
    ensure_eq!(done.load(Ordering::SeqCst), 2, "removals carried out");
    let removals = ground.proxy.removals();
    let given: Vec<u64> = removals.iter().map(|one| judge::largest(std::slice::from_ref(one))).collect();
    // The layer that both have goes with the second.
    ensure!(given[0] == 0 && given[1] > MIB && given[2] > given[1] + MIB, "given back: {given:?}");
    ensure_eq!(removals[1].names, [image(0)], "names of a removed image");

    // A hanging one keeps nobody waiting but the caller, and is not carried out.
    ground.proxy.rule(|_, _| RemovalAction::Hang);
    let socket = ground.socket().to_owned();
    let hangs = std::thread::spawn(move || {
        Cri::connect(&socket).map(|cri| {
            let _refused_in_the_end = cri.remove_image(&image(1));
        })
    });
    eventually(context.patiently(10), "the removal was not asked for", || {
        Ok((ground.proxy.removals().len() == 4).then_some(()))
    })?;
    ensure!(cri.image_id(&image(1))?.is_some() && !hangs.is_finished(), "it was answered");
    ensure!(ground.proxy.violations().is_empty(), "{:?}", ground.proxy.violations());

    in_use(context, &ground, &cri)
}

/// A container's image, the sandboxes' and one that is held: each is found to be in use.
fn in_use(context: &Context, ground: &Ground<'_>, cri: &Cri) -> Result<(), Failure> {
    ground.proxy.rule(|_, _| RemovalAction::Fail);
    let root = TestRoot::new(context)?;
    let spec = PodSpec { name: "p", namespace: "n", uid: "u", cgroup_parent: root.group().path() };
    let mut pod = cri.run_pod(&spec, context.problems())?;
    pod.start_container("c", BUSYBOX_IMAGE, &["/bin/true"], 0)?;
    ground.proxy.hold(&image(1));
    for (number, name) in [BUSYBOX_IMAGE, crate::fixture::PAUSE_IMAGE, &image(1)].into_iter().enumerate() {
        let _refused = cri.remove_image(name);
        ensure_eq!(ground.proxy.violations().len(), number + 1, "removals of what is in use, after {name}");
    }
    ground.proxy.release(&image(1));
    pod.remove()?;
    let _refused = cri.remove_image(BUSYBOX_IMAGE);
    let _refused = cri.remove_image(&image(1));
    ensure_eq!(ground.proxy.violations().len(), 3, "they are no longer in use");
    Ok(())
}
