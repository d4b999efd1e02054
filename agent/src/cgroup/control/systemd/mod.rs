//! The driver that asks systemd for slices over D-Bus.
