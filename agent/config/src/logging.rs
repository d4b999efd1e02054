//! What the agent logs: `logging`.

use serde_yaml_ng::Mapping;

use crate::fields::Fields;
use crate::show::{Map, pair};

/// Settings of the log, which goes to the standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// `logging.format`.
    pub format: LogFormat,
    /// `logging.verbosity`: from 4 on what is for debugging too.
    pub verbosity: u32,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Reads the key.
pub(crate) fn take(top: &mut Fields<'_>) -> LogSettings {
    let mut f = top.inside("logging");
    let settings = LogSettings {
        format: f.choice("format", &["text", "json"], true).unwrap_or_default(),
        // Within the range.
        verbosity: f.number("verbosity", 0, &(0..=i32::MAX as u64)) as u32,
    };
    f.finish();
    settings
}

/// Writes the key.
pub(crate) fn show(top: &mut Map, settings: &LogSettings) {
    let format: &str = settings.format.into();
    top.put("logging", Mapping::from_iter([pair("format", format), pair("verbosity", settings.verbosity)]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{problems, read};

    #[test]
    fn what_has_no_effect_is_accepted_and_named() {
        let config = read(
            "logging: {format: json, verbosity: 5, flushFrequency: 0, options: {json: {infoBufferSize: '0'}}, vmodule: []}",
        )
        .unwrap();
        assert_eq!(config.logging, LogSettings { format: LogFormat::Json, verbosity: 5 });
        let keys: Vec<&str> = config.ignored.iter().map(|own| own.key.as_str()).collect();
        assert_eq!(keys, ["logging.flushFrequency", "logging.options", "logging.vmodule"]);
        for body in ["", "logging: {format: '', flushFrequency: 5s}"] {
            assert_eq!(read(body).unwrap().logging, LogSettings::default(), "{body}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, expected) in [
            ("logging: {format: xml}", "logging.format: xml: expected text or json"),
            (
                "logging: {verbosity: high}",
                "logging.verbosity: high: expected a whole number from 0 to 2147483647",
            ),
            (
                "logging: {flushFrequency: often}",
                "logging.flushFrequency: often: expected a time like 20s or 1m30s, or a whole number from 0 to \
                 9223372036854775807",
            ),
            (
                "logging: {fromat: text}",
                "logging.fromat: unknown key: expected a known key (did you mean format?)",
            ),
        ] {
            assert_eq!(problems(body), [expected], "{body}");
        }
    }
}
