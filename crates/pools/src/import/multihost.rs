//! One host at a time: whether a pool is protected, and the proof that no other host has it before it is opened.
//!
//! The protocol is the store's (`store::pool::Takeover`). Here it meets devices, clocks and those who wait.

mod shared;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::format::activity::ACTIVITY_OFFSET;
use store::format::{Activity, ActivityState, SECTOR_SIZE, Who};
use store::pool::{
    Circumstances, Examined, LeafLabels, Pace, PoolConfig, PoolProperty, Protected, Protection,
    RecordRequest, Refusal, Taken, Takeover, Waits, examine,
};
use store::vdev::layout::label_offset;

use super::opening::Clock;
use crate::devices::label;
use crate::fence::{Named, PoolFence};
use crate::host::Hands;
use crate::registry::{OpenPool, Pools};
use block::lane::Outcome;
use block::{BlockDevice, Done, Lane, Request, Submitted, Ticket};
use hint::Place;
use model::device_name::is_remote;
use model::pool::import::WaitView;
use model::{Error, ErrorKind};

/// Another machine's disk may be silent for so long: its paths may all be down for ten seconds without harm.
const REMOTE_PROMISE_US: u64 = 15_000_000;

/// A device of a pool that is to be opened.
pub(crate) type OpenedDevice = (PathBuf, Arc<dyn BlockDevice>, LeafLabels);

/// This machine and what runs on it.
pub(crate) fn who(host: &str) -> Who {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = boot.trim().replace('-', "");
    Who {
        host: host.to_owned(),
        // Without one, every start of the daemon counts as another boot: an opening waits.
        boot: u128::from_str_radix(&digits, 16)
            .unwrap_or_else(|_| u128::from(crate::random_u64()) << 64),
    }
}

/// Why a pool on these devices is to be protected; `None`: it is not.
pub(crate) fn reason<'a>(
    config: &PoolConfig,
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Option<String> {
    match config.properties.get(PoolProperty::Multihost) {
        Some(true) => Some("multihost=on".to_owned()),
        Some(false) => None,
        None => {
            // Another machine's disk counts also while it is away: it may come back to a pool that is open by then.
            let known = config.paths.values().map(PathBuf::from);
            let away = known.filter(|path| is_remote(path));
            paths.into_iter().cloned().chain(away).find_map(|path| {
                let why = shared::reachable(&path)?;
                Some(format!("{}: {why}", path.display()))
            })
        }
    }
}

/// How fast records follow one another at first.
pub(crate) fn pace<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Pace {
    match paths.into_iter().any(|path| is_remote(path)) {
        true => Pace::at_least(REMOTE_PROMISE_US),
        false => Pace::default(),
    }
}

/// How a pool that this host makes, or has open, says so from now on; `None`: it is not to be protected.
pub(crate) fn fresh<'a>(
    config: &PoolConfig,
    host: &str,
    paths: impl IntoIterator<Item = &'a PathBuf> + Clone,
) -> Option<Protection> {
    reason(config, paths.clone())?;
    let opening = crate::random_u64();
    Some(Protection::fresh(who(host), opening, pace(paths)))
}

/// How a pool is protected, in words; `fences`: what is to be added of its devices.
pub(crate) fn text(protected: &Protected, fences: &str) -> String {
    let seconds = |us: u64| match us % 1_000_000 {
        0 => format!("{} s", us / 1_000_000),
        _ => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
    };
    format!(
        "one at a time: this host says each {} on each device that it has the pool, and stops after {} in which it cannot{fences}",
        seconds(protected.pace.interval_us),
        seconds(protected.pace.promise_us)
    )
}

/// Other hosts are to be kept from the devices of an open pool, or not any more.
pub(crate) enum Change {
    /// As they were.
    None,
    /// By this from now on.
    On(PoolFence, Vec<Named>),
    /// Not any more.
    Off(Vec<Named>),
}

