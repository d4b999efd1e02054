//! The systemd units of the packages, from those in `deploy/`: one for each mode, of which one runs at a
//! time.

/// The unit for mode observe, which is right for an installation by hand.
const UNIT: &str = include_str!("../../../deploy/nodewarden.service");
/// What differs in mode manage.
const MANAGE: &str = include_str!("../../../deploy/nodewarden-manage.conf");

/// A mode that has a unit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Watches.
    Observe,
    /// Runs pods.
    Manage,
}

impl Mode {
    /// Every mode with a unit.
    pub const ALL: [Self; 2] = [Self::Observe, Self::Manage];

    /// The name of its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Observe => "nodewarden.service",
            Self::Manage => "nodewarden-manage.service",
        }
    }

    /// Its configuration, below `/etc/nodewarden`.
    pub fn configuration(self) -> &'static str {
        match self {
            Self::Observe => "config.yaml",
            Self::Manage => "manage.yaml",
        }
    }

    /// The text of that file.
    pub fn settings(self) -> &'static str {
        match self {
            Self::Observe => include_str!("../../../deploy/packages/config.yaml"),
            Self::Manage => include_str!("../../../deploy/packages/manage.yaml"),
        }
    }

    /// The text of the unit, as packages install it.
    pub fn text(self) -> String {
        let body = UNIT.split_once("[Unit]\n").map_or(UNIT, |(_, body)| body);
        let installed = body.replace("/usr/local/bin/nodewarden", "/usr/bin/nodewarden");
        let documented = "[Unit]\nDocumentation=man:nodewarden(1)\n";
        match self {
            Self::Observe => {
                format!("{documented}Conflicts={}\n{installed}", Self::Manage.unit())
            }
            Self::Manage => {
                let own = installed
                    .replace(
                        "Description=nodewarden, a node agent",
                        "Description=nodewarden in mode manage, a node agent",
                    )
                    .replace(Self::Observe.configuration(), self.configuration());
                let more = MANAGE.split_once("[Service]\n").map_or(MANAGE, |(_, more)| more);
                let (service, install) = own.split_once("[Install]\n").unwrap_or((&own, ""));
                format!(
                    "{documented}Conflicts={}\n{service}{more}\n[Install]\n{install}",
                    Self::Observe.unit()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a key, in order.
    fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
        text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
    }

    #[test]
    fn each_mode_has_a_unit_with_its_own_configuration() {
        for (mode, file) in Mode::ALL.into_iter().zip(["config.yaml", "manage.yaml"]) {
            let text = mode.text();
            let start = format!("/usr/bin/nodewarden agent --config /etc/nodewarden/{file}");
            assert_eq!(values(&text, "ExecStart"), [start]);
            assert_eq!(values(&text, "WantedBy"), ["multi-user.target"]);
            assert_eq!(values(&text, "Conflicts").len(), 1);
            for section in ["[Unit]", "[Service]", "[Install]"] {
                assert_eq!(text.lines().filter(|line| *line == section).count(), 1, "{section}\n{text}");
            }
            assert!(mode.settings().contains(&format!("mode: {mode:?}").to_lowercase()));
        }
    }

    #[test]
    fn mode_manage_has_no_mount_namespace_of_its_own() {
        let text = Mode::Manage.text();
        for key in ["ProtectSystem", "ProtectHome", "PrivateTmp", "ProtectKernelModules", "ProtectClock"] {
            assert_eq!(values(&text, key).last(), Some(&"no"), "{key}");
        }
        assert_eq!(values(&text, "CapabilityBoundingSet").last(), Some(&"~"));
    }
}
