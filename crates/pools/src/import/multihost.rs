//! One host at a time: the protection of a pool, and the proof before an opening that no other host
//! has the pool.
//!
//! The store (`store::engine::Takeover`) defines the protocol. This file connects it to devices,
//! clocks and waiting callers.

mod shared;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::engine::{
    Circumstances, Examined, LeafLabels, Pace, PoolConfig, PoolProperty, Protected, Protection,
    RecordRequest, Refusal, Taken, Takeover, Waits, examine,
};
use store::format::activity::ACTIVITY_OFFSET;
use store::format::{Activity, ActivityState, SECTOR_SIZE, Who};
use store::vdev::layout::label_offset;

use crate::clock::Clock;
use crate::devices::label;
use crate::fence::{Named, PoolFence};
use crate::order::Hands;
use crate::registry::{OpenPool, Pools};
use block::lane::Outcome;
use block::{BlockDevice, Done, Lane, Request, Submitted, Ticket};
use hint::Place;
use model::device_name::is_remote;
use model::pool::import::WaitView;
use model::{Error, ErrorKind};

/// Time for which another machine's disk may be silent: all its paths may be down for ten seconds
/// without harm.
const REMOTE_PROMISE_US: u64 = 15_000_000;

/// Device of a pool that is to be opened.
pub(crate) type OpenedDevice = (PathBuf, Arc<dyn BlockDevice>, LeafLabels);

/// Identifies this machine and its boot.
pub(crate) fn who(host: &str) -> Who {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = boot.trim().replace('-', "");
    Who {
        host: host.to_owned(),
        // Without a boot number, every start of the daemon counts as another boot, and an opening
        // waits.
        boot: u128::from_str_radix(&digits, 16)
            .unwrap_or_else(|_| u128::from(crate::random_u64()) << 64),
    }
}

/// Returns why a pool on these devices needs protection, or `None` if it needs none.
pub(crate) fn reason<'a>(
    config: &PoolConfig,
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Option<String> {
    match config.properties.get(PoolProperty::Multihost) {
        Some(true) => Some("multihost=on".to_owned()),
        Some(false) => None,
        None => {
            // Another machine's disk counts while it is missing too: it may return to a pool that
            // is already open.
            let known = config.paths.values().map(PathBuf::from);
            let away = known.filter(|path| is_remote(path));
            paths.into_iter().cloned().chain(away).find_map(|path| {
                let why = shared::reachable(&path)?;
                Some(format!("{}: {why}", path.display()))
            })
        }
    }
}

/// Returns the first interval of the records.
pub(crate) fn pace<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Pace {
    match paths.into_iter().any(|path| is_remote(path)) {
        true => Pace::at_least(REMOTE_PROMISE_US),
        false => Pace::default(),
    }
}

/// Returns the protection that a pool which this host creates or has open states from now on, or
/// `None` if it needs none.
pub(crate) fn fresh<'a>(
    config: &PoolConfig,
    host: &str,
    paths: impl IntoIterator<Item = &'a PathBuf> + Clone,
) -> Option<Protection> {
    reason(config, paths.clone())?;
    let opening = crate::random_u64();
    Some(Protection::fresh(who(host), opening, pace(paths)))
}

/// Describes a pool's protection. `fences` is the text about its devices.
pub(crate) fn text(protected: &Protected, fences: &str) -> String {
    let seconds = |us: u64| match us % 1_000_000 {
        0 => format!("{} s", us / 1_000_000),
        _ => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
    };
    format!(
        "one at a time: this host records its use every {} on each device, and stops after {} without a \
         record{fences}",
        seconds(protected.pace.interval_us),
        seconds(protected.pace.promise_us)
    )
}

/// Change to the fence around the devices of an open pool.
pub(crate) enum Change {
    /// No change.
    None,
    /// The fence keeps other hosts from these devices from now on.
    On(PoolFence, Vec<Named>),
    /// The listed devices are open to other hosts again.
    Off(Vec<Named>),
}

impl Change {
    /// Keeps other hosts from the pool's present devices, if the pool is protected from now on.
    ///
    /// # Errors
    /// A device refuses. The pool is then protected by its records alone.
    pub(crate) fn begin(&self, pool: &OpenPool) -> Result<(), Error> {
        if let Self::On(fence, devices) = self {
            fence.take(devices, true)?;
            pool.host.keep_fence(Some(fence.clone()));
        }
        Ok(())
    }

    /// Lets other hosts write again, once the labels say that the pool is no longer protected.
    pub(crate) fn end(&self, pool: &OpenPool) {
        if let (Self::Off(devices), Some(fence)) = (self, pool.host.fence()) {
            pool.host.keep_fence(None);
            fence.release(devices);
        }
    }
}

/// Starts or stops stating that this host has an open pool. The pool's property and its devices
/// decide, the `coming` ones included. The returned change of the fence takes longer than the
/// pool's thread may wait.
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

/// Reports whether a record says that a host has the pool and did not let it go in order.
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
    /// Waits for the proof that no other host has a pool, claims the pool, and reads its labels
    /// again. Devices that do not take part are left out. If the pool is not protected, this does
    /// nothing.
    ///
    /// # Errors
    /// Another host has the pool. Nothing was written to its devices then.
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
            tracing::warn!(%path, "a device takes no activity record and is left out");
        }
        let fence = (taken.protection.is_some()).then_some(fence);
        if let Some(fence) = &fence {
            fence.take(&named(opened), true)?;
        }
        // The former host may have written until now.
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
        // The reservations of another host are gone, and from now on no host is kept from the
        // devices.
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
                "export it on {0}; -f does not open a pool that another host uses. If {0} hangs, switch it \
                 off, then import the pool again: `sandstone pool import -f {name}`, with the same -d",
                by.who.machine()
            ),
        ),
        Refusal::Contested(by) => (
            ErrorKind::InUse,
            format!(
                "decide which host shall have the pool, stop the import on the other host ({}), and try \
                 again",
                by.who.host
            ),
        ),
        Refusal::Slow => (
            ErrorKind::Unavailable,
            "find out why the devices are slow (see the kernel's log), and try again".to_owned(),
        ),
        Refusal::NoDevice => (
            ErrorKind::Unavailable,
            "check the devices and the kernel's log; `sandstone pool import -o readonly=on` opens it without writing"
                .to_owned(),
        ),
    };
    Error::new(kind, format!("pool {name} is not opened: {refusal}"), next)
}

/// Protocol in progress on devices.
struct Proof {
    takeover: Takeover,
    devices: Vec<Named>,
    /// Fence that lets the claim be written, whatever the former host left behind.
    fence: PoolFence,
    is_registered: bool,
    lane: Lane,
    clock: Clock,
    /// Requests that devices work on.
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

    /// Runs the protocol to its end, and reports what it waits for.
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
            // Not before: a host that only looks must not register with the devices.
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
        Waits::Looks => "reading the activity records of its devices".to_owned(),
        Waits::Watches(by) => format!(
            "{} had the pool and did not export it: watching the devices, to see whether that host still \
             uses them",
            by.who.machine()
        ),
        Waits::WatchesUnknown => {
            "another host may have the pool: watching the devices, to see whether they are in use"
                .to_owned()
        }
        Waits::Verifies => {
            "this host has claimed the pool: waiting for objections of another host".to_owned()
        }
    };
    WaitView {
        pool: pool.to_owned(),
        guid: format!("{guid:016x}"),
        seconds: left.as_millis().div_ceil(1000) as u64,
        why,
    }
}