impl Change {
    /// Keeps other hosts from the devices that a pool has already, where it is protected from now on.
    ///
    /// # Errors
    /// A device refuses. The pool is protected by its records alone.
    pub(crate) fn begin(&self, pool: &OpenPool) -> Result<(), Error> {
        if let Self::On(fence, devices) = self {
            fence.take(devices, true)?;
            pool.host.keep_fence(Some(fence.clone()));
        }
        Ok(())
    }

    /// Lets other hosts write again, once labels say that the pool is not protected any more.
    pub(crate) fn end(&self, pool: &OpenPool) {
        if let (Self::Off(devices), Some(fence)) = (self, pool.host.fence()) {
            pool.host.keep_fence(None);
            fence.release(devices);
        }
    }
}

/// Begins to say that this host has an open pool, or ends, as its property asks and its devices do, `coming` among them.
/// What is to be done about its devices takes longer than the pool's thread may wait.
pub(crate) fn set(hands: &mut Hands<'_>, host: &str, coming: &[PathBuf]) -> Change {
    let places = hands.shared.places();
    let there = places.values().map(|place| place.path.clone());
    let paths: Vec<PathBuf> = there.chain(coming.iter().cloned()).collect();
    drop(places);
    let is_protected = hands.pool.protected().is_some();
    match fresh(hands.pool.config(), host, &paths) {
        Some(protection) if !is_protected => {
            let fence = PoolFence::new(host, protection.opening);
            hands.pool.protect(protection, true, hands.now_us);
            Change::On(fence, hands.named_devices())
        }
        None if is_protected => {
            hands.pool.unprotect(hands.now_us);
            Change::Off(hands.named_devices())
        }
        _ => Change::None,
    }
}

/// Whether a record says that somebody has the pool, and did not let it go in order.
fn is_claimed(examined: &Examined, opened: &[OpenedDevice]) -> bool {
    let key = examined.config.key();
    let copies = opened.iter().flat_map(|(_, _, labels)| &labels.copies);
    let records = copies.filter_map(|copy| {
        let at = ACTIVITY_OFFSET..ACTIVITY_OFFSET + SECTOR_SIZE;
        (copy.len() >= at.end).then(|| Activity::decode(&copy.slice(at), key))?
    });
    let newest = records.max_by_key(|record| (record.turn, record.sequence));
    newest.is_some_and(|record| record.state != ActivityState::Closed)
}

fn named(opened: &[OpenedDevice]) -> Vec<Named> {
    let devices = opened.iter();
    devices
        .map(|(path, device, _)| (path.clone(), Arc::clone(device)))
        .collect()
}

