//! The images of the suite, made from programs of this machine and of the suite's own sources: no registry is
//! asked.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::fixture::{ClusterPrograms, Image, PAUSE, archive};

const AGNHOST: &str = "k8s.gcr.io/e2e-test-images/agnhost:2.21";
const BUSYBOX: [&str; 3] =
    ["docker.io/library/busybox:1.29", "docker.io/library/busybox:1.31.1", "k8s.gcr.io/busybox:latest"];
const PAUSES: [&str; 2] = ["k8s.gcr.io/pause:3.2", "k8s.gcr.io/pause:3.1"];
/// A web server. Tests only need that it runs, and that it answers.
const WEB_SERVERS: [&str; 3] = [
    "docker.io/library/nginx:1.14-alpine",
    "docker.io/library/nginx:1.15-alpine",
    "docker.io/library/httpd:2.4.38-alpine",
];
const NO_NEW_PRIVILEGES: &str = "gcr.io/kubernetes-e2e-test-images/nonewprivs:1.0";
/// Its user is not root.
const NON_ROOT: &str = "gcr.io/kubernetes-e2e-test-images/nonroot:1.0";
const NON_ROOT_USER: &str = "1234";
/// Serves on port 80, and ends when it is asked to.
const SERVE: &str = "trap 'exit 0' TERM QUIT; busybox httpd -f -p 80 -h /etc & wait $!";

/// What tests use of curl: a plain address among flags, some of which have a value. By netcat, since
/// busybox's wget crashes where its C library finds no plug-ins for names.
const CURL: &[u8] = br#"#!/bin/sh
seconds=15
while [ $# -gt 0 ]; do
    case "$1" in
        --max-time | -m) seconds=$2; shift ;;
        --connect-timeout | -o | -w | -H | -X) shift ;;
        -*) ;;
        *) address=$1 ;;
    esac
    shift
done
rest=${address#http://}
server=${rest%%/*}
path=/${rest#"$server"}
path=/${path#//}
host=${server%:*}
port=${server##*:}
[ "$port" = "$server" ] && port=80
printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$path" "$server" |
    nc -w "$seconds" "$host" "$port" | sed '1,/^\r*$/d'
"#;

/// Writes an archive of all images to `to`.
///
/// # Errors
/// A program cannot be read or run, or the archive cannot be written.
pub fn write(programs: &ClusterPrograms, busybox: &Path, to: &Path) -> io::Result<()> {
    let output = Command::new(busybox).arg("--list").output()?;
    let applets = String::from_utf8_lossy(&output.stdout).into_owned();
    let links = links(&applets);
    let links: Vec<(&str, &str)> = links.iter().map(|path| (path.as_str(), "busybox")).collect();
    let [busybox, agnhost, nnp] =
        [busybox.to_owned(), programs.path("agnhost"), programs.path("nnp")].map(fs::read);
    let (busybox, agnhost, nnp) = (busybox?, agnhost?, nnp?);
    let shell: Image<'_> = Image {
        name: BUSYBOX[0],
        files: &[
            ("bin/busybox", 0o755, &busybox),
            (
                "etc/passwd",
                0o644,
                b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
            ),
            ("bin/curl", 0o755, CURL),
            ("etc/group", 0o644, b"root:x:0:\nnobody:x:65534:\n"),
        ],
        links: &links,
        command: &["sh"],
        entrypoint: &[],
        user: "",
        stop_signal: "",
    };
    let with = |file: (&'static str, u32, &'_ [u8])| {
        shell
            .files
            .iter()
            .copied()
            .map(|(path, mode, data)| (path, mode, data.to_vec()))
            .chain([(file.0, file.1, file.2.to_vec())])
            .collect::<Vec<_>>()
    };
    let agnhost = with(("agnhost", 0o755, &agnhost));
    let nnp = with(("usr/local/bin/nnp", 0o4755, &nnp));
    let [agnhost, nnp] = [&agnhost, &nnp].map(|files| {
        files.iter().map(|(path, mode, data)| (*path, *mode, data.as_slice())).collect::<Vec<_>>()
    });
    let mut images = Vec::new();
    images.extend(BUSYBOX.map(|name| Image { name, ..shell }));
    let pause = [("pause", 0o755, PAUSE)];
    images.extend(PAUSES.map(|name| Image {
        name,
        files: &pause,
        links: &[],
        command: &[],
        entrypoint: &["/pause"],
        user: "65535:65535",
        stop_signal: "",
    }));
    images.extend(WEB_SERVERS.map(|name| Image { name, command: &["/bin/sh", "-c", SERVE], ..shell }));
    // The same program under a second name, which tests of commands run.
    let agnhost_links: Vec<_> = links.iter().copied().chain([("agnhost-2", "agnhost")]).collect();
    images.push(Image {
        name: AGNHOST,
        links: &agnhost_links,
        files: &agnhost,
        entrypoint: &["/agnhost"],
        command: &["pause"],
        ..shell
    });
    images.push(Image { name: NO_NEW_PRIVILEGES, files: &nnp, command: &["nnp"], ..shell });
    images.push(Image { name: NON_ROOT, user: NON_ROOT_USER, ..shell });
    fs::write(to, archive(&images)?)
}

/// The paths of the links to busybox. It is not a link to itself.
fn links(applets: &str) -> Vec<String> {
    let names = applets.lines().map(str::trim).filter(|name| !name.is_empty() && *name != "busybox");
    names.map(|name| format!("bin/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busybox_is_no_link_to_itself() {
        assert_eq!(links("[\nbusybox\nsh\n"), ["bin/[", "bin/sh"]);
    }
}
