//! `pool scrub`: administrators start, pause and stop a scrub.

use store::engine::{Pool, ScanKind, ScanState};

use crate::registry::Pools;
use model::pool::scan::ScrubAction;
use model::{Error, ErrorKind};

impl Pools {
    /// Starts, pauses or stops a scrub.
    ///
    /// # Errors
    /// The pool does not exist, there is nothing to pause or stop, or a resilver is at work.
    pub fn scrub(&self, name: &str, action: ScrubAction) -> Result<(), Error> {
        let pool = self.get(name)?;
        pool.require_writable()?;
        let done = pool
            .host
            .handle(move |hands| scrub(hands.pool, action, hands.now_us));
        let refused = |reason: String| {
            Error::new(
                ErrorKind::Refused,
                reason,
                format!("see `sandstone pool status {name}`"),
            )
        };
        let result = done.map_err(|error| refused(error.to_string()))?;
        result.map_err(|reason| {
            let doing = match action {
                ScrubAction::Start => "scrub",
                ScrubAction::Pause => "pause scrubbing",
                ScrubAction::Stop => "cancel scrubbing",
            };
            refused(format!("cannot {doing} {name}: {reason}"))
        })
    }
}

fn scrub(pool: &mut Pool, action: ScrubAction, now_us: u64) -> Result<(), &'static str> {
    use ScanKind::{Resilver, Scrub};
    use ScanState::{Paused, Running};
    match (action, pool.scan_state()) {
        (_, _) if pool.suspended_because().is_some() => {
            return Err("the pool takes no changes");
        }
        (ScrubAction::Start, Some((Resilver, Running))) => match pool.waiting_scrub() {
            Some(Paused) => pool.scrub(now_us),
            Some(_) => return Err("a resilver is in progress; the scrub starts again after it"),
            None => return Err("a resilver is in progress; start the scrub when it is done"),
        },
        (ScrubAction::Start, Some((Scrub, Running))) => {
            return Err("a scrub is in progress; stop it with -s, or pause it with -p");
        }
        (ScrubAction::Start, _) => pool.scrub(now_us),
        (ScrubAction::Pause, Some((Scrub, Running))) => pool.pause_scrub(),
        (ScrubAction::Pause, _) if pool.waiting_scrub() == Some(Running) => pool.pause_scrub(),
        (ScrubAction::Stop, Some((Scrub, Running | Paused))) => pool.stop_scrub(),
        (ScrubAction::Stop, _) if pool.waiting_scrub().is_some() => pool.stop_scrub(),
        (ScrubAction::Pause | ScrubAction::Stop, _) => return Err("there is no active scrub"),
    }
    Ok(())
}