impl Pools {
    /// Waits for the proof that no other host has a pool, and claims it; then its labels are read again. Devices that do not
    /// take part are left out. Where the pool is not protected, nothing is done.
    ///
    /// # Errors
    /// Another host has the pool; then nothing was written to its devices.
    pub(crate) fn prove_alone(
        &self,
        guid: u64,
        opened: &mut Vec<OpenedDevice>,
        examined: &mut Examined,
        is_read_only: bool,
        force: bool,
    ) -> Result<Option<PoolFence>, Error> {
        let paths = opened.iter().map(|(path, _, _)| path);
        let is_wanted = reason(&examined.config, paths.clone()).is_some();
        if !is_wanted && !is_claimed(examined, opened) {
            if force && !is_read_only {
                // Nobody proves anything; whoever says so takes what another host left behind.
                let fence = PoolFence::new(&self.host_id(), crate::random_u64());
                let devices = named(opened);
                fence.take(&devices, true)?;
                fence.release(&devices);
            }
            return Ok(None);
        }
        let config = &examined.config;
        let of = Circumstances {
            key: config.key(),
            who: who(&self.host_id()),
            opening: crate::random_u64(),
            chance: crate::random_u64(),
            pace: pace(paths),
            is_exported: config.is_exported,
            host: config.host.clone(),
            is_read_only,
        };
        let leaves = examined.leaves.iter();
        let there: Vec<(usize, u64)> = leaves
            .enumerate()
            .filter_map(|(device, leaf)| Some((device, (*leaf)?)))
            .collect();
        let devices = there.iter().map(|(device, _)| {
            let (path, device, _) = &opened[*device];
            (path.clone(), Arc::clone(device))
        });
        let devices: Vec<Named> = devices.collect();
        let fence = PoolFence::new(&of.who.host, of.opening);
        let guids: Vec<u64> = there.iter().map(|(_, leaf)| *leaf).collect();
        let name = config.name.clone();
        let waits = |wait: WaitView| {
            self.note_wait(guid, Some(wait));
            self.refuse_at_the_end()
        };
        let proven = Proof::new(of, &guids, devices.clone(), fence.clone())
            .and_then(|mut proof| proof.run(&name, guid, &waits));
        self.note_wait(guid, None);
        let proven = proven.and_then(|of| of.map_err(|refusal| refused(&name, &refusal)));
        let taken = proven.inspect_err(|_| fence.release(&devices))?;
        let left_out: Vec<usize> = taken.left_out.iter().map(|at| there[*at].0).collect();
        for device in left_out.into_iter().rev() {
            let (path, _, _) = opened.remove(device);
            let path = path.display();
            tracing::warn!(%path, "a device takes no activity record, and is left out");
        }
        let fence = (taken.protection.is_some()).then_some(fence);
        if let Some(fence) = &fence {
            fence.take(&named(opened), true)?;
        }
        // The host that had it before may have written until now.
        for (path, device, labels) in opened.iter_mut() {
            *labels = label::read(&**device).map_err(|error| label::failed("read", path, error))?;
        }
        let labels: Vec<LeafLabels> = opened.iter().map(|(_, _, labels)| labels.clone()).collect();
        *examined = examine(&labels, Some(guid)).map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {name} changed while it was watched: {error}"),
                "import it again",
            )
        })?;
        examined.protection = taken.protection;
        // What another host left behind is gone; from now on nobody is kept from them.
        let unwanted = fence.as_ref().filter(|_| !is_wanted);
        unwanted.inspect(|fence| fence.release(&devices));
        Ok(fence.filter(|_| is_wanted))
    }
}

fn refused(name: &str, refusal: &Refusal) -> Error {
    let (kind, next) = match refusal {
        Refusal::Active(by) => (
            ErrorKind::InUse,
            format!(
                "export it on {0}; -f does not open a pool that another host uses. Where {0} hangs, switch it off, then \
                 import the pool again: `sandstone pool import -f {name}`, with the same -d",
                by.who.machine()
            ),
        ),
        Refusal::Contested(by) => (
            ErrorKind::InUse,
            format!(
                "decide which host is to have it, end the import on the other ({}), and try again",
                by.who.host
            ),
        ),
        Refusal::Slow => (
            ErrorKind::Unavailable,
            "find out why they are slow (see the kernel's log), and try again".to_owned(),
        ),
        Refusal::NoDevice => (
            ErrorKind::Unavailable,
            "check the devices and the kernel's log; `sandstone pool import -o readonly=on` opens it without writing"
                .to_owned(),
        ),
    };
    Error::new(kind, format!("pool {name} is not opened: {refusal}"), next)
}

/// The protocol at work on devices.
struct Proof {
    takeover: Takeover,
    devices: Vec<Named>,
    /// Lets the claim be written, whatever the host before left behind.
    fence: PoolFence,
    is_registered: bool,
    lane: Lane,
    clock: Clock,
    /// What devices work on.
    flights: slab::Slab<RecordRequest>,
}

impl Proof {
    fn new(
        of: Circumstances,
        leaves: &[u64],
        devices: Vec<Named>,
        fence: PoolFence,
    ) -> Result<Self, Error> {
        let lane = Lane::standing()
            .map_err(|error| Error::system(Place::Process, "wait for devices", error))?;
        let clock = Clock::start();
        Ok(Self {
            takeover: Takeover::new(of, leaves, clock.now_us()),
            devices,
            fence,
            is_registered: false,
            lane,
            clock,
            flights: slab::Slab::new(),
        })
    }

