//! Asymmetric logical unit access (SPC-4 5.15): which path may do what.
//!
//! Two things are kept apart because two parties decide them:
//! - [`TargetPortGroups`] is device-wide and belongs to the administrator: which groups exist,
//!   which ports are in them and the state each has for every unit (implicit ALUA).
//! - [`UnitAccess`] belongs to one logical unit and holds what initiators asked for with SET
//!   TARGET PORT GROUPS (explicit ALUA).

use std::sync::{Arc, PoisonError, RwLock};

mod unit_access;

pub use unit_access::{Choice, DamagedChoices, MAX_CHOICES, TooManyChoices, UnitAccess};

/// A primary target port asymmetric access state (SPC-4 table 265). LBA-dependent and offline
/// are not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessState {
    /// All commands, best path.
    #[default]
    ActiveOptimized = 0x0,
    /// All commands, a slower path.
    ActiveNonOptimized = 0x1,
    /// Management commands only (02/04/0B for the others).
    Standby = 0x2,
    /// A handful of commands only (02/04/0C for the others).
    Unavailable = 0x3,
    /// Between two states (02/04/0A for all but a handful of commands).
    Transitioning = 0xF,
}

impl AccessState {
    /// The state with this code, `None` for those that are not offered.
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

    /// Whether every command is served.
    pub fn is_active(self) -> bool {
        matches!(self, Self::ActiveOptimized | Self::ActiveNonOptimized)
    }

    /// The additional sense code qualifier of 02/04/xx for a command this state refuses; `None`
    /// where the state serves every command.
    pub fn not_ready_qualifier(self) -> Option<u8> {
        match self {
            Self::ActiveOptimized | Self::ActiveNonOptimized => None,
            Self::Transitioning => Some(0x0A),
            Self::Standby => Some(0x0B),
            Self::Unavailable => Some(0x0C),
        }
    }

    /// Whether the command may run on a path in this state (SPC-4 5.15.2.4). Decided by operation
    /// code and service action, on the slow path only.
    pub fn permits(self, cdb: &[u8]) -> bool {
        let opcode = cdb.first().copied().unwrap_or(0);
        let service_action = cdb.get(1).copied().unwrap_or(0) & 0x1F;
        // Commands about the path itself, served whatever the state.
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
            // READ CAPACITY: hosts size a unit on whichever path they scan first.
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

/// Which states a group can be put into (SPC-4 6.36: T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportedStates(u8);

impl SupportedStates {
    /// Active/optimized, active/non-optimized, standby, unavailable and transitioning.
    pub const ALL: Self = Self(0x80 | 0x08 | 0x04 | 0x02 | 0x01);
    /// Active/optimized and active/non-optimized only.
    pub const ACTIVE_ONLY: Self = Self(0x02 | 0x01);

    /// Exactly these states.
    pub fn of(states: &[AccessState]) -> Self {
        Self(
            states
                .iter()
                .fold(0, |bits, &state| bits | Self::bit(state)),
        )
    }

    /// Whether the state is among them.
    pub fn contains(self, state: AccessState) -> bool {
        self.0 & Self::bit(state) != 0
    }

    /// Byte 1 of a target port group descriptor.
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

/// How access states change: the TPGS field of standard INQUIRY data (SPC-4 table 174).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TpgsMode {
    /// No asymmetric access is reported at all.
    None = 0b00,
    /// Only the target changes states.
    #[default]
    Implicit = 0b01,
    /// Only SET TARGET PORT GROUPS changes states.
    Explicit = 0b10,
    /// Both.
    Both = 0b11,
}

impl TpgsMode {
    /// Whether SET TARGET PORT GROUPS is served.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Explicit | Self::Both)
    }

    /// Whether states change without an initiator's asking, too.
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
    /// The states it can be put into.
    pub supported: SupportedStates,
    /// The administrator's state, for every unit.
    pub state: AccessState,
    /// Relative identifiers of its ports.
    pub ports: Vec<u16>,
}

/// All groups of the device at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLayout {
    /// How states change.
    pub mode: TpgsMode,
    /// The groups, ascending by id, ids distinct.
    pub groups: Vec<TargetPortGroup>,
    /// How many seconds an implicit transition may take, 0 for "not said" (at most 255).
    pub implicit_transition_s: u8,
}

impl GroupLayout {
    /// The group with this number.
    pub fn group(&self, id: u16) -> Option<&TargetPortGroup> {
        self.groups.iter().find(|group| group.id == id)
    }
}

/// Why a layout is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Two groups share this number.
    DuplicateGroup(u16),
    /// This port is in two groups.
    DuplicatePort(u16),
    /// The group's state is not among those it supports.
    UnsupportedState(u16),
    /// More than 255 ports in this group: its descriptor cannot count them.
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

/// The target port groups of the device, shared by all its units.
///
/// After [`TargetPortGroups::replace`] the owner tells every unit, so that each raises ASYMMETRIC
/// ACCESS STATE CHANGED (06/2A/06) on its nexuses and recomputes its gate.
#[derive(Debug, Default)]
pub struct TargetPortGroups {
    layout: RwLock<Arc<GroupLayout>>,
}

impl TargetPortGroups {
    /// The groups of this layout.
    ///
    /// # Errors
    /// [`LayoutError`] where the layout contradicts itself.
    pub fn new(layout: GroupLayout) -> Result<Self, LayoutError> {
        Ok(Self {
            layout: RwLock::new(Arc::new(checked(layout)?)),
        })
    }

    /// Takes over another layout, live. Nothing changes where it is refused.
    ///
    /// # Errors
    /// [`LayoutError`] where the layout contradicts itself.
    pub fn replace(&self, layout: GroupLayout) -> Result<(), LayoutError> {
        let layout = Arc::new(checked(layout)?);
        *self.layout.write().unwrap_or_else(PoisonError::into_inner) = layout;
        Ok(())
    }

    /// The layout of this moment.
    pub fn layout(&self) -> Arc<GroupLayout> {
        Arc::clone(&self.layout.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The TPGS mode of this moment.
    pub fn mode(&self) -> TpgsMode {
        self.layout().mode
    }

    /// The administrator's state of a group. A group nobody described is active/optimized: a
    /// device without ALUA serves every port alike.
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

/// Why a group is in its state: the STATUS CODE of its descriptor (SPC-4 table 267).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StatusCode {
    /// Nothing to say.
    None = 0,
    /// SET TARGET PORT GROUPS.
    Explicit = 1,
    /// The target's own doing.
    Implicit = 2,
}

#[cfg(test)]
mod tests;
