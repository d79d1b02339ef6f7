//! A path: initiator port × target port × LUN, what it is called and what it can do now.

use scsi::application_client::target_port_groups::AccessState;

/// The host's number for a path of one device: small and dense (an index). A path that lost its
/// session and gets a new one keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// What discovery found out about a path; it does not change while the path exists.
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
    /// `vmhba64:C0:T0:L4`.
    pub runtime_name: String,
    /// Initiator's name with its session (ISID), as ESXi puts it in front: `iqn…-00023d000001`.
    pub initiator: String,
    /// Target's name and portal group: `iqn…,t,1`.
    pub target: String,
}

impl PathIdentity {
    /// The path's long name, as `esxcli storage nmp path list` heads it.
    pub fn uid(&self, device: &str) -> String {
        format!("{},{}-{device}", self.initiator, self.target)
    }
}

/// Whether a path's session and unit are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Session up, unit there.
    Up,
    /// Silent for longer than it should be. Nothing new is sent, nothing is given up yet.
    Suspect,
    /// No session.
    Dead,
    /// Session up, but the target says that there is no such unit (25/00).
    UnitGone,
}

/// From when on an average latency says little.
const OLD_US: u64 = 500_000;

/// A path in the books of its device.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Apart, so that what every I/O looks at lies close together.
    pub(super) identity: Box<PathIdentity>,
    pub(super) link: Link,
    pub(super) access: AccessState,
    /// The PREF bit of its target port group.
    pub(super) preferred_group: bool,
    /// I/Os on the path.
    pub(super) in_flight: u32,
    /// How many may be: shrinks when the target says BUSY or TASK SET FULL, and recovers.
    pub(super) window: u32,
    /// Busy answers since the last reduction.
    pub(super) busy_seen: u32,
    /// Good answers since the last reduction or growth.
    pub(super) good_seen: u32,
    /// Moving average of the time from sending to the answer; 0 where nothing was measured.
    pub(super) latency_us: f32,
    /// When something was last measured.
    pub(super) measured_at_us: u64,
    /// When an I/O was last sent here.
    pub(super) last_sent_us: u64,
    /// When to ask about its state again, where the state may end without a message.
    pub(super) probe_at_us: Option<u64>,
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
        }
    }

    /// Whether the path can serve I/O now.
    pub(super) fn is_usable(&self) -> bool {
        self.link == Link::Up && self.access.is_active()
    }

    /// Whether the path may come to serve I/O without a new session.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.link, Link::Up | Link::Suspect)
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.window
    }

    /// Counts an answer's latency: one eighth of the average is the newest, or half of it where
    /// the average is old.
    pub(super) fn measured(&mut self, latency_us: u64, now_us: u64) {
        // An answer within the clock's grain still counts as measured.
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
