//! In a process of its own: what is given up is gone.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use super::super::{Capability, CapabilitySet, Held, Mounts, keep_only, refuse};
use super::*;

/// Runs the ignored test of this name in a process of its own, as root.
fn in_own_process(name: &str) {
    if !nix::unistd::geteuid().is_root() {
        nodewarden_testing::skip("not root");
        return;
    }
    let own = std::env::current_exe().unwrap();
    let name = format!("privileges::threads::tests::{name}");
    let output =
        Command::new(own).args(["--exact", &name, "--ignored", "--test-threads=1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_thread_gives_up_what_is_not_kept() {
    in_own_process("alone_every_thread");
}

#[test]
#[ignore = "run by every_thread_gives_up_what_is_not_kept in a process of its own"]
fn alone_every_thread() {
    let had = Held::of_threads(Path::new(OWN)).unwrap();
    let keep: CapabilitySet = [Capability::CapKill, Capability::CapSysPtrace].into_iter().collect();
    let wanted = CapabilitySet(had.permitted.0 & keep.0);
    // Some sleep, some wait, some run, some make threads without end.
    let (stop, stopped) = mpsc::channel::<()>();
    let waits = thread::spawn(move || _ = stopped.recv());
    let sleeps = thread::spawn(|| thread::sleep(Duration::from_millis(400)));
    let spins = thread::spawn(|| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
    });
    let spawns: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                for _ in 0..300 {
                    thread::spawn(|| thread::sleep(Duration::from_millis(3)));
                    thread::sleep(Duration::from_millis(1));
                }
            })
        })
        .collect();
    keep_only(keep, Duration::from_secs(30)).unwrap();
    for _ in 0..20 {
        for (thread, held) in threads(Path::new(OWN)).unwrap() {
            assert_eq!((held.permitted, held.effective), (wanted, wanted), "thread {thread}");
            let may_lower = had.effective.has(Capability::CapSetpcap);
            assert!(
                !may_lower || held.bounding.without(keep).is_empty(),
                "thread {thread}: {}",
                held.bounding
            );
        }
        thread::sleep(Duration::from_millis(5));
    }
    drop(stop);
    waits.join().unwrap();
    sleeps.join().unwrap();
    spins.join().unwrap();
    spawns.into_iter().for_each(|own| own.join().unwrap());
    // A program that root starts has no more either.
    let status = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let child = Held::parse(&String::from_utf8_lossy(&status.stdout)).unwrap();
    let may_lower = had.effective.has(Capability::CapSetpcap);
    assert!(!may_lower || child.permitted.without(keep).is_empty(), "{}", child.permitted);
}

#[test]
fn a_refused_call_is_refused_in_every_thread() {
    in_own_process("alone_refused_calls");
}

#[test]
#[ignore = "run by a_refused_call_is_refused_in_every_thread in a process of its own"]
fn alone_refused_calls() {
    let (go, gone) = mpsc::channel::<()>();
    let earlier = thread::spawn(move || {
        gone.recv().unwrap();
        traced()
    });
    refuse(Mounts::Refused).unwrap();
    go.send(()).unwrap();
    assert_eq!(earlier.join().unwrap(), Some(libc::EPERM));
    assert_eq!(thread::spawn(traced).join().unwrap(), Some(libc::EPERM));
    // A program that is started has the filter, and works.
    let status = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let child = Held::parse(&String::from_utf8_lossy(&status.stdout)).unwrap();
    assert!(child.filtered && child.no_new_privileges);
    // As its first error would be EFAULT, EPERM is the filter's.
    // SAFETY: the kernel checks its pointers.
    assert_eq!(unsafe { libc::syscall(libc::SYS_mount, 1, 1, 1, 0, 0) }, -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
}

/// The errno of a ptrace(2) of process 0, which is ESRCH without a filter.
fn traced() -> Option<i32> {
    // SAFETY: there is no such process.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_ATTACH, 0, 0, 0) };
    (result < 0).then(|| io::Error::last_os_error().raw_os_error()).flatten()
}
