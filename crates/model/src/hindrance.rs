//! Hindrances: everything that stops or refuses I/O of a logical unit, as an administrator sees it.
//!
//! Listings, the status, explanations and metrics draw from [`Hindrance`]. Commands are refused by
//! [`scsi::Hindrance`]. The table in `docs/operations.md` has one row for each [`HindranceKind`].

use scsi::Imposed;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::health::Health;
use crate::name;

/// A state that stops or refuses I/O of a unit, or soon will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hindrance {
    /// Kind of the hindrance.
    pub kind: HindranceKind,
    /// Accesses that the hindrance stops.
    pub stops: Stops,
    /// Initiator that imposed the hindrance, if one did and its name is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The one initiator that the hindrance binds. `None` means that it is not bound to one
    /// initiator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binds_only: Option<String>,
    /// The one target port group (ALUA) through which the hindrance stops I/O. `None` means all
    /// groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port_group: Option<u16>,
    /// Finding, as a clause without a full stop.
    pub finding: String,
    /// Command that ends the hindrance, or a remedy in words. `None` means that it only ends on its
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// Accesses that a hindrance stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stops {
    /// No accesses yet.
    Nothing,
    /// Writes only.
    Writes,
    /// Reads and writes.
    Everything,
}

/// Kinds of hindrances. Each has one word, used everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HindranceKind {
    /// The administrator took the unit offline.
    Offline,
    /// The disk, file or pool beneath is missing or broken.
    Fault,
    /// A SANITIZE command is under way.
    Sanitize,
    /// A SANITIZE command failed, or did not end before a restart.
    SanitizeFailed,
    /// An initiator stopped the unit (START STOP UNIT).
    Stopped,
    /// The administrator closed a target port group (ALUA).
    Alua,
    /// An initiator chose another ALUA state for itself (SET TARGET PORT GROUPS).
    AluaChoice,
    /// An initiator reserved the unit (RESERVE of SPC-2).
    Reservation,
    /// Initiators hold a persistent reservation.
    PersistentReservation,
    /// The administrator made the unit read-only.
    ReadOnly,
    /// The volume, file or disk beneath takes no writes.
    ReadOnlyBeneath,
    /// Flushes and durable writes fail, because acknowledged writes may be lost.
    LostWrites,
    /// An initiator write protected the unit (SWP).
    WriteProtect,
    /// No space is left for writes that need new space.
    Full,
    /// The soft threshold of thin provisioning is reached.
    Threshold,
}

impl HindranceKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Offline,
        Self::Fault,
        Self::Sanitize,
        Self::SanitizeFailed,
        Self::Stopped,
        Self::Alua,
        Self::AluaChoice,
        Self::Reservation,
        Self::PersistentReservation,
        Self::ReadOnly,
        Self::ReadOnlyBeneath,
        Self::LostWrites,
        Self::WriteProtect,
        Self::Full,
        Self::Threshold,
    ];

    /// Returns the kind's word in listings, JSON, metrics and `lu clear`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::Fault => "fault",
            Self::Sanitize => "sanitize",
            Self::SanitizeFailed => "sanitize-failed",
            Self::Stopped => "stopped",
            Self::Alua => "alua",
            Self::AluaChoice => "alua-choice",
            Self::Reservation => "reservation",
            Self::PersistentReservation => "persistent-reservation",
            Self::ReadOnly => "read-only",
            Self::ReadOnlyBeneath => "read-only-beneath",
            Self::LostWrites => "lost-writes",
            Self::WriteProtect => "write-protect",
            Self::Full => "full",
            Self::Threshold => "threshold",
        }
    }

    /// Returns the health of a daemon while a unit has this hindrance.
    pub fn health(self) -> Health {
        match self {
            Self::Fault | Self::LostWrites | Self::SanitizeFailed | Self::Full => Health::Impaired,
            Self::Threshold => Health::Attention,
            // These states are wanted by the administrator or an initiator, or they pass.
            Self::Offline
            | Self::Sanitize
            | Self::Stopped
            | Self::Alua
            | Self::AluaChoice
            | Self::Reservation
            | Self::PersistentReservation
            | Self::ReadOnly
            | Self::ReadOnlyBeneath
            | Self::WriteProtect => Health::Healthy,
        }
    }

    /// Returns the kind of the given word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the work of `lu clear` for the kind. `None` means that another verb ends it, or
    /// none.
    pub fn clearing(self) -> Option<Clearing> {
        let imposed = |imposed| Some(Clearing::Imposed(imposed));
        match self {
            Self::Stopped => imposed(Imposed::Stop),
            Self::SanitizeFailed => imposed(Imposed::SanitizeFailure),
            Self::AluaChoice => imposed(Imposed::AccessChoices),
            Self::Reservation => imposed(Imposed::Reservation),
            Self::PersistentReservation => imposed(Imposed::PersistentReservation),
            Self::WriteProtect => imposed(Imposed::SoftwareWriteProtect),
            Self::LostWrites => Some(Clearing::LostWrites),
            Self::Offline
            | Self::Fault
            | Self::Sanitize
            | Self::Alua
            | Self::ReadOnly
            | Self::ReadOnlyBeneath
            | Self::Full
            | Self::Threshold => None,
        }
    }

    /// Returns the words that `lu clear` accepts.
    pub fn clearable() -> impl Iterator<Item = &'static str> {
        let kinds = Self::ALL.into_iter();
        let kinds = kinds.filter(|kind| kind.clearing().is_some());
        kinds.map(Self::word)
    }

    /// Returns the danger of ending the hindrance lightly. `None` means that there is none.
    pub fn danger(self) -> Option<&'static str> {
        match self {
            Self::Reservation | Self::PersistentReservation => Some(
                "Hosts that the reservation keeps out may then write at once: make sure that no cluster \
                 relies on it.",
            ),
            Self::SanitizeFailed => Some(
                "The content of its blocks is not known: some may be overwritten, others may hold the old \
                 data.",
            ),
            Self::LostWrites => Some(
                "Acknowledged writes may be lost: let the hosts check their data first, as after a power \
                 cut.",
            ),
            Self::Offline
            | Self::Fault
            | Self::Sanitize
            | Self::Stopped
            | Self::Alua
            | Self::AluaChoice
            | Self::ReadOnly
            | Self::ReadOnlyBeneath
            | Self::WriteProtect
            | Self::Full
            | Self::Threshold => None,
        }
    }
}

