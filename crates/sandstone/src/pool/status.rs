//! How pools are, in zpool's words: what happened, what it means, what to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::format::SECTOR_SIZE;
use store::pool::{PoolStatus, ScanKind, ScanState};
use store::vdev::{Class, Kind, LeafId, LeafStatus, SlotKind, SlotStatus, State, TopLevelStatus};
use utoipa::ToSchema;

use super::host::Place;
use super::registry::{AbsentPool, OpenPool, Pools};
use super::scan::{ScanView, text, view as scan_view};
use crate::config::{Error, ErrorKind};

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Its name.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// ONLINE, DEGRADED, SUSPENDED or UNAVAIL.
    pub state: String,
    /// What happened and what it means; `None` where all is well.
    pub status: Option<String>,
    /// What to do about it.
    pub action: Option<String>,
    /// What scrubs and resilvers do or did, in lines.
    pub scan: String,
    /// The same for programs.
    pub scan_status: Option<ScanView>,
    /// Bytes of all vdevs, parity included.
    pub size: u64,
    /// Bytes of these in use, parity included.
    pub allocated: u64,
    /// Bytes that were freed and will be free after two checkpoints.
    pub freeing: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Its top-level vdevs.
    pub vdevs: Vec<VdevView>,
    /// Its spares: AVAIL or INUSE.
    #[serde(default)]
    pub spares: Vec<VdevView>,
    /// What data was lost, in words.
    pub errors: String,
}

/// A vdev: top-level, or a leaf in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VdevView {
    /// `mirror-0`, or a leaf's path.
    pub name: String,
    /// How well it is.
    pub state: String,
    /// Reads that failed.
    pub read: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Reads that returned wrong bytes.
    pub checksum: u64,
    /// What else is to be said.
    pub note: Option<String>,
    /// What it is made of.
    #[schema(no_recursion)]
    pub children: Vec<VdevView>,
}

impl Pools {
    /// All pools, also those that should be open and are not.
    pub fn views(&self) -> Vec<PoolView> {
        let open = self.all();
        let mut views: Vec<PoolView> = open.iter().map(|(name, pool)| view(name, pool)).collect();
        views.extend(self.absent().iter().map(absent));
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// One pool.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn view(&self, name: &str) -> Result<PoolView, Error> {
        let views = self.views();
        views.into_iter().find(|view| view.name == name).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("there is no pool {name}"),
                "see `sandstone pool list`, or `sandstone pool import` for pools that could be imported",
            )
        })
    }
}

fn view(name: &str, pool: &OpenPool) -> PoolView {
    let asked = pool.host.handle(|hands| {
        (
            hands.pool.status(),
            hands.devices.ready_spares(),
            hands.now_us,
        )
    });
    match asked {
        Ok((status, ready, now_us)) => of_status(&status, &ready, &pool.host.places(), now_us),
        Err(error) => PoolView {
            name: name.to_owned(),
            guid: format!("{:016x}", pool.guid),
            state: "SUSPENDED".to_owned(),
            status: Some(format!(
                "{error}. What was acknowledged as durable is on the devices."
            )),
            action: Some("Keep the daemon's log, restart the daemon, and report this.".to_owned()),
            scan: "none requested".to_owned(),
            errors: "unknown".to_owned(),
            ..PoolView::default()
        },
    }
}

fn absent(pool: &AbsentPool) -> PoolView {
    let leaves = pool.known.devices.iter().map(|device| VdevView {
        name: device.path.display().to_string(),
        state: if device.path.exists() {
            "ONLINE"
        } else {
            "UNAVAIL"
        }
        .to_owned(),
        ..VdevView::default()
    });
    PoolView {
        name: pool.known.name.clone(),
        guid: pool.known.guid.clone(),
        state: "UNAVAIL".to_owned(),
        status: Some(format!("The pool could not be opened: {}.", pool.reason)),
        action: Some(format!(
            "Attach what is missing, then use 'sandstone pool import -d PATH {}'.",
            pool.known.name
        )),
        scan: "none requested".to_owned(),
        vdevs: leaves.collect(),
        errors: "unknown while the pool is not open".to_owned(),
        ..PoolView::default()
    }
}

