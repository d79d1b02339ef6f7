//! Asymmetric logical unit access (SPC-4 5.15): the rights of each path.
//!
//! Two types keep apart the decisions of two parties:
//! - [`TargetPortGroups`] is device-wide and belongs to the administrator. It lists the groups,
//!   their ports, and the state of each group for every unit (implicit ALUA).
//! - [`UnitAccess`] belongs to one logical unit. It holds the states that initiators set with SET
//!   TARGET PORT GROUPS (explicit ALUA).

use std::sync::{Arc, PoisonError, RwLock};

mod unit_access;

pub use unit_access::{Choice, DamagedChoices, MAX_CHOICES, TooManyChoices, UnitAccess};

/// Primary target port asymmetric access state (SPC-4 table 265). LBA-dependent and offline are not
/// offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessState {
    /// All commands, best path.
    #[default]
    ActiveOptimized = 0x0,
    /// All commands, a slower path.
    ActiveNonOptimized = 0x1,
    /// Management commands only. Other commands get 02/04/0B.
    Standby = 0x2,
    /// A handful of commands only. Other commands get 02/04/0C.
    Unavailable = 0x3,
    /// Change from one state to another. All but a handful of commands get 02/04/0A.
    Transitioning = 0xF,
}

impl AccessState {
    /// Returns the state with this code, or `None` for states that are not offered.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0x0 => Some(Self::ActiveOptimized),
            0x1 => Some(Self::ActiveNonOptimized),
            0x2 => Some(Self::Standby),
            0x3 => Some(Self::Unavailable),
            0xF => Some(Self::Transitioning),
            _ => None,
        }
    }

    /// Reports whether every command is served.
    pub fn is_active(self) -> bool {
        matches!(self, Self::ActiveOptimized | Self::ActiveNonOptimized)
    }

    /// Returns the additional sense code qualifier of 02/04/xx for a command that this state
    /// refuses. Returns `None` if the state serves every command.
    pub fn not_ready_qualifier(self) -> Option<u8> {
        match self {
            Self::ActiveOptimized | Self::ActiveNonOptimized => None,
            Self::Transitioning => Some(0x0A),
            Self::Standby => Some(0x0B),
            Self::Unavailable => Some(0x0C),
        }
    }

    /// Reports whether the command may run on a path in this state (SPC-4 5.15.2.4). The decision
    /// follows operation code and service action, on the slow path only.
    pub fn permits(self, cdb: &[u8]) -> bool {
        let opcode = cdb.first().copied().unwrap_or(0);
        let service_action = cdb.get(1).copied().unwrap_or(0) & 0x1F;
        // Commands about the path itself are served in every state.
        let always = match (opcode, service_action) {
            (0x03 | 0x12 | 0xA0, _) => true, // REQUEST SENSE, INQUIRY, REPORT LUNS
            (0xA3, 0x0A) => true,            // REPORT TARGET PORT GROUPS
            (0xA4, 0x0A) => self != Self::Transitioning, // SET TARGET PORT GROUPS
            _ => false,
        };
        let in_standby = match (opcode, service_action) {
            // MODE SELECT/SENSE, LOG SELECT/SENSE, SEND DIAGNOSTIC
            (0x15 | 0x1A | 0x55 | 0x5A | 0x4C | 0x4D | 0x1D, _) => true,
            // PERSISTENT RESERVE IN/OUT
            (0x5E | 0x5F, _) => true,
            // READ CAPACITY: hosts read the size of a unit on the first path that they scan.
            (0x25, _) | (0x9E, 0x10) => true,
            // REPORT SUPPORTED OPERATION CODES / TASK MANAGEMENT FUNCTIONS
            (0xA3, 0x0C | 0x0D) => true,
            _ => false,
        };
        match self {
            Self::ActiveOptimized | Self::ActiveNonOptimized => true,
            Self::Standby => always || in_standby,
            Self::Unavailable | Self::Transitioning => always,
        }
    }
}

/// States that a group can be put into (SPC-4 6.36: T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportedStates(u8);

impl SupportedStates {
    /// Active/optimized, active/non-optimized, standby, unavailable and transitioning.
    pub const ALL: Self = Self(0x80 | 0x08 | 0x04 | 0x02 | 0x01);
    /// Active/optimized and active/non-optimized only.
    pub const ACTIVE_ONLY: Self = Self(0x02 | 0x01);

    /// Makes the set of exactly these states.
    pub fn of(states: &[AccessState]) -> Self {
        Self(
            states
                .iter()
                .fold(0, |bits, &state| bits | Self::bit(state)),
        )
    }

    /// Reports whether the state is in the set.
    pub fn contains(self, state: AccessState) -> bool {
        self.0 & Self::bit(state) != 0
    }

    /// Returns byte 1 of a target port group descriptor.
    pub fn bits(self) -> u8 {
        self.0
    }

    fn bit(state: AccessState) -> u8 {
        match state {
            AccessState::ActiveOptimized => 0x01,
            AccessState::ActiveNonOptimized => 0x02,
            AccessState::Standby => 0x04,
            AccessState::Unavailable => 0x08,
            AccessState::Transitioning => 0x80,
        }
    }
}

