//! A path: initiator port × target port × LUN, with its names and its present state.

use scsi::application_client::target_port_groups::AccessState;

use super::counters::Counters;

/// The host's number for a path of one device. Numbers are small and dense (an index). A path that
/// lost its session and gets a new one keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// Identity of a path, as found by discovery. It does not change while the path exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathIdentity {
    /// T10 VENDOR IDENTIFICATION, without trailing spaces.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, without trailing spaces.
    pub model: String,
    /// PRODUCT REVISION LEVEL.
    pub revision: String,
    /// TPGS of the INQUIRY data (SPC-4 6.6.2): bit 0 implicit, bit 1 explicit ALUA.
    pub tpgs: u8,
    /// Target port group (vital product data 83h, designator type 5h).
    pub target_port_group: u16,
    /// Relative target port identifier (designator type 4h).
    pub relative_port: u16,
    /// Runtime name: `vmhba64:C0:T0:L4`.
    pub runtime_name: String,
    /// Initiator's name with its session (ISID), in ESXi's form: `iqn…-00023d000001`.
    pub initiator: String,
    /// Target's name and portal group: `iqn…,t,1`.
    pub target: String,
}

impl PathIdentity {
    /// Returns the path's long name, as in the headings of `esxcli storage nmp path list`.
    pub fn uid(&self, device: &str) -> String {
        format!("{},{}-{device}", self.initiator, self.target)
    }
}

/// State of a path's session and unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The session is up, and the unit is there.
    Up,
    /// The path has been silent for too long. No new I/O is sent, but no I/O is given up yet.
    Suspect,
    /// The path has no session.
    Dead,
    /// The session is up, but the target says that the unit does not exist (25/00).
    UnitGone,
}

/// Age, in microseconds, from which an average latency says little.
const OLD_US: u64 = 500_000;

/// State that a device keeps about a path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Identity of the path. It is stored apart, so that the fields which every I/O reads lie close
    /// together.
    pub(super) identity: Box<PathIdentity>,
    pub(super) link: Link,
    pub(super) access: AccessState,
    /// PREF bit of the target port group.
    pub(super) preferred_group: bool,
    /// Number of I/Os on the path.
    pub(super) in_flight: u32,
    /// Most I/Os that the path may have. The number shrinks when the target says BUSY or TASK SET
    /// FULL, and recovers.
    pub(super) window: u32,
    /// Number of busy answers since the last reduction.
    pub(super) busy_seen: u32,
    /// Number of good answers since the last reduction or growth.
    pub(super) good_seen: u32,
    /// Moving average of the time from sending to the answer; 0 if nothing was measured.
    pub(super) latency_us: f32,
    /// Time of the last measurement.
    pub(super) measured_at_us: u64,
    /// Time at which an I/O was last sent here.
    pub(super) last_sent_us: u64,
    /// Time at which to ask for the state again, if the state may end without a message.
    pub(super) probe_at_us: Option<u64>,
    /// Sums of the I/Os that succeeded on the path; its failures count for the device alone.
    pub(super) counters: Counters,
}

impl Path {
    pub(super) fn new(identity: PathIdentity, window: u32) -> Self {
        Self {
            identity: Box::new(identity),
            link: Link::Dead,
            access: AccessState::ActiveOptimized,
            preferred_group: false,
            in_flight: 0,
            window,
            busy_seen: 0,
            good_seen: 0,
            latency_us: 0.0,
            measured_at_us: 0,
            last_sent_us: 0,
            probe_at_us: None,
            counters: Counters::default(),
        }
    }

    /// Reports whether the path can serve I/O now.
    pub(super) fn is_usable(&self) -> bool {
        self.link == Link::Up && self.access.is_active()
    }

    /// Reports whether the path may come to serve I/O without a new session.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.link, Link::Up | Link::Suspect)
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.window
    }

    /// Counts an answer's latency. The newest value makes up one eighth of the average, or half of
    /// it if the average is old.
    pub(super) fn measured(&mut self, latency_us: u64, now_us: u64) {
        // An answer faster than the clock's resolution still counts as measured.
        let latency = latency_us.max(1) as f32;
        let age_us = now_us.saturating_sub(self.measured_at_us);
        let share = if age_us < OLD_US { 8.0 } else { 2.0 };
        self.latency_us = if self.latency_us == 0.0 {
            latency
        } else {
            self.latency_us + (latency - self.latency_us) / share
        };
        self.measured_at_us = now_us;
    }
}
