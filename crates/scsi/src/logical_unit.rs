//! Logical unit: identity, capacity, mode pages, reservations, unit attentions.
//!
//! All event loops share it as `Arc<LogicalUnit>`. One mutex guards the state that changes rarely.
//! One atomic word (`gate`) holds the state that every command asks.

pub(crate) mod config;
mod hindrances;
pub(crate) mod limits;
pub(super) mod write_through;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::BlockRange;
use crate::alua::{AccessState, TargetPortGroups, UnitAccess};
use crate::hindrance::Hindrance;
use crate::image;
use crate::itl_nexus::{ItlNexus, NexusVerdict};
use crate::medium::readiness::Readiness;
use crate::medium::statistics::Statistics;
use crate::medium::thin_provisioning::Space;
use crate::mode_page::ModePages;
use crate::nexus::lost_nexuses::LostNexuses;
use crate::nexus::{InitiatorPort, Nexus, NexusId};
use crate::persistent_reservation::{AccessClass, PersistentReservations};
use crate::sense::{Sense, SenseFormat};
use crate::task_set::TaskSetType;
use crate::third_party_copy::CopyOperations;
use crate::token::{TOKEN_LEN, Tokens};
use crate::{BlockError, Response, UnitAttention};

pub use crate::image::RestoreError;
pub use crate::mode_page::QueueErrorPolicy;
pub use config::UnitConfig;

/// Writing is forbidden for every nexus.
pub(crate) const GATE_WRITE_PROTECTED: u32 = 1 << 16;
/// The medium cannot be accessed now: stopped, offline or being sanitized.
const GATE_NOT_READY: u32 = 1 << 17;
/// The device beneath is away.
const GATE_AWAY: u32 = 1 << 18;
/// All bits of a unit.
pub(crate) const UNIT_GATES: u32 = GATE_WRITE_PROTECTED | GATE_NOT_READY | GATE_AWAY;

/// Writes may be acknowledged from volatile cache.
const FLAG_WRITE_CACHE: u32 = 1 << 0;
/// Sense data is in descriptor format.
const FLAG_DESCRIPTOR_SENSE: u32 = 1 << 1;
/// Tasks aborted by another nexus end with TASK ABORTED.
const FLAG_TASK_ABORTED_STATUS: u32 = 1 << 2;
/// A volatile cache may hold something: it is on, or being emptied.
const FLAG_MAY_HOLD_VOLATILE: u32 = 1 << 5;
/// A CHECK CONDITION aborts other commands.
const FLAG_QUEUE_ERROR: u32 = 1 << 3;
/// Each I_T nexus has a task set of its own.
const FLAG_TASK_SET_PER_NEXUS: u32 = 1 << 4;

/// Logical unit, shared by all event loops.
#[derive(Debug)]
pub struct LogicalUnit {
    /// Configuration with which the unit was made. The parts that change live are in `blocks` and
    /// `state`.
    config: UnitConfig,
    /// Asymmetric access states of the unit.
    access: UnitAccess,
    statistics: Statistics,
    copy_operations: Arc<CopyOperations>,
    tokens: Tokens,
    blocks: AtomicU64,
    gate: AtomicU32,
    flags: AtomicU32,
    state: Mutex<RareState>,
}

/// Part of a unit that changes rarely.
#[derive(Debug)]
pub(crate) struct RareState {
    /// Mode parameters: current, saved and default.
    pub(crate) mode: ModePages,
    /// Nexus that holds RESERVE(6) or RESERVE(10).
    pub(crate) reserve6: Option<NexusId>,
    /// Persistent reservations.
    pub(crate) reservations: PersistentReservations,
    /// Conditions that keep the medium from being accessed.
    pub(crate) readiness: Readiness,
    /// Number of images made, which shows the newest of several.
    image_generation: u64,
    /// Whether all that is saved is frozen, because the unit is about to leave service.
    is_retired: bool,
    /// Whether the administrator write protects the unit.
    read_only: bool,
    /// Whether the backend takes no writes.
    protected_beneath: bool,
    /// Initiator that set SWP last, or `None` if that was before a restart.
    pub(crate) software_protected_by: Option<Arc<InitiatorPort>>,
    /// Number of [`crate::WriteThrough`] holders.
    write_through: i32,
    nexuses: Vec<Weak<ItlNexus>>,
    lost: LostNexuses,
}

