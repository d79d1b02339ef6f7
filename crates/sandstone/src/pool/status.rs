//! How pools are, in zpool's words: what happened, what it means, what to do.

use serde::{Deserialize, Serialize};
use store::format::SECTOR_SIZE;
use store::pool::{PoolStatus, ScanKind, ScanState, ScanStatus};
use store::vdev::{Class, Kind, LeafStatus, SlotKind, SlotStatus, State, TopLevelStatus};
use utoipa::ToSchema;

use super::registry::{AbsentPool, OpenPool, Pools};
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
    /// What scrubs and resilvers did.
    pub scan: String,
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
    match pool.host.ask(|engine| engine.status()) {
        Ok(status) => of_status(&status, |leaf| {
            let path = pool.paths.get(&leaf.guid);
            path.map_or_else(
                || format!("{:016x}", leaf.guid),
                |path| path.display().to_string(),
            )
        }),
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

/// A pool in zpool's words; `path` says where a leaf is.
fn of_status(status: &PoolStatus, path: impl Fn(&LeafStatus) -> String) -> PoolView {
    let state = state(status);
    let (what, action) = advice(status).unzip();
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
            .map_or_else(|| "none requested".to_owned(), scan),
        size: bytes(status.counts.size),
        allocated: bytes(status.counts.allocated),
        freeing: bytes(status.counts.deferred),
        free: bytes(status.counts.available),
        vdevs: status
            .top_levels
            .iter()
            .filter(|top| top.kind != Kind::Hole)
            .map(|top| top_level(top, &path))
            .collect(),
        errors: match unreadable {
            0 => "No known data errors".to_owned(),
            count => format!("{count} reads found no right copy of a block"),
        },
    }
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_SIZE as u64
}

/// What a scrub or resilver does or did.
fn scan(scan: &ScanStatus) -> String {
    let what = match scan.kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
    };
    let repaired = format!(
        "{} repaired, {} with no right copy",
        scan.repaired, scan.unrecoverable
    );
    let percent = scan.examined_sectors.min(scan.total_sectors) * 100 / scan.total_sectors.max(1);
    match scan.state {
        ScanState::Running => format!("{what} in progress, {percent}% done, {repaired}"),
        ScanState::Paused => format!("{what} paused, {percent}% done, {repaired}"),
        ScanState::Finished => {
            let took = scan.ended_s.saturating_sub(scan.started_s);
            format!("{what} done in {took} seconds, {repaired}")
        }
        ScanState::Canceled => format!("{what} canceled, {repaired}"),
    }
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
    let (what, action) = if let Some(reason) = &status.suspended {
        (
            format!(
                "The pool takes no changes any more: {reason}. What was acknowledged as durable is on the devices."
            ),
            "See to the devices, then restart the daemon: it opens the pool anew.",
        )
    } else if leaves().any(|leaf| leaf.state == State::Faulted) {
        (
            "One or more devices failed too often and are not used any more. Sufficient replicas exist for the \
             pool to continue functioning in a degraded state."
                .to_owned(),
            "See to the device and its cables; the log says what it answered.",
        )
    } else if leaves().any(|leaf| matches!(leaf.state, State::Unavailable | State::Removed)) {
        (
            "One or more devices could not be opened. Sufficient replicas exist for the pool to continue \
             functioning in a degraded state."
                .to_owned(),
            "Attach the missing device, then export and import the pool.",
        )
    } else if status.top_levels.iter().any(|top| top.unreadable > 0) {
        (
            "One or more blocks could not be read with right bytes from any device; reading them fails."
                .to_owned(),
            "Restore what they belonged to from a copy; writing the blocks anew ends the errors.",
        )
    } else if leaves().any(|leaf| leaf.is_incomplete) {
        (
            "One or more devices missed writes while they were away; what they missed is read from others."
                .to_owned(),
            "The pool works; keep the other devices attached.",
        )
    } else if leaves().any(|leaf| leaf.errors != Default::default()) {
        (
            "One or more devices has experienced an error. An attempt was made to correct it. Applications are \
             unaffected."
                .to_owned(),
            "Determine if the device needs to be replaced; the log says what it answered.",
        )
    } else {
        return None;
    };
    Some((what, action.to_owned()))
}

fn top_level(top: &TopLevelStatus, path: &impl Fn(&LeafStatus) -> String) -> VdevView {
    let mut children: Vec<VdevView> = top.slots.iter().flat_map(|at| slot(at, path)).collect();
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

fn slot(slot: &SlotStatus, path: &impl Fn(&LeafStatus) -> String) -> Vec<VdevView> {
    let why = match slot.kind {
        SlotKind::Single => None,
        SlotKind::Replacing => Some("replacing"),
        SlotKind::Spare => Some("spare"),
    };
    let leaves = slot.leaves.iter().map(|leaf| VdevView {
        name: path(leaf),
        state: leaf.state.to_string(),
        read: leaf.errors.read,
        write: leaf.errors.write,
        checksum: leaf.errors.checksum,
        note: match (why, leaf.is_incomplete) {
            (Some(why), _) => Some(why.to_owned()),
            (None, true) => Some("missed writes".to_owned()),
            (None, false) => None,
        },
        children: Vec::new(),
    });
    leaves.collect()
}
