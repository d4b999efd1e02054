//! What the agent logs to the standard error: levels by module.

use std::io::{IsTerminal, stderr};

use nodewarden_config::{LogFormat, LogSettings};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Takes precedence over the configuration: a level, or levels by module (`warn,nodewarden::journal=debug`).
const VARIABLE: &str = "NODEWARDEN_LOG";
/// The verbosity from which a kubelet logs what is for debugging.
const DEBUG: u32 = 4;

/// Begins to log. What cannot be read in NODEWARDEN_LOG is left out and printed.
pub fn log_to_stderr(settings: LogSettings) {
    let variable = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let levels = match variable {
        None => of_settings(settings),
        Some(text) => {
            let (levels, wrong) = of_text(&text);
            for one in wrong {
                eprintln!("nodewarden: {VARIABLE}: {one} is no level and no MODULE=LEVEL, it is left out");
            }
            levels
        }
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr);
    let all = tracing_subscriber::registry().with(levels);
    let begun = match settings.format {
        LogFormat::Text => begin(all.with(layer.with_ansi(stderr().is_terminal()))),
        LogFormat::Json => begin(all.with(layer.with_ansi(false).json())),
    };
    if let Err(error) = begun {
        eprintln!("nodewarden: logging is already set up: {error}");
    }
}

fn begin(subscriber: impl Subscriber + Send + Sync + 'static) -> Result<(), TryInitError> {
    subscriber.try_init()
}

fn of_settings(settings: LogSettings) -> Targets {
    let all = Targets::new().with_default(LevelFilter::INFO);
    // The caller of each request to the API server says what failed.
    let all = all.with_target("kube_client::client::builder", LevelFilter::OFF);
    match settings.verbosity >= DEBUG {
        true => all.with_target("nodewarden", LevelFilter::DEBUG),
        false => all,
    }
}

/// The levels of a text, and the parts of it that are none. Without any it is the level info.
fn of_text(text: &str) -> (Targets, Vec<&str>) {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let (good, wrong): (Vec<_>, Vec<_>) = parts.partition(|part| part.parse::<Targets>().is_ok());
    let levels = good.join(",").parse().ok().filter(|_| !good.is_empty());
    (levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO)), wrong)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_of_the_settings_go_by_module() {
        let quiet = of_settings(LogSettings::default());
        assert!(quiet.would_enable("nodewarden_cri", &Level::INFO));
        assert!(!quiet.would_enable("nodewarden_cri", &Level::DEBUG));
        assert!(!quiet.would_enable("kube_client::client::builder", &Level::ERROR));
        let verbose = of_settings(LogSettings { verbosity: DEBUG, ..LogSettings::default() });
        assert!(verbose.would_enable("nodewarden_cri::client", &Level::DEBUG));
        assert!(!verbose.would_enable("hyper", &Level::DEBUG));
    }

    #[test]
    fn the_variable_has_levels_and_what_is_none_is_named() {
        let (levels, wrong) = of_text("warn, nodewarden::journal=debug,hyper=loud,a=b=c,");
        assert_eq!(wrong, ["hyper=loud", "a=b=c"]);
        assert!(levels.would_enable("nodewarden::journal::writer", &Level::DEBUG));
        assert!(levels.would_enable("hyper", &Level::WARN) && !levels.would_enable("hyper", &Level::INFO));
        let (only, wrong) = of_text("nodewarden_cri=trace");
        assert!(wrong.is_empty() && only.would_enable("nodewarden_cri", &Level::TRACE));
        assert!(!only.would_enable("hyper", &Level::ERROR), "others are not logged");
        let (none, wrong) = of_text("hyper=loud,");
        assert_eq!((none.would_enable("hyper", &Level::INFO), wrong.len()), (true, 1));
    }
}
