//! I_T_L nexus: one initiator port's relation to one logical unit (SAM-5 4.7).
//!
//! All that may forbid a command is kept as bits in two atomic words, one of the nexus and one of
//! the unit. The bits are brought up to date whenever their cause changes. So two loads show that
//! nothing forbids a command, under any number of reservations.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Response;
use crate::admission::{Access, Refusal};
use crate::alua::AccessState;
use crate::logical_unit::{GATE_WRITE_PROTECTED, LogicalUnit, UNIT_GATES};
use crate::nexus::Nexus;
use crate::persistent_reservation::AccessClass;
use crate::sense::{Asc, Sense, SenseKey};
use crate::unit_attention::{UnitAttention, UnitAttentionQueue};

/// A unit attention is pending.
const UNIT_ATTENTION: u32 = 1 << 0;
/// The map allows this nexus only to read.
const MAP_READ_ONLY: u32 = 1 << 1;
/// A persistent reservation forbids commands that read.
const READS_CONFLICT: u32 = 1 << 2;
/// A persistent reservation forbids commands that write.
const WRITES_CONFLICT: u32 = 1 << 3;
/// RESERVE(6) or RESERVE(10) is held by another nexus, so that only a few commands are allowed.
const RESERVED_BY_OTHER: u32 = 1 << 4;
/// The target port group is in another state than active/optimized or active/non-optimized.
const NOT_ACTIVE: u32 = 1 << 5;
/// The nexus is over: the unit left the initiator's view, or the session ended.
const DETACHED: u32 = 1 << 6;

const _: () = assert!(
    UNIT_GATES & (2 * DETACHED - 1) == 0,
    "the bits of a nexus and of its unit are told apart"
);

/// Bits that do not concern a READ. A read-only unit or map, or a write exclusive reservation, must
/// not make reading slow.
pub(crate) const FORBIDS_WRITES_ONLY: u32 = MAP_READ_ONLY | WRITES_CONFLICT | GATE_WRITE_PROTECTED;

/// READ(10), which stands for every medium access where access states are asked.
const MEDIUM_ACCESS: [u8; 1] = [0x28];

/// Meaning of a change of reservations or access states for one nexus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NexusVerdict {
    /// Whether a persistent reservation forbids reading.
    pub(crate) reads_conflict: bool,
    /// Whether a persistent reservation forbids writing.
    pub(crate) writes_conflict: bool,
    /// Whether another nexus holds RESERVE(6).
    pub(crate) reserved_by_other: bool,
}

/// Relation of one initiator port to one logical unit.
#[derive(Debug)]
pub struct ItlNexus {
    nexus: Nexus,
    unit: Arc<LogicalUnit>,
    gate: AtomicU32,
    attentions: Mutex<UnitAttentionQueue>,
}

impl ItlNexus {
    /// Makes a new nexus, which [`LogicalUnit::attach`] enters into the unit.
    pub(crate) fn new(unit: Arc<LogicalUnit>, nexus: Nexus) -> Self {
        Self {
            nexus,
            unit,
            gate: AtomicU32::new(0),
            attentions: Mutex::default(),
        }
    }

    /// Returns the logical unit.
    #[inline]
    pub fn unit(&self) -> &Arc<LogicalUnit> {
        &self.unit
    }

    /// Returns the I_T nexus.
    pub fn nexus(&self) -> &Nexus {
        &self.nexus
    }

    /// Makes a unit attention pending for this nexus.
    pub fn raise(&self, ua: UnitAttention) {
        let mut queue = self.attentions();
        queue.raise(ua);
        self.gate.fetch_or(UNIT_ATTENTION, Ordering::Release);
    }

    /// Reports whether a unit attention is pending.
    pub fn ua_pending(&self) -> bool {
        self.gate.load(Ordering::Acquire) & UNIT_ATTENTION != 0
    }

    /// Write protects the unit for this nexus only (a read-only map), from the beginning of the
    /// nexus on.
    pub fn set_read_only(&self, read_only: bool) {
        self.set_gate(MAP_READ_ONLY, read_only);
    }

