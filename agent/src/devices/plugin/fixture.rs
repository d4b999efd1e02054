//! A device plugin for tests: a real server on a real socket, that does what it is told.
