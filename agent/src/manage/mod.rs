//! The daemon in manage mode: gathers pods and the state of the hierarchy, and carries out what `qos` decides.