/// Causes of a reset of a logical unit (SAM-5 6.3.3, 6.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// LOGICAL UNIT RESET task management function.
    LogicalUnit,
    /// TARGET WARM RESET task management function.
    TargetWarm,
    /// TARGET COLD RESET task management function.
    TargetCold,
}

impl LogicalUnit {
    /// Makes a unit of this configuration, without any nexus, reservation or saved state. Limits
    /// that contradict each other are narrowed ([`UnitConfig::narrowed`]).
    pub fn new(config: UnitConfig, groups: Arc<TargetPortGroups>) -> Arc<Self> {
        let config = config.narrowed();
        let state = RareState {
            mode: ModePages::new(&config, groups.mode().is_implicit()),
            reserve6: None,
            reservations: PersistentReservations::default(),
            readiness: Readiness::default(),
            image_generation: 0,
            is_retired: false,
            read_only: config.read_only,
            protected_beneath: false,
            software_protected_by: None,
            write_through: 0,
            nexuses: Vec::new(),
            lost: LostNexuses::default(),
        };
        let unit = Self {
            blocks: AtomicU64::new(config.blocks),
            gate: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            access: UnitAccess::new(groups),
            statistics: Statistics::default(),
            copy_operations: Arc::default(),
            tokens: Tokens::default(),
            state: Mutex::new(state),
            config,
        };
        unit.publish(&unit.state());
        Arc::new(unit)
    }

