//! System calls that the agent never makes after its start and that would help an attacker in it: they fail
//! with EPERM in every thread and in every program that it starts. Everything else is allowed, so that a new
//! C library or kernel breaks nothing.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::error::PrivilegesError;

/// Whether file systems are mounted after the start, as for volumes of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// They are: mode manage.
    Allowed,
    /// They are not.
    Refused,
}

/// A system call by name and number.
type Call = (&'static str, i64);

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), libc::$name)),*] };
}

/// Refused in every mode.
const ALWAYS: &[Call] = calls![
    // Another kernel, or code in this one.
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    // Other processes' memory and descriptors.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
    SYS_migrate_pages,
    SYS_move_pages,
    // Often part of attacks on the kernel. The agent's own userfaultfd is open by then.
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_personality,
    // Keys.
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // Files without their path, and other roots and namespaces.
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_setns,
    SYS_unshare,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mknodat,
    // The mount API that the agent does not use.
    SYS_open_tree,
    SYS_move_mount,
    SYS_mount_setattr,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    // The machine: clock, swap, accounting, quotas by path, names.
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_vhangup,
];

/// Refused in every mode, on x86-64 alone.
#[cfg(target_arch = "x86_64")]
const OF_MACHINE: &[Call] = calls![SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_mknod];
#[cfg(not(target_arch = "x86_64"))]
const OF_MACHINE: &[Call] = &[];

/// Refused where nothing is mounted.
const OF_MOUNTS: &[Call] = calls![SYS_mount, SYS_umount2, SYS_quotactl_fd];

/// The numbers of the x32 ABI have this bit; it would be a way around the filter.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The system calls that are refused.
pub fn refused(mounts: Mounts) -> impl Iterator<Item = &'static str> {
    calls(mounts).map(|(name, _)| name.trim_start_matches("SYS_"))
}

fn calls(mounts: Mounts) -> impl Iterator<Item = Call> {
    let of_mounts = OF_MOUNTS.iter().filter(move |_| mounts == Mounts::Refused);
    ALWAYS.iter().chain(OF_MACHINE).chain(of_mounts).copied()
}

fn program(mounts: Mounts) -> Result<BpfProgram, PrivilegesError> {
    let mut rules = BTreeMap::new();
    for (_, number) in calls(mounts) {
        rules.insert(number, Vec::new());
        #[cfg(target_arch = "x86_64")]
        rules.insert(number | X32, Vec::new());
    }
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine)?.try_into()?)
}

/// Refuses these system calls from now on, in every thread, and sets `no_new_privs` for all of them: programs
/// that they start get no privileges by their files.
///
/// # Errors
/// The kernel has no filters, or one thread has another one.
pub fn refuse(mounts: Mounts) -> Result<(), PrivilegesError> {
    Ok(seccompiler::apply_filter_all_threads(&program(mounts)?)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mounts_are_refused_where_nothing_is_mounted() {
        let all: BTreeSet<_> = refused(Mounts::Refused).collect();
        let of_manage: BTreeSet<_> = refused(Mounts::Allowed).collect();
        assert_eq!(all.len(), refused(Mounts::Refused).count(), "each once");
        let more: Vec<_> = all.difference(&of_manage).copied().collect();
        assert_eq!(more, ["mount", "quotactl_fd", "umount2"]);
        for name in ["kexec_load", "finit_module", "ptrace", "keyctl", "open_by_handle_at", "clock_settime"] {
            assert!(of_manage.contains(name), "{name}");
        }
    }

    #[test]
    fn there_is_a_program_for_this_machine() {
        assert!(!program(Mounts::Allowed).unwrap().is_empty());
    }

    /// docs/security.md names each of them.
    #[test]
    fn the_threat_model_names_every_refused_call() {
        let text = include_str!("../../../../docs/security.md");
        let missing: Vec<_> =
            refused(Mounts::Refused).filter(|name| !text.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
