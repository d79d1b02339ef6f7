//! Opening of a pool, from labels or from a new configuration, on the pool's own thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::cache::Cache;
use store::engine::{
    Back, Event, Examined, Limits, OpenError, OpenErrorKind, Opening, Pool, PoolConfig,
};
use store::vdev::{self, DeviceOutcome, IoId};

use crate::clock::{Clock, wall_clock_s};
use crate::import::opened_devices::Devices;
use crate::setup::{Begin, Place, Setup};
use block::BlockDevice;

/// Failure to open a pool.
#[derive(Debug)]
pub(crate) struct NotOpen {
    /// Reason, as a sentence without a full stop.
    pub(crate) reason: String,
    pub(crate) remedy: Remedy,
}

/// Remedy for a pool that does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Missing devices are needed.
    Devices,
    /// A device that is newer than the old copy is needed, or the user's word that there is none.
    Newer,
    /// The damaged part could be given up.
    Rewind,
    /// The pool can be read, but not changed.
    ReadOnly,
    /// A different version of the program is needed.
    Program,
    /// The pool is, or may be, in use by another host.
    OtherHost,
}

impl Remedy {
    pub(crate) fn of(kind: OpenErrorKind) -> Self {
        match kind {
            OpenErrorKind::Damaged | OpenErrorKind::LogDamaged => Self::Rewind,
            OpenErrorKind::Version => Self::Program,
            OpenErrorKind::ReadOnlyVersion => Self::ReadOnly,
            OpenErrorKind::Old => Self::Newer,
            OpenErrorKind::InUse => Self::OtherHost,
            _ => Self::Devices,
        }
    }

    /// Advises the user if only an old copy of a device is there.
    pub(crate) fn newer(pool: &str) -> String {
        format!(
            "attach the newest device in its place, then use `sandstone pool import -d PATH {pool}`; if that \
             device is gone for good, `sandstone pool import -f -d PATH {pool}` uses the old copy, and the \
             data that the old copy lacks is lost"
        )
    }

    /// Advises the user if the pool could be opened by giving up part of it.
    pub(crate) fn going_back(pool: &str) -> String {
        format!(
            "`sandstone pool import -F -n -d PATH {pool}` tells whether the pool can go back to an intact \
             state, and which changes that would discard; it changes nothing"
        )
    }
}

impl From<String> for NotOpen {
    fn from(reason: String) -> Self {
        Self {
            reason,
            remedy: Remedy::Devices,
        }
    }
}

impl From<OpenError> for NotOpen {
    fn from(error: OpenError) -> Self {
        Self {
            remedy: Remedy::of(error.kind),
            reason: error.context,
        }
    }
}

/// Open pool.
pub(crate) struct Opened {
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    /// Events during the opening.
    pub(crate) events: Vec<Event>,
    /// Guids of missing leaves that may have been used without the others
    /// ([`Examined::unaccounted`]).
    pub(crate) unaccounted: Vec<u64>,
}

/// Returns the limits of the pool's memory other than blocks. This memory counts towards the cap of
/// the cache, and blocks keep half of the cap.
fn limits(cache: &Cache) -> Limits {
    Limits::within(cache.cap() / 2)
}

/// Makes or opens the pool.
///
/// # Errors
/// Why the pool cannot be made or opened, as a sentence without a full stop.
pub(crate) fn open(setup: Setup, devices: &mut Devices) -> Result<Opened, NotOpen> {
    let clock = Clock::start();
    let mut unaccounted = Vec::new();
    let mut pool = match setup.begin {
        Begin::Create(config) => {
            let entropy = crate::random_u64();
            let mut pool = Pool::create(
                *config,
                entropy,
                wall_clock_s(),
                limits(&setup.cache),
                vdev::Limits::default(),
                setup.cache,
            )
            .map_err(|error| error.to_string())?;
            attach(&pool, &setup.devices, devices);
            stand_by(&mut pool, &setup.devices, devices);
            pool.set_paths(paths(&setup.places));
            if let Some(protection) = setup.protection {
                pool.protect(protection, true, clock.now_us());
            }
            pool.tick(clock.now_us(), wall_clock_s());
            pool
        }
        Begin::Import { examined, back } => {
            if setup.is_read_only {
                devices.write_nothing();
            }
            let opening = begin(&examined, back, setup.cache, clock.now_us())?;
            let mut pool = import(opening, &setup.devices, devices, clock)?;
            // From the start, spares replace broken devices.
            stand_by(&mut pool, &setup.devices, devices);
            unaccounted.clone_from(&examined.unaccounted);
            pool.set_paths(paths(&setup.places));
            if setup.is_read_only {
                pool.make_read_only();
            }
            // Work that starts now needs a date.
            pool.tick(clock.now_us(), wall_clock_s());
            if !setup.is_read_only {
                pool.claim(&setup.host, clock.now_us());
                if !setup.is_protected {
                    pool.unprotect(clock.now_us());
                }
            }
            pool
        }
    };
    let events = settle(&mut pool, devices, clock)?;
    Ok(Opened {
        pool,
        clock,
        events,
        unaccounted,
    })
}