    /// Takes over an image that [`crate::Step::Save`] stored before a restart.
    ///
    /// # Errors
    /// [`RestoreError`] if the image is not valid. The unit is unchanged then.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), RestoreError> {
        let mut state = self.state();
        let restored = image::restore(bytes, &state.mode, &self.access)?;
        state.image_generation = restored.generation;
        state.mode = restored.mode;
        state.reservations = restored.reservations;
        state.readiness.sanitize_failed = restored.sanitize_failed;
        self.publish(&state);
        Ok(())
    }

    /// Returns the configuration with all live changes.
    pub fn config(&self) -> UnitConfig {
        let read_only = self.state().read_only;
        UnitConfig {
            blocks: self.blocks(),
            write_cache: self.tells_write_cache(),
            read_only,
            ..self.config.clone()
        }
    }

    /// Returns the part of the configuration that never changes. Its `blocks`, `read_only` and
    /// `write_cache` are those of the start.
    pub(crate) fn fixed_config(&self) -> &UnitConfig {
        &self.config
    }

    /// Reports whether this is the unit's NAA designator.
    pub fn has_naa(&self, naa: &[u8]) -> bool {
        self.config.naa == naa
    }

    /// Returns the logical block length in bytes.
    #[inline]
    pub fn block_len(&self) -> u32 {
        self.config.block_len
    }

    /// Returns the physical block length in bytes, as READ CAPACITY(16) reports it.
    pub fn physical_block_len(&self) -> u32 {
        self.config.block_len << self.config.physical_exponent
    }

    /// Returns the capacity in logical blocks.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Returns the asymmetric access states of this unit.
    pub fn access(&self) -> &UnitAccess {
        &self.access
    }

    /// Returns the counters of the unit, to which the transport adds.
    #[inline]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the third-party copies of this unit's copy manager.
    pub(crate) fn copy_operations(&self) -> &Arc<CopyOperations> {
        &self.copy_operations
    }

    /// Returns the ROD tokens that this unit made.
    #[inline]
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Makes a ROD token for these blocks, or returns `None` if tokens are not offered.
    pub(crate) fn make_token(&self, ranges: Vec<BlockRange>) -> Option<Box<[u8; TOKEN_LEN]>> {
        self.tokens.make(&self.config, || self.blocks(), ranges)
    }

    /// Offers ROD tokens (POPULATE TOKEN, WRITE USING TOKEN). `epoch` is 16 random bytes, drawn
    /// once per run of the program. The caller promises to call [`Self::note_write`] and
    /// [`Self::note_loss`].
    pub fn enable_tokens(&self, epoch: [u8; 16]) {
        self.tokens.enable(epoch);
    }

    /// Ends the tokens that stand for the old content of a range.
    ///
    /// The caller calls it before any command writes, zeroes or deallocates blocks of the unit. If
    /// ranges are locked, the range is locked already. It costs one load while there are no tokens.
    #[inline]
    pub fn note_write(&self, range: BlockRange) {
        self.tokens.note_write(range);
    }

    /// Ends every token. The caller calls it when the device may have lost writes, before data that
    /// is read from now on is used.
    pub fn note_loss(&self) {
        self.tokens.revoke_all();
    }

    /// Enters an I_T nexus, and tells its first command why there is a new one.
    ///
    /// Normally the command is told that the unit was powered on (29/00). It is told that the nexus
    /// was lost (29/07, SAM-5 6.3.4) under two conditions. The initiator port was here before
    /// through the target port of this nexus, and the unit was not reset since.
    pub fn attach(self: &Arc<Self>, nexus: Nexus) -> Arc<ItlNexus> {
        let attached = Arc::new(ItlNexus::new(Arc::clone(self), nexus));
        let mut state = self.state();
        attached.raise(if state.lost.take(attached.nexus()) {
            UnitAttention::I_T_NEXUS_LOSS_OCCURRED
        } else {
            UnitAttention::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED
        });
        if state.mode.soft_threshold().is_reached() {
            attached.raise(UnitAttention::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED);
        }
        state.nexuses.retain(|old| old.strong_count() > 0);
        state.nexuses.push(Arc::downgrade(&attached));
        self.publish(&state);
        attached
    }

    /// Handles the loss of an I_T nexus: state that is bound to the nexus alone ends (SAM-5 6.3.4).
    /// Registrations of persistent reservations stay.
    pub fn detach(&self, id: NexusId) {
        self.copy_operations.forget_nexus(id);
        let mut state = self.state();
        // One nexus may have reached the unit through several LUNs.
        let lost: Vec<_> = state.nexuses().filter(|old| old.nexus().id == id).collect();
        for lost in lost {
            lost.end();
            // An initiator that has not heard of a reset must hear of the reset when it comes back,
            // not of a lost nexus.
            if !lost.has_untold_reset() {
                state.lost.note(lost.nexus());
            }
        }
        state
            .nexuses
            .retain(|old| old.upgrade().is_some_and(|old| old.nexus().id != id));
        if state.reserve6 == Some(id) {
            state.reserve6 = None;
        }
        self.publish(&state);
    }

    /// [`Self::detach`] for every nexus. Returns whether there was one.
    pub fn detach_all(&self) -> bool {
        let left: Vec<_> = self.state().nexuses().map(|it| it.nexus().id).collect();
        left.iter().for_each(|id| self.detach(*id));
        !left.is_empty()
    }

    /// Changes the capacity, and tells every nexus (06/2A/09). Data behind a new end is gone, even
    /// if the unit grows again: tokens for it are revoked.
    pub fn resize(&self, blocks: u64) {
        let before = self.blocks.swap(blocks, Ordering::Relaxed);
        let lost = before.checked_sub(blocks);
        if let Some(lost) = lost.and_then(|lost| BlockRange::new(blocks, lost)) {
            self.tokens.revoke(lost);
        }
        if before != blocks {
            self.raise(UnitAttention::CAPACITY_DATA_HAS_CHANGED, None);
        }
    }

    /// Reports whether unmapped blocks exist (LBPME): space is taken when blocks are written.
    pub fn is_thin(&self) -> bool {
        self.config.thin
    }

    /// Takes over the amount of space, for log page 0Ch. If the soft threshold is reached, every
    /// nexus is told (06/38/07). This happens once, until an eighth more than the threshold came
    /// back. Returns whether the nexuses were told just now.
    pub fn note_space(&self, space: Space) -> bool {
        self.statistics.set_space(space);
        let mut state = self.state();
        let news = state.mode.soft_threshold_mut().update(space);
        if news.count_changed {
            self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
        }
        if news.reached {
            let ua = UnitAttention::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED;
            self.raise_locked(&state, ua, None);
        }
        news.reached
    }

    /// Sets the soft threshold as the share of the space in use, in percent, live (06/2A/01). The
    /// next [`Self::note_space`] compares with it.
    pub fn set_soft_threshold(&self, percent: Option<u8>) {
        let mut state = self.state();
        if state.mode.soft_threshold_mut().set_percent(percent) {
            self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
        }
    }

    /// Write protects the unit, live (06/2A/01: the WP bit of MODE SENSE changed).
    pub fn set_read_only(&self, read_only: bool) {
        self.change_protection(|state| state.read_only = read_only);
    }

    /// Sets whether the backend refuses all writes, live (06/2A/01).
    pub fn set_protected_beneath(&self, is_protected: bool) {
        self.change_protection(|state| state.protected_beneath = is_protected);
    }

    fn change_protection(&self, change: impl FnOnce(&mut RareState)) {
        let mut state = self.state();
        let before = state.is_protected();
        change(&mut state);
        if state.is_protected() != before {
            self.publish(&state);
            self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
        }
    }

    /// Turns the unit into one that stands in while its backing is away.
    ///
    /// It answers questions about its identity and the units there are. All other commands get
    /// 02/04/01 (LOGICAL UNIT IS IN PROCESS OF BECOMING READY), so that initiators repeat them. It
    /// changes no state, because the state belongs to the unit that comes after it.
    pub fn stand_in(&self) {
        let mut state = self.state();
        state.readiness.away = true;
        self.publish(&state);
    }

    /// Reports whether the unit stands in for one whose backing is away.
    pub fn stands_in(&self) -> bool {
        self.gate() & GATE_AWAY != 0
    }

    /// Takes the unit offline (02/04/12 for commands that need the medium), or back.
    pub fn set_offline(&self, offline: bool) {
        let mut state = self.state();
        state.readiness.offline = offline;
        self.publish(&state);
    }

    /// Returns the target port group through which the SANITIZE under way was asked for, or `None`
    /// if there is none.
    pub fn sanitized_through(&self) -> Option<u16> {
        let sanitizing = self.state().readiness.sanitizing;
        sanitizing.map(|sanitizing| sanitizing.target_port_group)
    }

    /// Keeps initiators from changing saved state (BUSY), for a unit that is about to leave
    /// service.
    ///
    /// A [`crate::Step::Save`] that was asked for before may be under way still. While a SANITIZE
    /// is under way, this function changes nothing and returns `false`, because the end of the
    /// SANITIZE must be saved.
    #[must_use]
    pub fn retire(&self) -> bool {
        let mut state = self.state();
        let may_retire = state.readiness.sanitizing.is_none();
        state.is_retired |= may_retire;
        may_retire
    }

    /// Takes back [`Self::retire`], so that the unit stays in service.
    pub fn serve_on(&self) {
        self.state().is_retired = false;
    }

    /// Adds `more` to the number of [`crate::WriteThrough`] holders.
    fn hold_write_through(&self, more: i32) {
        let mut state = self.state();
        state.write_through += more;
        self.publish(&state);
    }

    /// Returns WCE as MODE SENSE reports it. Writes may be durable nevertheless
    /// ([`Self::write_through`]).
    pub fn tells_write_cache(&self) -> bool {
        self.state().mode.write_cache()
    }

    /// Reports whether [`Self::fix_write_cache`] would switch off a write cache that initiators
    /// know of.
    pub fn would_switch_write_cache_off(&self, fixed: Option<bool>) -> bool {
        let state = self.state();
        state.mode.write_cache() && !state.mode.write_cache_under(fixed)
    }

    /// Keeps a write cache on that was switched off but could not be emptied, and tells initiators
    /// (06/2A/01).
    pub fn keep_write_cache(&self) {
        let mut state = self.state();
        state.mode.keep_write_cache();
        self.publish(&state);
        self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
    }

    /// Changes WCE, current, saved and default, live (06/2A/01).
    ///
    /// To switch the cache off, the caller has emptied it and holds a [`crate::WriteThrough`]. The
    /// saved value changes in memory only: the caller stores [`Self::image_to_save`].
    pub fn set_write_cache(&self, enabled: bool) {
        let mut state = self.state();
        if state.mode.set_write_cache(enabled) {
            self.publish(&state);
            self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
        }
    }

    /// Fixes WCE for a backend that ignores requests to change it, live (06/2A/01). WCE is then
    /// `fixed`, and initiators cannot change it. With `None` the backend obeys requests. To switch
    /// the cache off, the caller has emptied it and holds a [`crate::WriteThrough`].
    pub fn fix_write_cache(&self, fixed: Option<bool>) {
        let mut state = self.state();
        if state.mode.fix_write_cache(fixed) {
            self.publish(&state);
            self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
        }
    }

    /// Makes a unit attention pending for every nexus but one.
    pub fn raise(&self, ua: UnitAttention, except: Option<NexusId>) {
        self.raise_locked(&self.state(), ua, except);
    }

    /// Raises as [`Self::raise`] does, for a caller that holds the lock.
    pub(crate) fn raise_locked(
        &self,
        state: &RareState,
        ua: UnitAttention,
        except: Option<NexusId>,
    ) {
        for nexus in state.nexuses() {
            if Some(nexus.nexus().id) != except {
                nexus.raise(ua);
            }
        }
    }

    /// Carries out the logical unit reset condition (SAM-5 6.3.3).
    ///
    /// The transport aborts the tasks. The unit releases RESERVE(6) and returns to its saved mode
    /// parameters. It tells every nexus, also the one that asked for the reset. Persistent
    /// reservations stay.
    ///
    /// Returns whether the reset switched the write cache off. The transport then makes the content
    /// of the cache durable.
    #[must_use]
    pub fn reset(&self, cause: Reset) -> bool {
        let mut state = self.state();
        let had_cache = state.mode.write_cache();
        state.reserve6 = None;
        state.readiness.stopped = None;
        state.lost.clear();
        state.mode.reset();
        self.publish(&state);
        let ua = match cause {
            Reset::LogicalUnit => UnitAttention::BUS_DEVICE_RESET_FUNCTION_OCCURRED,
            Reset::TargetWarm => UnitAttention::SCSI_BUS_RESET_OCCURRED,
            Reset::TargetCold => UnitAttention::POWER_ON_OCCURRED,
        };
        self.raise_locked(&state, ua, None);
        had_cache && !state.mode.write_cache()
    }

    /// Applies a layout of target port groups that an administrator replaced, and tells every nexus
    /// (06/2A/06).
    ///
    /// If the TPGS mode changed, TPGS in the INQUIRY data changed too (06/3F/03). IALUAE of the
    /// control extension page may also have changed (06/2A/01). Choices of initiators that became
    /// void are dropped. If there were any, the caller stores [`Self::image_to_save`].
    pub fn access_states_changed(&self) -> bool {
        let mut state = self.state();
        let had_void_choices = self.access.drop_void_choices();
        self.publish(&state);
        if let Some(mode) = self.access.take_changed_mode() {
            self.raise_locked(&state, UnitAttention::INQUIRY_DATA_HAS_CHANGED, None);
            if state.mode.set_implicit_alua(mode.is_implicit()) {
                self.raise_locked(&state, UnitAttention::MODE_PARAMETERS_CHANGED, None);
            }
        }
        self.raise_locked(&state, UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED, None);
        had_void_choices
    }

    /// Tells the other nexuses of an initiator that it chose access states for itself (06/2A/06).
    pub(crate) fn access_states_chosen(&self, by: &Nexus) {
        let state = self.state();
        self.publish(&state);
        let changed = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
        state.raise_where(changed, |nexus| {
            nexus.id != by.id && nexus.initiator.name == by.initiator.name
        });
    }

    /// Returns the access state of the target port group of a nexus, for its initiator.
    pub(crate) fn access_state_for(&self, nexus: &Nexus) -> AccessState {
        let group = nexus.target_port.target_port_group;
        self.access.state(&nexus.initiator.name, group)
    }

    /// Begins an administrator's change of access states. The new layout holds, and no initiator is
    /// told before [`Self::access_states_changed`].
    pub fn access_states_are_changing(&self) {
        self.publish(&self.state());
    }

    /// Reports whether writes may be acknowledged from volatile cache (WCE). If not, the transport
    /// makes every write durable before GOOD, even a write that it gave to the cache before this
    /// changed.
    #[inline]
    pub fn write_cache_enabled(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FLAG_WRITE_CACHE != 0
    }

    /// Reports whether a volatile cache may hold acknowledged writes: the cache is on, or is being
    /// emptied.
    #[inline]
    pub fn may_hold_volatile(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FLAG_MAY_HOLD_VOLATILE != 0
    }

    /// Reports whether a task that another nexus aborts ends with TASK ABORTED status (TAS) instead
    /// of silently.
    pub fn task_aborted_status(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FLAG_TASK_ABORTED_STATUS != 0
    }

    /// Returns the effect on the others of a command that ends with CHECK CONDITION (QERR, TST).
    pub fn queue_error_policy(&self) -> QueueErrorPolicy {
        if self.flags.load(Ordering::Relaxed) & FLAG_QUEUE_ERROR == 0 {
            return QueueErrorPolicy::LeaveOthers;
        }
        self.state().mode.queue_error_policy()
    }

    /// Returns whether the I_T nexuses share a task set (TST).
    pub fn task_set_type(&self) -> TaskSetType {
        if self.flags.load(Ordering::Relaxed) & FLAG_TASK_SET_PER_NEXUS == 0 {
            TaskSetType::Shared
        } else {
            TaskSetType::PerNexus
        }
    }

    /// Returns the holder of the unit's reservation, in words for an administrator.
    pub fn reservation_in_words(&self) -> Option<String> {
        let state = self.state();
        state.reservations.describe().or_else(|| {
            let holder = state.reserve6?;
            let nexus = state.nexuses().find(|nexus| nexus.nexus().id == holder);
            Some(match nexus {
                Some(nexus) => format!("RESERVE(6), held by {}", nexus.nexus().initiator.name),
                None => "RESERVE(6)".to_owned(),
            })
        })
    }

    /// Returns the response to a command whose block action failed. Only here a [`BlockError`]
    /// becomes sense data, or BUSY if it is not to be an error.
    pub fn sense_for(&self, error: BlockError) -> Response {
        match error {
            BlockError::Away => Response::busy(),
            error => self.check_condition(&Sense::of_block_error(error)),
        }
    }

    /// Returns CHECK CONDITION in the sense format for which the initiators asked.
    pub fn check_condition(&self, sense: &Sense) -> Response {
        Response::check_condition(sense.encode(self.sense_format()))
    }

    /// Returns the sense format of the control mode page.
    pub(crate) fn sense_format(&self) -> SenseFormat {
        if self.flags.load(Ordering::Relaxed) & FLAG_DESCRIPTOR_SENSE != 0 {
            SenseFormat::Descriptor
        } else {
            SenseFormat::Fixed
        }
    }

    /// Returns the gate bits that hold for every nexus, zero if nothing is special.
    #[inline]
    pub(crate) fn gate(&self) -> u32 {
        self.gate.load(Ordering::Acquire)
    }

    /// Returns NOT READY if the medium cannot be accessed.
    pub(crate) fn check_ready(&self) -> Result<(), Sense> {
        if self.gate() & GATE_NOT_READY == 0 {
            return Ok(());
        }
        self.state().readiness.check()
    }

    /// Returns DATA PROTECT if the unit is write protected.
    pub(crate) fn check_writable(&self) -> Result<(), Sense> {
        if self.gate() & GATE_WRITE_PROTECTED == 0 {
            return Ok(());
        }
        let protection = self.state().protections().find_map(|it| it.sense());
        protection.map_or(Ok(()), Err)
    }

    /// Reports whether writing is forbidden for every nexus.
    pub fn is_write_protected(&self) -> bool {
        self.gate() & GATE_WRITE_PROTECTED != 0
    }

    /// Locks the rarely changing state. A caller that changes it calls [`Self::publish`] before
    /// letting go.
    pub(crate) fn state(&self) -> MutexGuard<'_, RareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state, for a command that changes saved state. Returns BUSY if the unit [is about
    /// to leave](Self::retire).
    pub(crate) fn state_to_save(&self) -> Result<MutexGuard<'_, RareState>, Response> {
        let state = self.state();
        match state.is_retired {
            false => Ok(state),
            true => Err(Response::busy()),
        }
    }

    /// Brings all atomic words up to date with the state, of the unit and of each nexus.
    pub(crate) fn publish(&self, state: &RareState) {
        let mut flags = 0;
        let mut gate = 0;
        let set = |word: &mut u32, bit, on: bool| *word |= if on { bit } else { 0 };
        let caches = state.mode.write_cache() && state.write_through == 0;
        set(&mut flags, FLAG_WRITE_CACHE, caches);
        let holds = state.mode.write_cache() || state.write_through > 0;
        set(&mut flags, FLAG_MAY_HOLD_VOLATILE, holds);
        set(
            &mut flags,
            FLAG_DESCRIPTOR_SENSE,
            state.mode.descriptor_sense(),
        );
        set(
            &mut flags,
            FLAG_TASK_ABORTED_STATUS,
            state.mode.task_aborted_status(),
        );
        let queue_error = state.mode.queue_error_policy() != QueueErrorPolicy::LeaveOthers;
        set(&mut flags, FLAG_QUEUE_ERROR, queue_error);
        let per_nexus = state.mode.task_set_type() == TaskSetType::PerNexus;
        set(&mut flags, FLAG_TASK_SET_PER_NEXUS, per_nexus);
        let protected = state.protections().next().is_some();
        set(&mut gate, GATE_WRITE_PROTECTED, protected);
        set(&mut gate, GATE_NOT_READY, state.readiness.check().is_err());
        set(&mut gate, GATE_AWAY, state.readiness.away);
        self.flags.store(flags, Ordering::Relaxed);
        self.gate.store(gate, Ordering::Release);
        for nexus in state.nexuses() {
            nexus.set_verdict(state.verdict(nexus.nexus()));
            nexus.set_active(self.access_state_for(nexus.nexus()).is_active());
        }
    }

    /// Returns the unit's persistent state for storing after an administrator's change, which no
    /// [`crate::Step::Save`] follows.
    pub fn image_to_save(&self) -> Vec<u8> {
        self.image(&mut self.state())
    }

    /// Returns the unit's persistent state as bytes for [`crate::Step::Save`]. `state` is that of
    /// [`Self::state_to_save`].
    pub(crate) fn image(&self, state: &mut RareState) -> Vec<u8> {
        state.image_generation += 1;
        image::make(
            state.image_generation,
            &state.mode,
            &state.reservations,
            state.readiness.unfinished_sanitize(),
            &self.access,
        )
    }
}

