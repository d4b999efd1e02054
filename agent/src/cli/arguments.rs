//! The arguments as a kubelet gets them: without a subcommand.

use std::ffi::OsString;
use std::path::Path;

use nodewarden_config::with_dashes;

/// The subcommand that does a kubelet's work.
const AGENT: &str = "agent";
/// The name by which the program is started in place of a kubelet.
const KUBELET: &str = "kubelet";
/// Flags of the program itself, not of the agent.
const OWN: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Whether the version is asked for by the name of a kubelet: installers read a kubelet's line.
pub fn asks_kubelet_version(given: &[OsString]) -> bool {
    is_kubelet(given) && given.get(1).is_some_and(|first| first == "--version" || first == "-V")
}

fn is_kubelet(given: &[OsString]) -> bool {
    given.first().is_some_and(|own| Path::new(own).file_name().is_some_and(|name| name == KUBELET))
}

/// The arguments with the subcommand `agent` where the program is called `kubelet` or its first argument is a
/// flag of the agent, and with `-` for `_` in the names of the agent's flags.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    let is_kubelet = is_kubelet(&arguments);
    let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    let version = OWN[2..].contains(&first);
    let flag = first.starts_with('-') && !OWN.contains(&first);
    if flag || (is_kubelet && !version && first != AGENT) {
        arguments.insert(1, AGENT.into());
    }
    if arguments.get(1).is_some_and(|first| first == AGENT) {
        for argument in arguments.iter_mut().skip(2) {
            if let Some(text) = argument.to_str() {
                *argument = with_dashes(text).into();
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelets_arguments_mean_the_agent() {
        for (given, expected) in [
            (&["nodewarden"][..], "nodewarden"),
            (&["nodewarden", "--help"], "nodewarden --help"),
            (&["nodewarden", "-V"], "nodewarden -V"),
            (&["nodewarden", "top", "--a_b"], "nodewarden top --a_b"),
            (&["nodewarden", "agent", "--node_ip=1_2"], "nodewarden agent --node-ip=1_2"),
            (&["nodewarden", "--kubeconfig=/k"], "nodewarden agent --kubeconfig=/k"),
            (&["nodewarden", "-v", "2"], "nodewarden agent -v 2"),
            (&["/usr/bin/kubelet"], "/usr/bin/kubelet agent"),
            (&["/usr/bin/kubelet", "--help"], "/usr/bin/kubelet agent --help"),
            (&["/usr/bin/kubelet", "--version"], "/usr/bin/kubelet --version"),
            (&["kubelet", "agent", "--v=2"], "kubelet agent --v=2"),
        ] {
            let texts: Vec<String> = arguments(given.iter().map(OsString::from))
                .into_iter()
                .map(|argument| argument.into_string().unwrap())
                .collect();
            assert_eq!(texts.join(" "), expected);
        }
    }
}
