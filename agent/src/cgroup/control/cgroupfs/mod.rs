//! The driver that uses directories and files alone.
