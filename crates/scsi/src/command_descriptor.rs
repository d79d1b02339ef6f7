//! Descriptor of one command: operation code, CDB usage, gates, and the handler with its input.
//!
//! Handlers that report the commands (REPORT SUPPORTED OPERATION CODES, VPD page 8Fh) find all
//! descriptors in their input. So no handler names the table of commands, which names them all.

use std::sync::Arc;

use crate::alua::TpgsMode;
use crate::cdb::Cdb;
use crate::itl_nexus::ItlNexus;
use crate::logical_unit::{LogicalUnit, UnitConfig};
use crate::persistent_reservation::AccessClass;
use crate::sense::Sense;
use crate::view::TargetView;
use crate::{Command, Start};

/// Whether a pending unit attention keeps a command from running (SAM-5 5.14.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitAttentionRule {
    /// CHECK CONDITION reports it.
    Report,
    /// The command runs in spite of it: INQUIRY, REPORT LUNS and REQUEST SENSE.
    Exempt,
}

/// Conditions that may keep a command from running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gates {
    /// Relation of the command to persistent reservations.
    pub(crate) access: AccessClass,
    /// Whether the command runs while another nexus holds RESERVE(6) (SPC-2 tables 9 and B.1).
    pub(crate) allowed_under_reserve6: bool,
    /// Reports whether a CDB of the command runs under any reservation, for commands of which only
    /// some CDBs do.
    pub(crate) runs_whoever_reserved: fn(Cdb<'_>) -> bool,
    /// Relation of the command to unit attentions.
    pub(crate) unit_attention: UnitAttentionRule,
    /// Whether the medium must be accessible.
    pub(crate) needs_ready: bool,
    /// Whether the command changes the medium.
    pub(crate) writes: bool,
}

impl Gates {
    pub(crate) const EXEMPT: Self = Self {
        access: AccessClass::Always,
        allowed_under_reserve6: true,
        runs_whoever_reserved: |_| false,
        unit_attention: UnitAttentionRule::Exempt,
        needs_ready: false,
        writes: false,
    };
    /// Asks or steers the device server, under any reservation.
    pub(crate) const CONTROL: Self = Self {
        allowed_under_reserve6: false,
        unit_attention: UnitAttentionRule::Report,
        ..Self::EXEMPT
    };
    pub(crate) const CONTROL_UNDER_RESERVE6: Self = Self {
        allowed_under_reserve6: true,
        ..Self::CONTROL
    };
    /// Asks about the medium, under any reservation.
    pub(crate) const READY: Self = Self {
        needs_ready: true,
        ..Self::CONTROL
    };
    /// Asks about the kind of medium, under any reservation, RESERVE(6) included.
    pub(crate) const READY_UNDER_RESERVE6: Self = Self {
        allowed_under_reserve6: true,
        ..Self::READY
    };
    /// Reads parameters.
    pub(crate) const READ_STATE: Self = Self {
        access: AccessClass::Read,
        ..Self::CONTROL
    };
    /// Changes parameters.
    pub(crate) const WRITE_STATE: Self = Self {
        access: AccessClass::Write,
        ..Self::CONTROL
    };
    /// Changes whether the unit is ready. A start without a power condition disturbs no one (SBC-4
    /// table 13).
    pub(crate) const START_STOP: Self = Self {
        runs_whoever_reserved: |cdb| cdb.u8(4) & 0xf1 == 0x01,
        ..Self::WRITE_STATE
    };
    /// Reads the medium.
    pub(crate) const READ: Self = Self {
        needs_ready: true,
        ..Self::READ_STATE
    };
    /// Concerns the medium as a write does, but changes nothing on it (SYNCHRONIZE CACHE).
    pub(crate) const FLUSH: Self = Self {
        needs_ready: true,
        ..Self::WRITE_STATE
    };
    /// Changes the medium.
    pub(crate) const WRITE: Self = Self {
        writes: true,
        ..Self::FLUSH
    };
    /// Changes the medium, and leads out of a state in which no other command may run.
    pub(crate) const SANITIZE: Self = Self {
        writes: true,
        ..Self::WRITE_STATE
    };
}

/// Property of a unit that offers a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No property: every unit offers the command.
    Nothing,
    /// Logical block provisioning.
    Thin,
    /// Atomic writes.
    AtomicWrite,
    /// Target port groups.
    Alua,
    /// ROD tokens.
    Tokens,
    /// A backend that writes in place.
    Sanitize,
    /// Target port groups with SET TARGET PORT GROUPS.
    ExplicitAlua,
}

/// Descriptor of one command.
#[derive(Clone, Copy, Debug)]
pub struct CommandDescriptor {
    /// Operation code.
    pub opcode: u8,
    /// Service action, for operation codes that have one.
    pub service_action: Option<u16>,
    /// Name in the standard.
    pub name: &'static str,
    /// CDB usage data (SPC-4 6.34.3), as long as the CDB. It holds the operation code and service
    /// action themselves, and otherwise a mask of the bits that the device server evaluates.
    pub usage: &'static [u8],
    pub(crate) gates: Gates,
    pub(crate) needs: Needs,
    pub(crate) handler: Handler,
}

impl CommandDescriptor {
    /// Returns the descriptor with a property that a unit needs to offer the command.
    pub(crate) const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// Reports whether this unit offers the command.
    pub fn is_offered(&self, unit: &LogicalUnit) -> bool {
        let config: &UnitConfig = unit.fixed_config();
        match self.needs {
            Needs::Nothing => true,
            Needs::Thin => config.thin,
            Needs::AtomicWrite => config.max_atomic_write > 0,
            Needs::Sanitize => config.sanitize,
            Needs::Alua => unit.access().groups().mode() != TpgsMode::None,
            Needs::Tokens => unit.tokens().are_enabled(),
            Needs::ExplicitAlua => unit.access().groups().mode().is_explicit(),
        }
    }
}

/// Input of a handler: a CDB that is long enough for its opcode, and the parties it concerns.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Nexus through which the command came.
    pub(crate) nexus: &'a Arc<ItlNexus>,
    /// The addressed unit.
    pub(crate) unit: &'a Arc<LogicalUnit>,
    /// The command descriptor block.
    pub(crate) cdb: Cdb<'a>,
    /// The command as it arrived.
    pub(crate) command: &'a Command<'a>,
    /// All units that the initiator sees.
    pub(crate) view: &'a dyn TargetView,
    /// All commands that the device server knows, for those that report them.
    pub(crate) commands: &'static [CommandDescriptor],
}

impl Request<'_> {
    /// Returns the commands that the addressed unit offers, in the order of their operation codes.
    pub(crate) fn offered(&self) -> impl Iterator<Item = &'static CommandDescriptor> {
        let commands = self.commands.iter();
        commands.filter(|command| command.is_offered(self.unit))
    }
}

/// Entry point of a command. It returns the first action, or the sense data of CHECK CONDITION.
pub(crate) type Handler = fn(&Request<'_>) -> Result<Start, Sense>;