    /// Runs to its end; tells what it waits for.
    fn run(
        &mut self,
        name: &str,
        guid: u64,
        waits: &impl Fn(WaitView) -> Result<(), Error>,
    ) -> Result<Result<Taken, Refusal>, Error> {
        let mut told = Waits::Looks;
        let mut completions = Vec::new();
        loop {
            self.submit_all()?;
            if let Some(outcome) = self.takeover.outcome() {
                return Ok(outcome.clone());
            }
            let now_us = self.clock.now_us();
            let progress = self.takeover.progress(now_us);
            let left = Duration::from_micros(progress.until_us.saturating_sub(now_us));
            let wait = view(name, guid, &progress.waits, left);
            if progress.waits != told {
                tracing::info!(pool = name, seconds = wait.seconds, "{}", wait.why);
                told = progress.waits;
            }
            waits(wait)?;
            let until = self.takeover.deadline_us().and_then(|at| self.clock.at(at));
            let until = until.unwrap_or_else(Instant::now);
            self.lane
                .wait(Some(until))
                .map_err(|error| Error::system(Place::Process, "wait for devices", error))?;
            self.lane.take_completions(&mut completions);
            for (token, outcome) in completions.drain(..) {
                if let Some(request) = self.flights.try_remove(token as usize) {
                    self.answer(&request, &outcome);
                }
            }
            let now_us = self.clock.now_us();
            if self.takeover.deadline_us().is_some_and(|at| at <= now_us) {
                self.takeover.tick(now_us);
            }
        }
    }

    fn answer(&mut self, request: &RecordRequest, outcome: &Outcome) {
        let nothing = pages::Pages::new();
        let answer = match outcome {
            Ok(Done::Pages(data)) => Some(data),
            Ok(_) => Some(&nothing),
            Err(_) => None,
        };
        let now_us = self.clock.now_us();
        self.takeover.completed(request, answer, now_us);
    }

    fn submit_all(&mut self) -> Result<(), Error> {
        let requests = self.takeover.take_requests();
        if !self.is_registered && requests.iter().any(|request| request.write.is_some()) {
            // Not before: whoever only looks has no business at the devices.
            self.fence.register(&self.devices)?;
            self.is_registered = true;
        }
        for request in requests {
            let device = Arc::clone(&self.devices[request.device].1);
            let at = label_offset(request.copy as u64, device.geometry().len);
            let Some(offset) = at.map(|at| at + ACTIVITY_OFFSET as u64) else {
                let now_us = self.clock.now_us();
                self.takeover.completed(&request, None, now_us);
                continue;
            };
            let order = match request.write.clone() {
                Some(data) => Request::Write {
                    offset,
                    data,
                    durable: false,
                },
                None => Request::Read {
                    offset,
                    len: SECTOR_SIZE as u32,
                },
            };
            let token = self.flights.insert(request);
            let ticket = Ticket::new(token as u64);
            if let Submitted::Ready(outcome) = device.submit(order, ticket, &mut self.lane) {
                let request = self.flights.remove(token);
                self.answer(&request, &outcome);
            }
        }
        self.lane.submit_batch();
        Ok(())
    }
}

fn view(pool: &str, guid: u64, waits: &Waits, left: Duration) -> WaitView {
    let why = match waits {
        Waits::Looks => "the activity records of its devices are read".to_owned(),
        Waits::Watches(by) => format!(
            "{} had it and did not let it go in order: its devices are watched, whether it still uses them",
            by.who.machine()
        ),
        Waits::WatchesUnknown => {
            "another host may have it: its devices are watched, whether that uses them".to_owned()
        }
        Waits::Verifies => {
            "this host has claimed it, and waits whether another one objects".to_owned()
        }
    };
    WaitView {
        pool: pool.to_owned(),
        guid: format!("{guid:016x}"),
        seconds: left.as_millis().div_ceil(1000) as u64,
        why,
    }
}
