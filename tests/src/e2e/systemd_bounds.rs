//! Bounds that mode augment writes for units of systemd, while another program changes other properties of
//! those units.

use std::time::Duration;

use nodewarden_augment::Ledger;
use nodewarden_augment::ledger::Written;
use nodewarden_augment::ledger::machine::{Files, Machine};
use nodewarden_augment::ledger::units::UnitFiles;
use nodewarden_augment::wanted::{Feature, Level, Place, Wanted};
use nodewarden_machine::cgroup::control::{Bound, Driver, Limits};

use super::support::{MIB, eventually};
use super::systemd_driver::{Tree, test, unit};
use crate::fixture::{show_unit, systemctl};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[test("systemd_keeps_bounds_of_augment", keeps_bounds)];

const HIGH: u64 = 48 * MIB;

/// A bound in the file alone is gone after a resize, and one that systemd has stays; put back, both are as
/// before.
fn keeps_bounds(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let pod = tree.path(&["podbounds"]);
    tree.driver.create(&pod, &Limits { memory_max: Some(Bound::At(64 * MIB)), ..Limits::default() })?;
    let directory = tree.directory(&pod);
    let high = || {
        let path = directory.join("memory.high");
        std::fs::read_to_string(&path).map(|text| text.trim_end().to_owned()).map_err(Failure::file(&path))
    };
    // What a kubelet does when it resizes the pod.
    let resize = |mib: u64| -> Result<(), Failure> {
        systemctl(&["set-property", "--runtime", unit(&pod), &format!("MemoryMax={}", mib * MIB)])?;
        let path = directory.join("memory.max");
        eventually(context.patiently(10), "the limit is not changed", || {
            let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
            Ok((text.trim_end() == (mib * MIB).to_string()).then_some(()))
        })?;
        std::thread::sleep(Duration::from_millis(200) * context.patience);
        Ok(())
    };
    let property = || -> Result<String, Failure> {
        Ok(show_unit(unit(&pod), &["MemoryHigh"])?.remove("MemoryHigh").unwrap_or_default())
    };
    let wanted = Wanted {
        feature: Feature::MemoryHigh,
        level: Level::Pod,
        place: Place::new(&directory, "memory.high"),
        value: HIGH.to_string(),
        instead_of: &["max"],
        companion: None,
        pod: "bounds".into(),
    };

    let mut alone = ledger(context, "alone", Files)?;
    ensure!(matches!(&alone.write(std::slice::from_ref(&wanted))?[..], [Written::Set { .. }]), "not written");
    ensure_eq!(high()?, HIGH.to_string(), "the bound in the file alone");
    resize(72)?;
    ensure_eq!(high()?, "max", "the bound in the file alone, after a resize");

    let mut kept = ledger(context, "kept", UnitFiles::new())?;
    ensure!(matches!(&kept.write(std::slice::from_ref(&wanted))?[..], [Written::Set { .. }]), "not written");
    eventually(context.patiently(20), "systemd does not have the bound", || {
        Ok((property()? == HIGH.to_string()).then_some(()))
    })?;
    resize(80)?;
    ensure_eq!(high()?, HIGH.to_string(), "the bound after a resize");
    systemctl(&["daemon-reload"])?;
    resize(88)?;
    ensure_eq!(high()?, HIGH.to_string(), "the bound after a daemon-reload and a resize");

    kept.withdraw(|_| true)?;
    // It waits until systemd has what was written.
    drop(kept);
    ensure_eq!(property()?, "infinity", "the property after it was put back");
    resize(96)?;
    ensure_eq!(high()?, "max", "the bound after it was put back");
    Ok(())
}

fn ledger<M: Machine>(context: &Context, name: &str, machine: M) -> Result<Ledger<M>, Failure> {
    let state = context.temp.join(name);
    std::fs::create_dir_all(&state).map_err(Failure::file(&state))?;
    Ok(Ledger::open(&state, machine)?)
}