/// Returns the device paths to be written into the labels, by guid.
pub(crate) fn paths(places: &BTreeMap<u64, Place>) -> BTreeMap<u64, String> {
    let places = places.iter();
    places
        .map(|(guid, place)| (*guid, place.path.display().to_string()))
        .collect()
}

fn attach(pool: &Pool, found: &[(u64, Arc<dyn BlockDevice>)], devices: &mut Devices) {
    for top in pool.status().top_levels {
        for leaf in top.slots.into_iter().flat_map(|slot| slot.leaves) {
            if let Some((_, device)) = found.iter().find(|(guid, _)| *guid == leaf.guid) {
                devices.attach(leaf.leaf, Arc::clone(device));
            }
        }
    }
    for cache in pool.status().caches {
        if let Some((_, device)) = found.iter().find(|(guid, _)| *guid == cache.guid) {
            devices.attach(cache.leaf, Arc::clone(device));
        }
    }
}

/// Keeps the devices of spares until a spare is called. A spare without a device is not called.
fn stand_by(pool: &mut Pool, found: &[(u64, Arc<dyn BlockDevice>)], devices: &mut Devices) {
    for (guid, device) in found {
        if pool.leaf(*guid).is_none() {
            devices.keep_spare(*guid, Arc::clone(device));
        }
    }
    devices.tell_away_spares(pool);
}

/// Begins to open a pool at its newest checkpoint, or rewound to an older one.
pub(crate) fn begin(
    examined: &Examined,
    back: Option<Back>,
    cache: Arc<Cache>,
    now_us: u64,
) -> Result<Opening, OpenError> {
    let (limits, of_vdevs) = (limits(&cache), vdev::Limits::default());
    match (back, examined.roots.first()) {
        (Some(back), _) => Opening::rewinding(examined, back, limits, of_vdevs, cache, now_us),
        (None, Some(root)) => Opening::new(examined, root, limits, of_vdevs, cache, now_us),
        (None, None) => {
            let context = "its labels hold no checkpoint";
            Err(OpenError::new(OpenErrorKind::Damaged, context))
        }
    }
}

fn import(
    mut opening: Opening,
    found: &[(u64, Arc<dyn BlockDevice>)],
    devices: &mut Devices,
    clock: Clock,
) -> Result<Pool, NotOpen> {
    for (guid, device) in found {
        if let Some(leaf) = opening.leaf(*guid) {
            devices.attach(leaf, Arc::clone(device));
        }
    }
    let mut answers: Vec<(IoId, DeviceOutcome)> = Vec::new();
    while !opening.is_done() {
        for request in opening.take_requests() {
            devices.submit(request);
        }
        devices.start_batch();
        devices.take(&mut answers);
        if answers.is_empty() {
            let until = opening.deadline_us();
            if devices.is_idle() && until.is_none() {
                let reason = "the opening waits for nothing: this is a defect, report it";
                return Err(reason.to_owned().into());
            }
            wait(devices, until, clock)?;
            if until.is_some_and(|until| until <= clock.now_us()) {
                opening.tick(clock.now_us(), wall_clock_s());
            }
        }
        for (io, outcome) in answers.drain(..) {
            opening.completed(io, outcome, clock.now_us());
        }
    }
    Ok(opening.finish()?)
}

/// Waits until the labels are written. From then on the pool exists and this host owns it. If the
/// pool is only read, nothing is written and its labels stay as they were.
fn settle(pool: &mut Pool, devices: &mut Devices, clock: Clock) -> Result<Vec<Event>, NotOpen> {
    let mut events = Vec::new();
    let mut answers: Vec<(IoId, DeviceOutcome)> = Vec::new();
    loop {
        let output = pool.take_output();
        for event in output.events {
            devices.heed(&event, pool);
            events.push(event);
        }
        for request in output.requests {
            devices.submit(request);
        }
        devices.start_batch();
        if let Some(reason) = pool.suspended_because() {
            let is_stopped = pool.stopped().is_some();
            return Err(NotOpen {
                remedy: if is_stopped {
                    Remedy::OtherHost
                } else {
                    Remedy::ReadOnly
                },
                ..reason.to_owned().into()
            });
        }
        if pool.is_read_only() || pool.is_config_durable() {
            return Ok(events);
        }
        devices.take(&mut answers);
        let until = pool.deadline_us();
        if answers.is_empty() {
            wait(devices, until, clock)?;
        }
        for (io, outcome) in answers.drain(..) {
            pool.completed(io, outcome, clock.now_us());
        }
        if until.is_some_and(|until| until <= clock.now_us()) {
            pool.tick(clock.now_us(), wall_clock_s());
        }
    }
}

fn wait(devices: &mut Devices, until: Option<u64>, clock: Clock) -> Result<(), String> {
    let until = until.and_then(|until| clock.at(until));
    devices
        .wait(until)
        .map_err(|error| format!("waiting for the devices failed: {error}"))
}

/// Returns the configuration of a new pool.
pub(crate) fn new_config(name: &str, host: &str, tree: vdev::VdevTree) -> PoolConfig {
    PoolConfig::new(name, crate::random_u64(), crate::random_u64(), host, tree)
}