/// A pool in zpool's words; `ready` are the spares that have a device.
fn of_status(
    status: &PoolStatus,
    ready: &[u64],
    places: &BTreeMap<u64, Place>,
    now_us: u64,
) -> PoolView {
    let state = state(status);
    let (what, action) = advice(status).unzip();
    let is_resilvering = status
        .scan
        .as_ref()
        .is_some_and(|scan| scan.kind == ScanKind::Resilver && scan.state == ScanState::Running);
    let teller = Teller {
        places,
        is_resilvering,
        failing: &status.failing,
    };
    let unreadable: u64 = status.top_levels.iter().map(|top| top.unreadable).sum();
    PoolView {
        name: status.name.clone(),
        guid: format!("{:016x}", status.guid),
        state: state.to_owned(),
        status: what,
        action,
        scan: status
            .scan
            .as_ref()
            .map_or_else(|| "none requested".to_owned(), |scan| text(scan, now_us)),
        scan_status: status.scan.as_ref().map(|scan| scan_view(scan, now_us)),
        size: bytes(status.counts.size),
        allocated: bytes(status.counts.allocated),
        freeing: bytes(status.counts.deferred),
        free: bytes(status.counts.available),
        vdevs: status
            .top_levels
            .iter()
            .filter(|top| top.kind != Kind::Hole)
            .map(|top| teller.top_level(top))
            .collect(),
        spares: teller.spares(status, ready),
        errors: match unreadable {
            0 => "No known data errors".to_owned(),
            1 => "1 read found no right copy of a block".to_owned(),
            count => format!("{count} reads found no right copy of a block"),
        },
    }
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_SIZE as u64
}

fn state(status: &PoolStatus) -> &'static str {
    let any = |state: State| status.top_levels.iter().any(|top| top.state == state);
    match () {
        () if status.suspended.is_some() => "SUSPENDED",
        () if any(State::Unavailable) || any(State::Faulted) => "UNAVAIL",
        () if any(State::Degraded) => "DEGRADED",
        () => "ONLINE",
    }
}

/// What happened, and what to do.
fn advice(status: &PoolStatus) -> Option<(String, String)> {
    let leaves = || {
        let slots = status.top_levels.iter().flat_map(|top| &top.slots);
        slots.flat_map(|slot| &slot.leaves)
    };
    let any = |is: &dyn Fn(&LeafStatus) -> bool| leaves().any(is);
    let name = &status.name;
    let resilver = status
        .scan
        .as_ref()
        .is_some_and(|scan| scan.kind == ScanKind::Resilver && scan.state == ScanState::Running);
    let (what, action) = if let Some(reason) = &status.suspended {
        (
            format!(
                "The pool takes no changes any more: {reason}. What was acknowledged as durable is on the devices."
            ),
            "See to the devices, then restart the daemon: it opens the pool anew.".to_owned(),
        )
    } else if status.top_levels.iter().any(|top| top.unreadable > 0) {
        (
            "One or more blocks could not be read with right bytes from any device; reading them fails. \
             Everything else is served."
                .to_owned(),
            format!(
                "Restore what they belonged to from a copy: writing a block anew ends its errors. Then use \
                 'sandstone pool clear {name}'."
            ),
        )
    } else if resilver {
        (
            "One or more devices is currently being resilvered. The pool will continue to function, possibly \
             in a degraded state."
                .to_owned(),
            "Wait for the resilver to complete.".to_owned(),
        )
    } else if any(&|leaf| leaf.state == State::Faulted) {
        (
            format!(
                "One or more devices are faulted in response to persistent errors. {}",
                sufficient(status)
            ),
            format!(
                "Replace the faulted device with 'sandstone pool replace {name} DEVICE NEW', or use \
                 'sandstone pool clear {name} DEVICE' to mark it repaired."
            ),
        )
    } else if any(&|leaf| matches!(leaf.state, State::Unavailable | State::Removed)) {
        (
            format!(
                "One or more devices could not be used because they are missing, in use elsewhere or not \
                 answering. {}",
                sufficient(status)
            ),
            format!(
                "Attach the missing device and online it using 'sandstone pool online {name} DEVICE', or \
                 replace it with 'sandstone pool replace'."
            ),
        )
    } else if any(&|leaf| leaf.state == State::Offline) {
        (
            format!(
                "One or more devices has been taken offline by the administrator. {}",
                sufficient(status)
            ),
            format!(
                "Online the device using 'sandstone pool online {name} DEVICE' or replace it with \
                 'sandstone pool replace'."
            ),
        )
    } else if !status.failing.is_empty() {
        (
            "One or more devices has failed too often to be trusted; what it gets wrong is corrected from \
             the others."
                .to_owned(),
            format!(
                "Replace the device with 'sandstone pool replace {name} DEVICE NEW', or use 'sandstone pool \
                 clear {name}' if the cause is removed."
            ),
        )
    } else if any(&|leaf| leaf.is_incomplete) {
        (
            "One or more devices missed writes while they were away; what they missed is read from others."
                .to_owned(),
            "Keep the other devices attached; a resilver follows by itself.".to_owned(),
        )
    } else if any(&|leaf| leaf.errors != Default::default()) {
        (
            "One or more devices has experienced an unrecoverable error. An attempt was made to correct the \
             error. Applications are unaffected."
                .to_owned(),
            format!(
                "Determine if the device needs to be replaced, and clear the errors using 'sandstone pool \
                 clear {name}' or replace the device with 'sandstone pool replace'."
            ),
        )
    } else {
        return None;
    };
    Some((what, action))
}

