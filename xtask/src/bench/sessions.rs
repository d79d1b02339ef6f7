//! Cost of sessions that do nothing: the time to log many in at once, their memory and their CPU.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::Held;
use super::process;
use super::server::{Server, TargetKind};

/// Name for `--only`.
pub(super) const NAME: &str = "sessions";

/// Number of sessions that log in at once for the time.
pub(super) const STORM: usize = 500;

/// Cost of silent sessions on one target.
#[derive(Debug, Serialize)]
pub(super) struct Sessions {
    pub kind: TargetKind,
    /// `(sessions, resident KiB)`, before anything was written to the unit.
    pub resident_kib: Vec<(usize, u64)>,
    /// Share of a core without any session, 0 to 1.
    pub idle_share: f64,
    /// Share of a core with 100 silent sessions.
    pub idle_share_100: f64,
    /// Seconds to log in [`STORM`] sessions at once, each try.
    pub storm_s: Vec<f64>,
}

/// Measures a freshly started target.
pub(super) fn measure(kind: TargetKind, sandstone: &Path, quick: bool) -> Result<Sessions, String> {
    let server = Server::start(kind, sandstone)?;
    let (watch_s, tries) = if quick { (1.0, 1) } else { (10.0, 3) };
    std::thread::sleep(Duration::from_millis(500));
    let mut resident_kib = vec![(0, process::resident_kib(server.pid())?)];
    let idle_share = share(&server, watch_s)?;
    let mut idle_share_100 = 0.0;
    for sessions in [100, 1000] {
        let held = Held::log_in(&server, sessions)?;
        std::thread::sleep(Duration::from_millis(500));
        resident_kib.push((sessions, process::resident_kib(server.pid())?));
        if sessions == 100 {
            idle_share_100 = share(&server, watch_s)?;
        }
        drop(held);
        std::thread::sleep(Duration::from_millis(500));
    }
    let mut storm_s = Vec::new();
    for _ in 0..tries {
        let held = Held::log_in(&server, STORM)?;
        storm_s.push(held.seconds);
        drop(held);
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(Sessions {
        kind,
        resident_kib,
        idle_share,
        idle_share_100,
        storm_s,
    })
}

/// Returns the target's share of a core over a while.
fn share(server: &Server, watch_s: f64) -> Result<f64, String> {
    let (start, before) = (Instant::now(), process::cpu_s(server.pid())?);
    std::thread::sleep(Duration::from_secs_f64(watch_s));
    Ok((process::cpu_s(server.pid())? - before) / start.elapsed().as_secs_f64())
}
