//! Limits of each level from pods, and nothing else: everything here is a function of plain values.