/// The work of `lu clear` for a kind of hindrance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// Ends the states that initiators imposed.
    Imposed(Imposed),
    /// Records that the administrator knows of the lost writes.
    LostWrites,
}

impl Hindrance {
    /// Reports whether the hindrance may stop the given initiator, on at least one session.
    pub fn concerns(&self, initiator: &str) -> bool {
        let binds = self.binds_only.as_deref();
        binds.is_none_or(|only| name::is_same(only, initiator))
    }

    /// Returns the finding, the word and the remedy in one line.
    pub fn told(&self) -> String {
        let Self { kind, finding, .. } = self;
        match &self.end {
            Some(end) => format!("{}: {finding}; to end it: {end}", kind.word()),
            None => format!("{}: {finding}", kind.word()),
        }
    }
}

/// The hindrances of one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnitHindrances {
    /// Name of the unit.
    pub unit: String,
    /// States that stop or refuse the unit's I/O.
    pub hindrances: Vec<Hindrance>,
}

/// States that `lu clear` ended, or would end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cleared {
    /// Whether the command was a dry run, which only reports.
    pub dry_run: bool,
    /// Name of the unit.
    pub unit: String,
    /// States that have ended, or would end.
    pub ended: Vec<Hindrance>,
}

/// An ALUA state that an initiator chose for itself on one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AluaChoice {
    /// Name of the unit.
    pub unit: String,
    /// iSCSI name of the initiator.
    pub initiator: String,
    /// Target port group whose state the initiator chose.
    pub target_port_group: u16,
    /// State that the administrator set, which holds for all other initiators.
    pub administrator: crate::config::AluaState,
    /// State that is in force for the initiator.
    pub chosen: crate::config::AluaState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json_and_lead_back() {
        for kind in HindranceKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
            assert_eq!(HindranceKind::of_word(kind.word()), Some(kind));
        }
        assert_eq!(HindranceKind::of_word("none"), None);
    }

    /// Device servers know initiators by folded names. Administrators type the names in any case.
    #[test]
    fn a_state_concerns_its_initiator_however_that_is_spelled() {
        let mut choice = Hindrance {
            kind: HindranceKind::AluaChoice,
            stops: Stops::Everything,
            by: None,
            binds_only: Some("iqn.2026-01.org.example:node-1".to_owned()),
            target_port_group: Some(1),
            finding: String::new(),
            end: None,
        };
        assert!(choice.concerns("iqn.2026-01.org.example:node-1"));
        assert!(choice.concerns("IQN.2026-01.Org.Example:Node-1"));
        assert!(!choice.concerns("iqn.2026-01.org.example:node-2"));
        choice.binds_only = None;
        assert!(choice.concerns("iqn.2026-01.org.example:node-2"));
    }

    #[test]
    fn the_exit_statuses_of_the_documents_name_the_kinds_that_count() {
        let text = include_str!("../../../docs/operations.md");
        let row = |health: Health| {
            let begin = format!("| {} |", health.exit_code());
            let row = text.lines().find(|line| line.starts_with(&begin));
            row.unwrap_or_else(|| panic!("no row for {health:?}"))
        };
        for kind in HindranceKind::ALL {
            for health in [Health::Attention, Health::Impaired] {
                let is_named = row(health).contains(&format!("`{}`", kind.word()));
                assert_eq!(is_named, kind.health() == health, "{kind:?}, {health:?}");
            }
        }
    }

    #[test]
    fn each_kind_has_a_row_in_the_documents() {
        let text = include_str!("../../../docs/operations.md");
        for kind in HindranceKind::ALL {
            let row = format!("| `{}` |", kind.word());
            let row = text.lines().find(|line| line.starts_with(&row));
            let row = row.unwrap_or_else(|| panic!("no row for {}", kind.word()));
            assert_eq!(row.matches('|').count(), 6, "{row}");
            let clears = row.contains(&format!("`lu clear LU {}`", kind.word()));
            assert_eq!(clears, kind.clearing().is_some(), "{row}");
        }
    }
}
