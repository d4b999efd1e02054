//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

pub use crate::http_get::fuzzing::redirects;
pub use crate::spec::dns::fuzzing::resolv;