/// Parties that change access states: the TPGS field of standard INQUIRY data (SPC-4 table 174).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TpgsMode {
    /// No asymmetric access is reported at all.
    None = 0b00,
    /// The target alone changes states.
    #[default]
    Implicit = 0b01,
    /// SET TARGET PORT GROUPS alone changes states.
    Explicit = 0b10,
    /// The target and SET TARGET PORT GROUPS both change states.
    Both = 0b11,
}

impl TpgsMode {
    /// Reports whether SET TARGET PORT GROUPS is served.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Explicit | Self::Both)
    }

    /// Reports whether states also change without a request of an initiator.
    pub fn is_implicit(self) -> bool {
        matches!(self, Self::Implicit | Self::Both)
    }
}

/// One primary target port group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPortGroup {
    /// The TARGET PORT GROUP number.
    pub id: u16,
    /// PREF: a path through this group is preferred.
    pub preferred: bool,
    /// States that the group can be put into.
    pub supported: SupportedStates,
    /// State that the administrator set, for every unit.
    pub state: AccessState,
    /// Relative identifiers of the group's ports.
    pub ports: Vec<u16>,
}

/// All groups of the device at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLayout {
    /// Parties that change states.
    pub mode: TpgsMode,
    /// The groups, ascending by id, ids distinct.
    pub groups: Vec<TargetPortGroup>,
    /// Seconds that an implicit transition may take (at most 255), or 0 for "not said".
    pub implicit_transition_s: u8,
}

impl GroupLayout {
    /// Returns the group with this number.
    pub fn group(&self, id: u16) -> Option<&TargetPortGroup> {
        self.groups.iter().find(|group| group.id == id)
    }
}

/// Reasons to refuse a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Two groups share this number.
    DuplicateGroup(u16),
    /// One port is in two groups: this one.
    DuplicatePort(u16),
    /// The group's state is not among those it supports.
    UnsupportedState(u16),
    /// Ports of this group number more than 255, and its descriptor cannot count them.
    TooManyPorts(u16),
}

impl std::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DuplicateGroup(id) => write!(f, "target port group {id} is listed twice"),
            Self::DuplicatePort(id) => write!(f, "target port {id} is in two target port groups"),
            Self::UnsupportedState(id) => {
                write!(
                    f,
                    "target port group {id} is in a state it does not support"
                )
            }
            Self::TooManyPorts(id) => {
                write!(f, "target port group {id} has more than 255 target ports")
            }
        }
    }
}

impl std::error::Error for LayoutError {}

/// Target port groups of the device, shared by all its units.
///
/// After [`TargetPortGroups::replace`] the owner tells every unit. Each unit then raises ASYMMETRIC
/// ACCESS STATE CHANGED (06/2A/06) on its nexuses and recomputes its gate.
#[derive(Debug, Default)]
pub struct TargetPortGroups {
    layout: RwLock<Arc<GroupLayout>>,
}

impl TargetPortGroups {
    /// Makes the groups of this layout.
    ///
    /// # Errors
    /// [`LayoutError`] if the layout contradicts itself.
    pub fn new(layout: GroupLayout) -> Result<Self, LayoutError> {
        Ok(Self {
            layout: RwLock::new(Arc::new(checked(layout)?)),
        })
    }

    /// Takes over another layout, live. A refused layout changes nothing.
    ///
    /// # Errors
    /// [`LayoutError`] if the layout contradicts itself.
    pub fn replace(&self, layout: GroupLayout) -> Result<(), LayoutError> {
        let layout = Arc::new(checked(layout)?);
        *self.layout.write().unwrap_or_else(PoisonError::into_inner) = layout;
        Ok(())
    }

    /// Returns the layout of this moment.
    pub fn layout(&self) -> Arc<GroupLayout> {
        Arc::clone(&self.layout.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the TPGS mode of this moment.
    pub fn mode(&self) -> TpgsMode {
        self.layout().mode
    }

    /// Returns the administrator's state of a group. A group that no layout describes is
    /// active/optimized, because a device without ALUA serves every port alike.
    pub fn state(&self, group: u16) -> AccessState {
        self.layout()
            .group(group)
            .map_or(AccessState::ActiveOptimized, |group| group.state)
    }
}

fn checked(mut layout: GroupLayout) -> Result<GroupLayout, LayoutError> {
    layout.groups.sort_by_key(|group| group.id);
    let mut ports = std::collections::BTreeSet::new();
    for (index, group) in layout.groups.iter().enumerate() {
        if index > 0 && layout.groups[index - 1].id == group.id {
            return Err(LayoutError::DuplicateGroup(group.id));
        }
        if !group.supported.contains(group.state) {
            return Err(LayoutError::UnsupportedState(group.id));
        }
        if group.ports.len() > 255 {
            return Err(LayoutError::TooManyPorts(group.id));
        }
        if let Some(&port) = group.ports.iter().find(|&&port| !ports.insert(port)) {
            return Err(LayoutError::DuplicatePort(port));
        }
    }
    Ok(layout)
}

/// Origin of a group's state: the STATUS CODE of its descriptor (SPC-4 table 267).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StatusCode {
    /// No origin is known.
    None = 0,
    /// SET TARGET PORT GROUPS set the state.
    Explicit = 1,
    /// The target itself set the state.
    Implicit = 2,
}

#[cfg(test)]
mod tests;
