//! Where pods come from: a manifest directory today.
