//! Fence around a protected pool: a persistent reservation on each of its disks that is another
//! machine's keeps other hosts from writing. The records of `import/multihost.rs` tell a host to
//! stop. The reservation also stops writes that the host sent before.
//!
//! The order matters:
//! 1. An opening proves that no host writes records. Only then does it register with the devices:
//!    its claim must be written while the former host's reservation may still stand.
//! 2. When the claim has won, it preempts all other hosts and aborts their requests under way. Only
//!    then are the labels read by which the pool is opened.
//! 3. A pool that is let go in order releases its devices after its last write.
//!
//! The steps of a path, and why no write of a former host lands:
//! `scsi::application_client::reserving`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::ownership::Ownership;
use block::BlockDevice;
use block::fence::{End, Fence, FenceOrder, FenceState, Goal, ReservationKey};
use model::{Error, ErrorKind};

/// Longest time for a device to obey.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest time for a release. The pool is let go in any case.
const FAREWELL: Duration = Duration::from_secs(3);

/// Device and its name.
pub(super) type Named = (PathBuf, Arc<dyn BlockDevice>);

/// Owner of a pool's reservations: one opening by one host.
#[derive(Clone, Debug)]
pub(super) struct PoolFence {
    fence: Fence,
    /// Unknown before the pool is open.
    ownership: Arc<OnceLock<Ownership>>,
}

impl PoolFence {
    /// Returns the fence of one opening.
    pub(super) fn new(host: &str, opening: u64) -> Self {
        let ownership = Arc::new(OnceLock::<Ownership>::new());
        let known = Arc::clone(&ownership);
        let is_owner = move || known.get().is_none_or(Ownership::is_sure);
        Self {
            fence: Fence {
                key: ReservationKey::new(host, opening),
                is_owner: Arc::new(is_owner),
            },
            ownership,
        }
    }

    /// Follows the time until which the open pool is this host's.
    pub(super) fn follow(&self, ownership: &Ownership) {
        // Once for each opening.
        let _ = self.ownership.set(ownership.clone());
    }

    /// Lets this host write to devices, whoever has reserved them. On devices that do not take
    /// part, the pool's claims fail.
    ///
    /// # Errors
    /// None of the devices takes part.
    pub(super) fn register(&self, devices: &[Named]) -> Result<(), Error> {
        let ended = self.order(Goal::Register, devices, PATIENCE);
        let is_any_left = ended.len() < devices.len();
        let results = ended.into_iter().map(|(path, end)| judge(path, end));
        let (good, bad): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
        let mut failures = bad.into_iter().filter_map(Result::err);
        match failures.next() {
            Some(error) if good.is_empty() && !is_any_left => Err(error),
            first => {
                for error in first.into_iter().chain(failures) {
                    tracing::warn!(%error, "a device cannot be reserved");
                }
                Ok(())
            }
        }
    }

    /// Keeps all other hosts from writing to devices. Without `force`, devices that hold another
    /// host's key are refused.
    ///
    /// # Errors
    /// A device does not answer, or refuses. The others are then released.
    pub(super) fn take(&self, devices: &[Named], force: bool) -> Result<(), Error> {
        let ended = self.order(Goal::Take { force }, devices, PATIENCE);
        let mut ended = ended.into_iter();
        let taken = ended.try_for_each(|(path, end)| judge(path, end));
        taken.inspect_err(|_| self.release(devices))
    }

    /// Lets other hosts write to the devices that can be reached.
    pub(super) fn release(&self, devices: &[Named]) {
        for (path, end) in self.order(Goal::Release, devices, FAREWELL) {
            if let None | Some(End::Failed(_)) = end {
                let path = path.display();
                tracing::warn!(%path, ?end, "a reservation was not released; the next host that uses the \
                                             device preempts it");
            }
        }
    }

    /// Sends an order to all devices at once and returns each result, or `None` if there is none
    /// yet. This machine's devices take no part.
    fn order<'a>(
        &self,
        goal: Goal,
        devices: &'a [Named],
        patience: Duration,
    ) -> Vec<(&'a Path, Option<End>)> {
        let begun: Vec<_> = devices
            .iter()
            .filter_map(|(path, device)| {
                let fence = self.fence.clone();
                Some((path.as_path(), device.fence(FenceOrder { fence, goal })?))
            })
            .collect();
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let ended = begun.into_iter();
        ended
            .map(|(path, fencing)| (path, fencing.recv_timeout(left()).ok()))
            .collect()
    }
}

/// Checks whether a device obeyed. A device without support for reservations does without one.
fn judge(path: &Path, end: Option<End>) -> Result<(), Error> {
    let path = path.display();
    let why = match end {
        Some(End::Done) => return Ok(()),
        Some(End::Unsupported) => {
            tracing::info!(%path, "the device does not support persistent reservations");
            return Ok(());
        }
        Some(End::Others(key)) => {
            return Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "{path} is reserved by another host (a persistent reservation, key {key:#018x})"
                ),
                "find out which host uses it, and release the reservation there; if no host uses it any \
                 more, use -f: the reservation is preempted, and the data on the disk is overwritten",
            ));
        }
        Some(End::Failed(why)) => why,
        None => format!(
            "the device did not answer within {} seconds",
            PATIENCE.as_secs()
        ),
    };
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("{path} cannot be reserved for this host: {why}"),
        "see `sandstone initiator session list` for its paths, and try again when they are up",
    ))
}

/// Describes the reservations of a protected pool for its status. Returns an empty text if all
/// devices are this machine's.
pub(super) fn text(devices: &[Named]) -> String {
    let states = devices
        .iter()
        .filter_map(|(path, device)| Some((path, device.fence_state()?)));
    let states: Vec<_> = states.collect();
    let names = |wanted: &[FenceState]| {
        let of = states.iter().filter(|(_, state)| wanted.contains(state));
        let names: Vec<String> = of.map(|(path, _)| path.display().to_string()).collect();
        names.join(", ")
    };
    let (without, open) = (
        names(&[FenceState::Unsupported]),
        names(&[FenceState::Open, FenceState::Lost]),
    );
    let mut text = String::new();
    if !names(&[FenceState::Held]).is_empty() {
        text.push_str(
            "; other machines' disks are reserved for this host (persistent reservations)",
        );
    }
    if !without.is_empty() {
        text.push_str(&format!(
            "; without a reservation, since the target does not support it: {without}"
        ));
    }
    if !open.is_empty() {
        text.push_str(&format!("; not reserved: {open}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::since_boot_us;

    #[test]
    fn a_pool_is_its_hosts_until_it_says_otherwise() {
        let fence = PoolFence::new("a/1", 7);
        let is_owner = || (fence.fence.is_owner)();
        assert!(is_owner(), "it is being opened");
        let ownership = Ownership::unlimited();
        fence.follow(&ownership);
        assert!(is_owner());
        ownership.own_until(since_boot_us() + 60_000_000);
        assert!(is_owner());
        ownership.own_until(since_boot_us() - 1);
        assert!(!is_owner());
    }
}
