//! Calls to systemd's manager object (org.freedesktop.systemd1(5)), each bounded in time.
//!
//! A conversation is a connection of its own, over systemd's private socket if that can be reached (as root;
//! it needs no D-Bus daemon), else over the system bus, as in systemctl. It is short on purpose: systemd
//! sends every signal to all clients of its private socket and keeps unread signals in its own memory. A
//! short connection also needs no repair after a `daemon-reexec`.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout_at;
use zbus::connection::Builder;
use zbus::{Connection, DynamicType, Message, OwnedObjectPath, OwnedVariant, Variant};

use super::error::{WayCause, WayError};
use super::private::Private;
use super::properties::Property;
use super::{SystemdError, Unit};
use nodewarden_model::backoff::Backoff;

/// Time limit for all requests of one call of the driver.
const LIMIT: Duration = Duration::from_secs(30);
/// Pauses between two attempts.
const PAUSE: Backoff = Backoff::doubling(Duration::from_millis(1), Duration::from_millis(100));

/// Time limit of one attempt to connect, before the next address is tried.
const ON_THE_WAY: Duration = Duration::from_secs(10);

const PRIVATE: &str = "/run/systemd/private";
const SYSTEM: &str = "the system bus";
const SERVICE: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";

/// D-Bus error: a unit of that name is loaded already.
const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// One conversation.
pub struct Bus {
    connection: Connection,
    until: Instant,
    /// systemd's version: the first number in its `Version` (`257.7-1~deb13u1`, `v245.4`).
    pub version: u32,
}

/// Connects and runs `work` until it is done or its time is over. `work` is run again if the connection is
/// lost, so its requests must be repeatable.
///
/// Must not be called from async code: it blocks on a runtime of its own.
///
/// # Errors
/// Those of `work`; systemd cannot be reached; no runtime can be created.
pub fn talk<T>(work: impl AsyncFn(&Bus) -> Result<T, SystemdError>) -> Result<T, SystemdError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| SystemdError::Runtime { source })?;
    runtime.block_on(async {
        let until = Instant::now() + LIMIT;
        let mut pause = PAUSE;
        loop {
            let done = match Bus::connect(until).await {
                Ok(bus) => work(&bus).await,
                Err(error) => Err(error),
            };
            match done {
                Err(error) if error.is_lost() && Instant::now() + pause.wait() < until => {
                    tokio::time::sleep(pause.advance()).await;
                }
                done => return done,
            }
        }
    })
}

impl Bus {
    async fn connect(until: Instant) -> Result<Self, SystemdError> {
        let mut ways = Vec::new();
        for address in [PRIVATE, SYSTEM] {
            let soon = until.min(Instant::now() + ON_THE_WAY);
            let cause = match timeout_at(soon.into(), Self::by(address, until)).await {
                Ok(Ok(bus)) => return Ok(bus),
                Ok(Err(cause)) => cause,
                Err(_) => WayCause::NoAnswer,
            };
            ways.push(WayError { address, cause });
        }
        Err(SystemdError::Connect { ways })
    }

    /// The request for the version shows that systemd answers at this address.
    async fn by(address: &str, until: Instant) -> Result<Self, WayCause> {
        let builder = match address {
            PRIVATE => Builder::socket(Private::connect(PRIVATE).await?).p2p(),
            _ => Builder::system(),
        };
        let mut bus = Self { connection: builder.build().await?, until, version: 0 };
        let version: Result<String, _> = bus.property("systemd", OBJECT, MANAGER, "Version").await;
        bus.version = version_number(&version.map_err(Box::new)?);
        Ok(bus)
    }

