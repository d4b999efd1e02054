//! systemd-logind's inhibitors (org.freedesktop.login1(5)): a shutdown of the machine is announced and
//! delayed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::{Connection, OwnedFd, OwnedVariant, Proxy};

const SERVICE: &str = "org.freedesktop.login1";
const OBJECT: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// The drop-in that raises the longest delay: read after a distribution's own, as a kubelet's
/// `99-kubelet.conf`.
const DROP_IN: &str = "99-nodewarden.conf";
/// Where drop-ins of logind are.
const DIRECTORY: &str = "/etc/systemd/logind.conf.d";

/// Time limit of one call.
const CALL: Duration = Duration::from_secs(10);
/// How long a reload of logind's configuration may take, and how often it is looked at.
const RELOAD: [Duration; 2] = [Duration::from_secs(5), Duration::from_millis(200)];

/// Why a shutdown cannot be delayed.
#[derive(Debug, thiserror::Error)]
pub enum LogindError {
    /// The system bus or logind cannot be reached, or refuses.
    #[error("logind: {call}: {source}")]
    Call {
        /// The method, property or signal.
        call: &'static str,
        /// What was answered.
        source: Box<zbus::Error>,
    },
    /// No answer in time.
    #[error("logind: {call}: no answer within {} s", CALL.as_secs())]
    NoAnswer {
        /// The method or property.
        call: &'static str,
    },
    /// The drop-in with the longer delay cannot be written.
    #[error("cannot write {DIRECTORY}/{DROP_IN}: {0}")]
    DropIn(#[from] io::Error),
    /// logind allows a shorter delay than is asked for, in spite of the drop-in.
    #[error("logind delays a shutdown by {} s at most, and {} s are asked for", allowed.as_secs(), wanted.as_secs())]
    TooShort {
        /// What it allows.
        allowed: Duration,
        /// What is asked for.
        wanted: Duration,
    },
    /// The connection to the system bus ended.
    #[error("logind: the connection to the system bus ended")]
    Ended,
}

/// A connection to logind.
#[derive(Debug)]
pub struct Logind(Connection);

/// Delays a shutdown until it is dropped, or until the longest delay has passed.
#[derive(Debug)]
pub struct Inhibitor(#[expect(dead_code, reason = "held open")] OwnedFd);

/// Announcements of shutdowns.
pub struct Announcements(zbus::proxy::SignalStream<'static>);

impl Logind {
    /// Connects over the system bus.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn connect() -> Result<Self, LogindError> {
        bounded("connect", Builder::system().build()).await.map(Self)
    }

    /// The longest time by which a shutdown is delayed: `InhibitDelayMaxSec`.
    ///
    /// # Errors
    /// logind does not answer.
    pub async fn longest_delay(&self) -> Result<Duration, LogindError> {
        const PROPERTY: &str = "InhibitDelayMaxUSec";
        let get = self.0.call_method(Some(SERVICE), OBJECT, Some(PROPERTIES), "Get", &(MANAGER, PROPERTY));
        let reply = bounded(PROPERTY, get).await?;
        let fail = |source: zbus::Error| LogindError::Call { call: PROPERTY, source: Box::new(source) };
        let value = reply.body().deserialize::<OwnedVariant>().map_err(fail)?;
        let micros = u64::try_from(value).map_err(fail)?;
        Ok(Duration::from_micros(micros))
    }

    /// Has logind allow a delay of `wanted`: if it is longer than what is allowed, by a drop-in that stays.
    ///
    /// # Errors
    /// logind does not answer or keeps a shorter delay, or the drop-in cannot be written.
    pub async fn allow_delay(&self, wanted: Duration) -> Result<(), LogindError> {
        if self.longest_delay().await? >= wanted {
            return Ok(());
        }
        let written = tokio::task::spawn_blocking(move || write_drop_in(Path::new(DIRECTORY), wanted)).await;
        written.unwrap_or_else(|panic| Err(io::Error::other(panic)))?;
        // logind reads its configuration again at SIGHUP.
        let kill = self.0.call_method(
            Some("org.freedesktop.systemd1"),
            "/org/freedesktop/systemd1",
            Some("org.freedesktop.systemd1.Manager"),
            "KillUnit",
            &("systemd-logind.service", "all", 1_i32),
        );
        bounded("KillUnit", kill).await?;
        let [limit, look] = RELOAD;
        let begun = tokio::time::Instant::now();
        loop {
            let allowed = self.longest_delay().await?;
            if allowed >= wanted {
                return Ok(());
            }
            if begun.elapsed() > limit {
                return Err(LogindError::TooShort { allowed, wanted });
            }
            tokio::time::sleep(look).await;
        }
    }

    /// Delays shutdowns until the result is dropped.
    ///
    /// # Errors
    /// logind does not answer or refuses.
    pub async fn inhibit(&self, who: &str, why: &str) -> Result<Inhibitor, LogindError> {
        const CALL_NAME: &str = "Inhibit";
        let body = ("shutdown", who, why, "delay");
        let reply =
            bounded(CALL_NAME, self.0.call_method(Some(SERVICE), OBJECT, Some(MANAGER), CALL_NAME, &body))
                .await?;
        let lock = reply.body().deserialize::<OwnedFd>();
        lock.map(Inhibitor).map_err(|source| LogindError::Call { call: CALL_NAME, source: Box::new(source) })
    }

    /// Follows the announcements of shutdowns.
    ///
    /// # Errors
    /// The system bus does not answer or refuses.
    pub async fn announcements(&self) -> Result<Announcements, LogindError> {
        let proxy = bounded("proxy", Proxy::new(&self.0, SERVICE, OBJECT, MANAGER)).await?;
        bounded("PrepareForShutdown", proxy.receive_signal("PrepareForShutdown")).await.map(Announcements)
    }
}

impl Announcements {
    /// The next one: true when a shutdown begins, false when it was cancelled.
    ///
    /// # Errors
    /// The connection ended.
    pub async fn next(&mut self) -> Result<bool, LogindError> {
        loop {
            let message = self.0.next().await.ok_or(LogindError::Ended)?;
            if let Ok(begins) = message.body().deserialize::<bool>() {
                return Ok(begins);
            }
        }
    }
}

async fn bounded<T>(
    call: &'static str,
    answer: impl Future<Output = Result<T, zbus::Error>>,
) -> Result<T, LogindError> {
    match timeout(CALL, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(LogindError::Call { call, source: Box::new(source) }),
        Err(_) => Err(LogindError::NoAnswer { call }),
    }
}

/// Writes the drop-in; one that is there already with the same content is left alone.
fn write_drop_in(directory: &Path, delay: Duration) -> io::Result<()> {
    let content = drop_in(delay);
    let path = directory.join(DROP_IN);
    if fs::read_to_string(&path).is_ok_and(|known| known == content) {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    fs::write(path, content)
}

fn drop_in(delay: Duration) -> String {
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    format!(
        "# Written by nodewarden: shutdownGracePeriod needs this delay.\n[Login]\nInhibitDelayMaxSec={seconds}\n"
    )
}

#[cfg(test)]
mod tests;
