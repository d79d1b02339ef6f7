//! Snapshots from the daemon, each of them once.

use std::time::{Duration, Instant};

use control::Client;
use control::endpoint::status::FIGURES;
use model::figures::Snapshot;
use model::{Error, ErrorKind};

/// Time between two looks for a snapshot that is due.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Longest wait for a snapshot that is due.
const OVERDUE: Duration = Duration::from_secs(10);

/// Returns the first snapshot after another one.
///
/// # Errors
/// The daemon does not answer, or takes no snapshots.
pub(crate) fn after(client: &Client, before: &Snapshot) -> Result<Snapshot, Error> {
    let give_up = Instant::now() + OVERDUE;
    loop {
        let now = client.call(&FIGURES, &[])?;
        if now.began_unix_ms != before.began_unix_ms || now.at_us > before.at_us {
            return Ok(now);
        }
        if Instant::now() > give_up {
            let waited = OVERDUE.as_secs();
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the daemon has taken no snapshot for {waited} seconds"),
                "see the daemon's log; if its machine is not overloaded, report this as a defect",
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Returns an earlier snapshot if the later one counts from the same beginning. Another daemon
/// counts from zero, as does the first report.
pub(crate) fn comparable(before: Snapshot, now: &Snapshot) -> Snapshot {
    match now.began_unix_ms == before.began_unix_ms {
        true => before,
        false => Snapshot::default(),
    }
}