/// What it means that devices are away.
fn sufficient(status: &PoolStatus) -> &'static str {
    match state(status) {
        "UNAVAIL" => "There are insufficient replicas for the pool to continue functioning.",
        _ => "Sufficient replicas exist for the pool to continue functioning in a degraded state.",
    }
}

/// What is needed to tell of leaves.
struct Teller<'a> {
    places: &'a BTreeMap<u64, Place>,
    is_resilvering: bool,
    failing: &'a [LeafId],
}

impl Teller<'_> {
    fn top_level(&self, top: &TopLevelStatus) -> VdevView {
        let slots = top.slots.iter().enumerate();
        let mut children: Vec<VdevView> = slots.map(|(at, slot)| self.slot(at, slot)).collect();
        if top.kind == Kind::Leaf
            && children.len() == 1
            && let Some(leaf) = children.pop()
        {
            return leaf;
        }
        let kind = match top.kind {
            Kind::Raidz { parity } => format!("raidz{parity}"),
            _ => "mirror".to_owned(),
        };
        VdevView {
            name: format!("{kind}-{}", top.vdev),
            state: top.state.to_string(),
            checksum: top.unreadable,
            note: (top.class == Class::Log).then(|| "log".to_owned()),
            children,
            ..VdevView::default()
        }
    }

    /// A leaf, or those that hold the same for a while.
    fn slot(&self, at: usize, slot: &SlotStatus) -> VdevView {
        let mut children: Vec<VdevView> = slot.leaves.iter().map(|leaf| self.leaf(leaf)).collect();
        let what = match slot.kind {
            SlotKind::Replacing => "replacing",
            SlotKind::Single | SlotKind::Spare => "spare",
        };
        if children.len() == 1
            && let Some(leaf) = children.pop()
        {
            return leaf;
        }
        let is_well = slot
            .leaves
            .iter()
            .all(|leaf| leaf.state == State::Online && !leaf.is_incomplete);
        let is_any = slot
            .leaves
            .iter()
            .any(|leaf| matches!(leaf.state, State::Online | State::Degraded));
        let state = match (is_well, is_any) {
            (true, _) => State::Online,
            (false, true) => State::Degraded,
            (false, false) => State::Unavailable,
        };
        VdevView {
            name: format!("{what}-{at}"),
            state: state.to_string(),
            children,
            ..VdevView::default()
        }
    }

    fn leaf(&self, leaf: &LeafStatus) -> VdevView {
        let place = self.places.get(&leaf.guid);
        let trouble = place.and_then(|place| place.trouble.clone());
        let is_there = matches!(leaf.state, State::Online | State::Degraded);
        let note = match leaf.state {
            _ if is_there && leaf.is_incomplete && self.is_resilvering => {
                Some("(resilvering)".to_owned())
            }
            _ if is_there && leaf.is_incomplete => Some("missed writes".to_owned()),
            _ if self.failing.contains(&leaf.leaf) => Some("too many errors".to_owned()),
            State::Faulted | State::Removed | State::Unavailable => trouble,
            _ => None,
        };
        VdevView {
            name: self.name(leaf.guid),
            state: leaf.state.to_string(),
            read: leaf.errors.read,
            write: leaf.errors.write,
            checksum: leaf.errors.checksum,
            note,
            children: Vec::new(),
        }
    }

    fn name(&self, guid: u64) -> String {
        let place = self.places.get(&guid);
        place.map_or_else(
            || format!("{guid:016x}"),
            |place| place.path.display().to_string(),
        )
    }

    fn spares(&self, status: &PoolStatus, ready: &[u64]) -> Vec<VdevView> {
        let available = status.spares.iter().map(|guid| {
            let is_ready = ready.contains(guid);
            (guid, if is_ready { "AVAIL" } else { "UNAVAIL" }, None)
        });
        let in_use = status
            .spares_in_use
            .iter()
            .map(|guid| (guid, "INUSE", Some("currently in use")));
        let all = available.chain(in_use);
        all.map(|(guid, state, note)| VdevView {
            name: self.name(*guid),
            state: state.to_owned(),
            note: note
                .map(str::to_owned)
                .or_else(|| self.places.get(guid)?.trouble.clone()),
            ..VdevView::default()
        })
        .collect()
    }
}
