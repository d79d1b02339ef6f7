//! Unit attentions: events of which an initiator must hear before its next command (SAM-5 5.14).
//!
//! There is one queue per I_T_L nexus. A queue never holds a condition twice, so the number of
//! conditions bounds it. It delivers the conditions that report a lost state (29h) before all
//! others.

use std::collections::VecDeque;

use crate::mode_page::THRESHOLD_DESCRIPTOR_AT;
use crate::sense::{Asc, Sense, SenseKey};

/// One unit attention condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitAttention(Asc);

#[allow(
    missing_docs,
    reason = "each constant is the standard's own text for its code"
)]
impl UnitAttention {
    pub const POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED: Self =
        Self(Asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
    pub const POWER_ON_OCCURRED: Self = Self(Asc::POWER_ON_OCCURRED);
    pub const SCSI_BUS_RESET_OCCURRED: Self = Self(Asc::SCSI_BUS_RESET_OCCURRED);
    pub const BUS_DEVICE_RESET_FUNCTION_OCCURRED: Self =
        Self(Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
    pub const I_T_NEXUS_LOSS_OCCURRED: Self = Self(Asc::I_T_NEXUS_LOSS_OCCURRED);
    pub const MODE_PARAMETERS_CHANGED: Self = Self(Asc::MODE_PARAMETERS_CHANGED);
    pub const LOG_PARAMETERS_CHANGED: Self = Self(Asc::LOG_PARAMETERS_CHANGED);
    pub const RESERVATIONS_PREEMPTED: Self = Self(Asc::RESERVATIONS_PREEMPTED);
    pub const RESERVATIONS_RELEASED: Self = Self(Asc::RESERVATIONS_RELEASED);
    pub const REGISTRATIONS_PREEMPTED: Self = Self(Asc::REGISTRATIONS_PREEMPTED);
    pub const ASYMMETRIC_ACCESS_STATE_CHANGED: Self = Self(Asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
    pub const CAPACITY_DATA_HAS_CHANGED: Self = Self(Asc::CAPACITY_DATA_HAS_CHANGED);
    pub const COMMANDS_CLEARED_BY_ANOTHER_INITIATOR: Self =
        Self(Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
    pub const THIN_PROVISIONING_SOFT_THRESHOLD_REACHED: Self =
        Self(Asc::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED);
    pub const INQUIRY_DATA_HAS_CHANGED: Self = Self(Asc::INQUIRY_DATA_HAS_CHANGED);
    pub const REPORTED_LUNS_DATA_HAS_CHANGED: Self = Self(Asc::REPORTED_LUNS_DATA_HAS_CHANGED);
}

impl UnitAttention {
    /// Makes the condition with this code.
    pub const fn new(asc: Asc) -> Self {
        Self(asc)
    }

    /// Returns the code of the condition.
    pub const fn asc(self) -> Asc {
        self.0
    }

    /// Returns the sense data of the condition. The sense data of the soft threshold contains the
    /// offset of its descriptor in the logical block provisioning mode page (SBC-4 4.18.1).
    pub fn sense(self) -> Sense {
        let sense = Sense::new(SenseKey::UnitAttention, self.0);
        if self == Self::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED {
            return sense.with_information(u64::from(THRESHOLD_DESCRIPTOR_AT));
        }
        sense
    }

    /// Reports whether the condition says that the device server lost or reset its state. SAM-5
    /// table 47 gives these precedence over all others.
    pub(crate) const fn is_reset(self) -> bool {
        self.0.0 == 0x29
    }
}

/// Pending conditions of one I_T_L nexus, the most important first.
#[derive(Debug, Default)]
pub(crate) struct UnitAttentionQueue(VecDeque<UnitAttention>);

impl UnitAttentionQueue {
    /// Adds a condition unless it is pending already. A reset goes ahead of everything but an
    /// older reset.
    pub(crate) fn raise(&mut self, ua: UnitAttention) {
        if self.0.contains(&ua) {
            return;
        }
        let at = if ua.is_reset() {
            self.0
                .iter()
                .take_while(|pending| pending.is_reset())
                .count()
        } else {
            self.0.len()
        };
        self.0.insert(at, ua);
    }

    /// Returns the most important condition.
    pub(crate) fn first(&self) -> Option<UnitAttention> {
        self.0.front().copied()
    }

    /// Reports whether a reset is pending that is more than the loss of the nexus.
    pub(crate) fn has_reset(&self) -> bool {
        let mut resets = self.0.iter().take_while(|pending| pending.is_reset());
        resets.any(|pending| *pending != UnitAttention::I_T_NEXUS_LOSS_OCCURRED)
    }

    /// Takes the most important condition. A reported condition is cleared (UA_INTLCK_CTRL = 00b).
    pub(crate) fn take(&mut self) -> Option<UnitAttention> {
        self.0.pop_front()
    }

    /// Clears one condition without reporting it.
    pub(crate) fn clear(&mut self, ua: UnitAttention) {
        self.0.retain(|pending| *pending != ua);
    }

    /// Reports whether nothing is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
