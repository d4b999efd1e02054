//! `lifecycle.stopSignal` in CRI's numbers (KEP-4960). They differ from the kernel's: alphabetical by name,
//! then the real-time signals.

const NAMES: [&str; 35] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGRTMIN",
];
/// `SIGRTMIN` is the last of the names; `SIGRTMIN+1` to `SIGRTMIN+15` follow it, then `SIGRTMAX-14` to
/// `SIGRTMAX`.
const RTMIN: i32 = 35;
const RTMAX: i32 = 65;

/// CRI's number of a signal with that name; `None` if Kubernetes does not know it.
pub fn signal(name: &str) -> Option<i32> {
    let offset = |text: &str, most: i32| {
        let number: i32 = text.parse().ok()?;
        (text == number.to_string() && (1..=most).contains(&number)).then_some(number)
    };
    if name == "SIGRTMAX" {
        Some(RTMAX)
    } else if let Some(text) = name.strip_prefix("SIGRTMIN+") {
        Some(RTMIN + offset(text, 15)?)
    } else if let Some(text) = name.strip_prefix("SIGRTMAX-") {
        Some(RTMAX - offset(text, 14)?)
    } else {
        let index = NAMES.iter().position(|known| *known == name)?;
        i32::try_from(index + 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_proto::runtime::v1 as cri;

    use super::*;

    #[test]
    fn numbers_are_those_of_cri() {
        for (name, number) in [
            ("SIGHUP", cri::Signal::Sighup),
            ("SIGINT", cri::Signal::Sigint),
            ("SIGKILL", cri::Signal::Sigkill),
            ("SIGQUIT", cri::Signal::Sigquit),
            ("SIGTERM", cri::Signal::Sigterm),
            ("SIGUSR1", cri::Signal::Sigusr1),
            ("SIGUSR2", cri::Signal::Sigusr2),
        ] {
            assert_eq!(signal(name), Some(number.into()), "{name}");
        }
        assert_eq!(["SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+15"].map(signal), [Some(35), Some(36), Some(50)]);
        assert_eq!(["SIGRTMAX-14", "SIGRTMAX-1", "SIGRTMAX"].map(signal), [Some(51), Some(64), Some(65)]);
        for bad in ["", "TERM", "sigterm", "15", "SIGRTMIN+16", "SIGRTMIN+0", "SIGRTMIN+01", "SIGRTMAX-15"] {
            assert_eq!(signal(bad), None, "{bad}");
        }
    }
}