    /// Creates a transient unit, which does not survive a boot, and waits until it is active.
    ///
    /// `false`: a unit of that name was active before and is not changed.
    pub async fn start_transient(&self, unit: &Unit, properties: &[Property]) -> Result<bool, SystemdError> {
        const CALL: &str = "StartTransientUnit";
        /// After this number of looks, an inactive unit that systemd does not unload is started as it is.
        const PATIENCE: u32 = 5;
        let properties: Vec<_> = properties.iter().map(Property::to_bus).collect();
        let others: [(&str, Vec<(&str, Variant<'_>)>); 0] = [];
        let body = (unit.name(), "replace", properties, &others[..]);
        let mut pause = PAUSE;
        for turn in 0.. {
            match self.manager(CALL, unit.name(), &body).await {
                Ok(_) => break,
                Err(error) if error.is_named(UNIT_EXISTS) => {}
                Err(error) => return Err(error),
            }
            match self.state(unit).await?.as_str() {
                "active" => return Ok(false),
                "inactive" | "failed" if turn >= PATIENCE => {
                    self.manager("StartUnit", unit.name(), &(unit.name(), "replace")).await?;
                    self.wait("StartUnit", unit, |state| state == "active").await?;
                    return Ok(false);
                }
                // systemd unloads it once nothing refers to it.
                "inactive" | "failed" => self.reset_failed(unit).await?,
                // It is activating or deactivating.
                _ => {}
            }
            self.pause(&mut pause, CALL, unit).await?;
        }
        self.wait(CALL, unit, |state| state == "active").await?;
        Ok(true)
    }

    /// Sets properties until the next boot.
    pub async fn set(&self, unit: &Unit, properties: &[Property]) -> Result<(), SystemdError> {
        if properties.is_empty() {
            return Ok(());
        }
        let properties: Vec<_> = properties.iter().map(Property::to_bus).collect();
        let body = (unit.name(), true, properties);
        self.manager("SetUnitProperties", unit.name(), &body).await.map(drop)
    }

    /// Stops a unit, waits until it is no longer active, and resets its failed state. It is no error if it is
    /// not loaded.
    pub async fn stop(&self, unit: &Unit) -> Result<(), SystemdError> {
        const CALL: &str = "StopUnit";
        match self.manager(CALL, unit.name(), &(unit.name(), "replace")).await {
            Err(error) if error.is_named(NO_SUCH_UNIT) => return Ok(()),
            other => other.map(drop)?,
        }
        self.wait(CALL, unit, |state| matches!(state, "inactive" | "failed")).await?;
        self.reset_failed(unit).await
    }

    async fn reset_failed(&self, unit: &Unit) -> Result<(), SystemdError> {
        match self.manager("ResetFailedUnit", unit.name(), &(unit.name(),)).await {
            Err(error) if error.is_named(NO_SUCH_UNIT) => Ok(()),
            other => other.map(drop),
        }
    }

    /// The processes in its cgroup and below: each one's cgroup, pid and command. Empty if it is not loaded.
    pub async fn processes(&self, unit: &Unit) -> Result<Vec<(String, u32, String)>, SystemdError> {
        const CALL: &str = "GetUnitProcesses";
        match self.manager(CALL, unit.name(), &(unit.name(),)).await {
            Err(error) if error.is_named(NO_SUCH_UNIT) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(reply) => reply.body().deserialize().map_err(|source| SystemdError::Call {
                call: CALL,
                unit: unit.name().into(),
                source,
            }),
        }
    }

    /// Its `ActiveState`. systemd loads a unit when it is asked for it: a unit that does not exist is
    /// `inactive`.
    pub async fn state(&self, unit: &Unit) -> Result<String, SystemdError> {
        self.property(unit.name(), &unit.object(), UNIT, "ActiveState").await
    }

    /// Path of its cgroup; empty if it has none.
    pub async fn control_group(&self, unit: &Unit) -> Result<String, SystemdError> {
        self.property(unit.name(), &unit.object(), unit.interface(), "ControlGroup").await
    }

    /// Waits until the job that was created brings the unit into a state.
    async fn wait(
        &self,
        call: &'static str,
        unit: &Unit,
        reached: impl Fn(&str) -> bool,
    ) -> Result<(), SystemdError> {
        let mut pause = PAUSE;
        loop {
            // The job is read before the state: if it has ended, the state is its result.
            let (job, _): (u32, OwnedObjectPath) =
                self.property(unit.name(), &unit.object(), UNIT, "Job").await?;
            let state = self.state(unit).await?;
            if reached(&state) {
                return Ok(());
            }
            if job == 0 {
                return Err(SystemdError::JobFailed { call, unit: unit.name().into(), state });
            }
            self.pause(&mut pause, call, unit).await?;
        }
    }

    /// Waits before the next look; an error if the conversation's time is over.
    async fn pause(&self, pause: &mut Backoff, call: &'static str, unit: &Unit) -> Result<(), SystemdError> {
        if Instant::now() + pause.wait() >= self.until {
            let state = self.state(unit).await?;
            return Err(SystemdError::JobHangs { call, unit: unit.name().into(), state, limit: LIMIT });
        }
        tokio::time::sleep(pause.advance()).await;
        Ok(())
    }

    async fn manager<B>(&self, call: &'static str, unit: &str, body: &B) -> Result<Message, SystemdError>
    where
        B: Serialize + DynamicType,
    {
        self.call(call, unit, OBJECT, MANAGER, body).await
    }

    async fn property<T>(
        &self,
        unit: &str,
        object: &str,
        interface: &str,
        name: &'static str,
    ) -> Result<T, SystemdError>
    where
        T: DeserializeOwned + TryFrom<OwnedVariant>,
        T::Error: Into<zbus::Error>,
    {
        let call = "Get";
        let reply =
            self.call(call, unit, object, "org.freedesktop.DBus.Properties", &(interface, name)).await?;
        let value = reply.body().deserialize::<OwnedVariant>();
        value.and_then(|value| T::try_from(value).map_err(Into::into)).map_err(|source| SystemdError::Call {
            call: name,
            unit: unit.into(),
            source,
        })
    }

    async fn call<B>(
        &self,
        call: &'static str,
        unit: &str,
        object: &str,
        interface: &str,
        body: &B,
    ) -> Result<Message, SystemdError>
    where
        B: Serialize + DynamicType,
    {
        let answer = self.connection.call_method(Some(SERVICE), object, Some(interface), call, body);
        match timeout_at(self.until.into(), answer).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(source)) => Err(SystemdError::Call { call, unit: unit.into(), source }),
            Err(_) => Err(SystemdError::NoAnswer { call, unit: unit.into() }),
        }
    }
}

/// 0 for a text without a number: then no later feature is assumed.
fn version_number(text: &str) -> u32 {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, number) in
            [("257.7-1~deb13u1", 257), ("v245.4-1.fc32", 245), ("252", 252), ("260~devel", 260), ("", 0)]
        {
            assert_eq!(version_number(text), number, "{text:?}");
        }
    }
}