impl RareState {
    /// Reports whether writes are forbidden by an administrator's decision about the unit, or by
    /// the device beneath.
    fn is_protected(&self) -> bool {
        self.read_only || self.protected_beneath
    }

    /// Returns everything that refuses writes to all initiators.
    fn protections(&self) -> impl Iterator<Item = Hindrance> {
        let by = self.software_protected_by.as_ref();
        let by = by.map(|by| by.name.clone());
        let is_set = self.mode.software_write_protect();
        let all = [
            self.read_only.then_some(Hindrance::ReadOnly),
            self.protected_beneath.then_some(Hindrance::ReadOnlyBeneath),
            is_set.then_some(Hindrance::SoftwareWriteProtected { by }),
        ];
        all.into_iter().flatten()
    }

    /// Makes a unit attention pending for some nexuses.
    fn raise_where(&self, ua: UnitAttention, is_told: impl Fn(&Nexus) -> bool) {
        let told = self.nexuses().filter(|nexus| is_told(nexus.nexus()));
        told.for_each(|nexus| nexus.raise(ua));
    }

    /// Returns all nexuses that are attached.
    pub(crate) fn nexuses(&self) -> impl Iterator<Item = Arc<ItlNexus>> {
        self.nexuses.iter().filter_map(Weak::upgrade)
    }

    /// Returns the present meaning of the reservations for a nexus.
    fn verdict(&self, nexus: &Nexus) -> NexusVerdict {
        let port = nexus.target_port.relative_port_id;
        let conflicts = |class| self.reservations.conflicts(&nexus.initiator, port, class);
        NexusVerdict {
            reads_conflict: conflicts(AccessClass::Read),
            writes_conflict: conflicts(AccessClass::Write),
            reserved_by_other: self.reserve6.is_some_and(|holder| holder != nexus.id),
        }
    }
}
