//! The unit of a cgroup's path.

use super::SystemdError;

/// The slice at the root of the tree.
const ROOT: &str = "-.slice";

/// A unit that has a cgroup, by its path below the mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    name: String,
    /// The slice that contains it; none for the root.
    slice: Option<String>,
}

impl Unit {
    /// The unit whose cgroup is `path`: its last part (`/` is `-.slice`).
    ///
    /// # Errors
    /// The last part is not the name of a slice, scope or service, or when systemd puts a slice of that name
    /// elsewhere: the directories above a slice follow from its name (systemd.slice(5)).
    pub fn of_path(path: &str) -> Result<Self, SystemdError> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).rev();
        let Some(name) = parts.next() else {
            return Ok(Self { name: ROOT.into(), slice: None });
        };
        let slice = parts.next().unwrap_or(ROOT).to_owned();
        let known = [".slice", ".scope", ".service"];
        if !known.iter().any(|suffix| name.strip_suffix(suffix).is_some_and(|stem| !stem.is_empty())) {
            return Err(SystemdError::NoUnit { path: path.into() });
        }
        if let Some(stem) = name.strip_suffix(".slice") {
            let place = slice_path(stem);
            if place.trim_start_matches('/') != path.trim_matches('/') {
                return Err(SystemdError::Elsewhere { path: path.into(), unit: name.into(), place });
            }
        }
        Ok(Self { name: name.into(), slice: Some(slice) })
    }

    /// The unit's name: `kubepods.slice`, `cri-containerd-….scope`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The slice that contains it; none for the root.
    pub fn slice(&self) -> Option<&str> {
        self.slice.as_deref()
    }

    /// Whether it is a slice; else it is a scope.
    pub fn is_slice(&self) -> bool {
        self.name.ends_with(".slice")
    }

    /// The interface that has the properties of its kind.
    pub fn interface(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, kind)| kind) {
            Some("scope") => "org.freedesktop.systemd1.Scope",
            Some("service") => "org.freedesktop.systemd1.Service",
            _ => "org.freedesktop.systemd1.Slice",
        }
    }

    /// Its D-Bus object: letters and digits as they are (a digit not in front), every other byte as `_` and
    /// two hexadecimal digits (systemd's `bus_label_escape`).
    pub fn object(&self) -> String {
        let escaped = self.name.bytes().enumerate().map(|(at, byte)| {
            let kept = byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit());
            if kept { char::from(byte).to_string() } else { format!("_{byte:02x}") }
        });
        format!("/org/freedesktop/systemd1/unit/{}", escaped.collect::<String>())
    }
}

/// Path of a slice: every dash of its name (without `.slice`) is a level.
fn slice_path(stem: &str) -> String {
    if stem == "-" {
        return "/".into();
    }
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    ends.map(|end| format!("/{}.slice", &stem[..end])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(path: &str) -> Result<(String, Option<String>), String> {
        Unit::of_path(path).map(|unit| (unit.name, unit.slice)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_last_part_is_the_unit() {
        let some = |name: &str, slice: &str| Ok((name.to_owned(), Some(slice.to_owned())));
        let burstable = "/kubepods.slice/kubepods-burstable.slice";
        let pod = "kubepods-burstable-pod3f1d9c52_6b0e.slice";
        assert_eq!(unit("/"), Ok(("-.slice".into(), None)));
        assert_eq!(unit("/kubepods.slice"), some("kubepods.slice", "-.slice"));
        assert_eq!(unit(burstable), some("kubepods-burstable.slice", "kubepods.slice"));
        assert_eq!(unit(&format!("{burstable}/{pod}")), some(pod, "kubepods-burstable.slice"));
        let scope = "cri-containerd-c0.scope";
        assert_eq!(unit(&format!("{burstable}/{pod}/{scope}")), some(scope, pod));
        assert_eq!(unit("/system.slice/kubelet.service"), some("kubelet.service", "system.slice"));
    }

    #[test]
    fn a_path_that_systemd_does_not_have_is_refused() {
        let refused = |path, text: &str| assert_eq!(unit(path), Err(text.to_owned()), "{path}");
        for path in ["/kubepods", "/a.slice/.slice", "/a.slice/b"] {
            let why = "is no unit's cgroup: its last part does not end in .slice, .scope or .service";
            refused(path, &format!("{path} {why}"));
        }
        refused("/b.slice/a.slice", "/b.slice/a.slice: systemd puts a.slice at /a.slice");
        refused("/a-b.slice", "/a-b.slice: systemd puts a-b.slice at /a.slice/a-b.slice");
    }

    #[test]
    fn objects_are_escaped() {
        let object = |path| Unit::of_path(path).unwrap().object();
        let prefix = "/org/freedesktop/systemd1/unit/";
        assert_eq!(object("/"), format!("{prefix}_2d_2eslice"));
        assert_eq!(object("/a.slice/a-b_1.slice"), format!("{prefix}a_2db_5f1_2eslice"));
        assert_eq!(object("/a.slice/1b.scope"), format!("{prefix}_31b_2escope"));
    }
}