    /// Changes the write protection of a nexus that its initiator already knows. If WP of MODE
    /// SENSE changes, the initiator is told (06/2A/01).
    pub fn change_read_only(&self, read_only: bool) {
        let is_protected = || self.is_read_only() || self.unit.is_write_protected();
        let before = is_protected();
        self.set_read_only(read_only);
        if is_protected() != before {
            self.raise(UnitAttention::MODE_PARAMETERS_CHANGED);
        }
    }

    /// Reports whether the map allows this nexus only to read.
    pub fn is_read_only(&self) -> bool {
        self.gate.load(Ordering::Acquire) & MAP_READ_ONLY != 0
    }

    /// Ends the nexus for good, because the unit left the initiator's view. Holders of the nexus,
    /// for example a third-party copy, read and write nothing through it any more.
    pub fn end(&self) {
        self.set_gate(DETACHED, true);
    }

    /// Reports whether the unit is still in the initiator's view.
    pub(crate) fn is_attached(&self) -> bool {
        self.gate.load(Ordering::Acquire) & DETACHED == 0
    }

    /// Returns LOGICAL UNIT NOT SUPPORTED if the nexus is over, as for any LUN that is not mapped.
    pub(crate) fn check_attached(&self) -> Result<(), Sense> {
        if self.is_attached() {
            Ok(())
        } else {
            Err(Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED))
        }
    }

    /// Returns all that may forbid a command now, of the nexus and of the unit.
    #[inline]
    pub(crate) fn gate(&self) -> u32 {
        self.gate.load(Ordering::Acquire) | self.unit.gate()
    }

    /// Asks the gates for a protocol that has no CDBs. Unit attentions are SCSI's own and refuse
    /// nothing here.
    ///
    /// # Errors
    /// The first gate that forbids the access, in the order in which commands ask them.
    #[inline]
    pub fn admits(&self, access: Access) -> Result<(), Refusal> {
        let gate = self.gate() & !UNIT_ATTENTION;
        let concerned = match access {
            Access::Read => gate & !FORBIDS_WRITES_ONLY,
            Access::Flush | Access::Write => gate,
        };
        if concerned == 0 {
            return Ok(());
        }
        self.admits_slowly(access)
    }

    #[cold]
    fn admits_slowly(&self, access: Access) -> Result<(), Refusal> {
        if !self.is_attached() {
            return Err(Refusal::Gone);
        }
        let class = match access {
            Access::Read => AccessClass::Read,
            Access::Flush | Access::Write => AccessClass::Write,
        };
        if self.conflicts(class, false) {
            return Err(Refusal::ReservationConflict);
        }
        if let Some(state) = self.forbidding_state(&MEDIUM_ACCESS) {
            return Err(Refusal::NoAccess(state));
        }
        if self.unit.check_ready().is_err() {
            return Err(Refusal::NotReady);
        }
        if access == Access::Write && self.check_writable().is_err() {
            return Err(Refusal::WriteProtected);
        }
        Ok(())
    }

    /// Asks the gates again, for a command whose data-out took its time to arrive. A reservation, a
    /// write protection or an access state that changed meanwhile fences the command, and so does a
    /// map that is gone.
    #[inline]
    pub fn may_still_run(&self, writes: bool) -> Result<(), Response> {
        let gate = self.gate() & !UNIT_ATTENTION;
        if gate == 0 {
            return Ok(());
        }
        self.may_still_run_slowly(writes)
    }

    #[cold]
    fn may_still_run_slowly(&self, writes: bool) -> Result<(), Response> {
        self.may_still_access(writes, || self.unit.check_ready())
    }

    /// Checks as [`Self::may_still_run`] does, but for SANITIZE. That command may run in a state
    /// that keeps all others from the medium, and judges that state itself.
    pub(crate) fn may_still_sanitize(&self) -> Result<(), Response> {
        self.may_still_access(true, || Ok(()))
    }

    fn may_still_access(
        &self,
        writes: bool,
        check_ready: impl FnOnce() -> Result<(), Sense>,
    ) -> Result<(), Response> {
        let class = if writes {
            AccessClass::Write
        } else {
            AccessClass::Read
        };
        self.check_attached()
            .map_err(|sense| self.unit.check_condition(&sense))?;
        if self.conflicts(class, false) {
            return Err(Response::reservation_conflict());
        }
        self.check_access_state(&MEDIUM_ACCESS)
            .and_then(|()| check_ready())
            .and_then(|()| {
                if writes {
                    self.check_writable()
                } else {
                    Ok(())
                }
            })
            .map_err(|sense| self.unit.check_condition(&sense))
    }

    /// Reports whether a reservation held by another nexus forbids a command of this kind.
    pub(crate) fn conflicts(&self, class: AccessClass, allowed_under_reserve6: bool) -> bool {
        let gate = self.gate.load(Ordering::Acquire);
        if gate & RESERVED_BY_OTHER != 0 && !allowed_under_reserve6 {
            return true;
        }
        match class {
            AccessClass::Always => false,
            AccessClass::Read => gate & READS_CONFLICT != 0,
            AccessClass::Write => gate & WRITES_CONFLICT != 0,
        }
    }

    /// Refuses a command that the asymmetric access state of the nexus's target port group does not
    /// allow (SPC-4 5.15.2.4).
    pub(crate) fn check_access_state(&self, cdb: &[u8]) -> Result<(), Sense> {
        let state = self.forbidding_state(cdb);
        match state.and_then(AccessState::not_ready_qualifier) {
            Some(qualifier) => Err(Sense::not_ready(Asc(0x04, qualifier))),
            None => Ok(()),
        }
    }

    /// Returns the access state of the nexus's target port group if it does not allow a command.
    fn forbidding_state(&self, cdb: &[u8]) -> Option<AccessState> {
        if self.gate.load(Ordering::Acquire) & NOT_ACTIVE == 0 {
            return None;
        }
        let state = self.unit.access_state_for(&self.nexus);
        (!state.is_active() && !state.permits(cdb)).then_some(state)
    }

    /// Refuses a write through a read-only map or to a write protected unit.
    pub(crate) fn check_writable(&self) -> Result<(), Sense> {
        if self.is_read_only() {
            return Err(Sense::new(SenseKey::DataProtect, Asc::WRITE_PROTECTED));
        }
        self.unit.check_writable()
    }

    /// Takes the pending unit attention that goes before RESERVATION CONFLICT (SAM-5 5.3.3).
    pub(crate) fn take_unit_attention_of_reset(&self) -> Option<UnitAttention> {
        self.take_if(UnitAttention::is_reset)
    }

    /// Takes the most important pending unit attention.
    pub(crate) fn take_unit_attention(&self) -> Option<UnitAttention> {
        self.take_if(|_| true)
    }

    /// Reports whether the initiator has not yet heard of a reset or power on of the unit.
    pub(crate) fn has_untold_reset(&self) -> bool {
        self.attentions().has_reset()
    }

    /// Clears a pending unit attention without reporting it.
    pub(crate) fn clear_unit_attention(&self, ua: UnitAttention) {
        let mut queue = self.attentions();
        queue.clear(ua);
        self.update_pending(&queue);
    }

    fn take_if(&self, wanted: impl Fn(UnitAttention) -> bool) -> Option<UnitAttention> {
        if !self.ua_pending() {
            return None;
        }
        let mut queue = self.attentions();
        if !queue.first().is_some_and(wanted) {
            return None;
        }
        let taken = queue.take();
        self.update_pending(&queue);
        taken
    }

    /// Brings the pending bit up to date. The caller holds the queue's lock.
    fn update_pending(&self, queue: &UnitAttentionQueue) {
        self.set_gate(UNIT_ATTENTION, !queue.is_empty());
    }

    /// Takes over the new meaning of the unit's reservations for this nexus. The caller holds the
    /// unit's lock.
    pub(crate) fn set_verdict(&self, verdict: NexusVerdict) {
        self.set_gate(READS_CONFLICT, verdict.reads_conflict);
        self.set_gate(WRITES_CONFLICT, verdict.writes_conflict);
        self.set_gate(RESERVED_BY_OTHER, verdict.reserved_by_other);
    }

    /// Takes over whether the target port group serves every command.
    pub(crate) fn set_active(&self, active: bool) {
        self.set_gate(NOT_ACTIVE, !active);
    }

    fn set_gate(&self, bit: u32, on: bool) {
        if on {
            self.gate.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.gate.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    fn attentions(&self) -> MutexGuard<'_, UnitAttentionQueue> {
        self.attentions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
