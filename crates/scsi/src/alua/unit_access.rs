//! Access states of one logical unit: those of the administrator, and the choices of initiators.
//!
//! A choice binds only the initiator that made it, on all of its sessions. All groups lead to one
//! unit of one machine, so hosts need not agree on a path. If choices were shared, one host could
//! close all paths of the others with SET TARGET PORT GROUPS. Two hosts that balance their paths
//! would take them from each other.
//!
//! A choice belongs to one unit: ESXi and Linux send the command to one unit and expect only that
//! unit to move.
//!
//! The administrator's state comes first. If the administrator made a group standby, unavailable or
//! transitioning, no initiator opens it. If the administrator changes or repeats the state, the
//! choices made under it are void.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{AccessState, GroupLayout, StatusCode, TargetPortGroups, TpgsMode};

/// Most choices on one unit. More are refused, so that a hostile initiator cannot fill memory under
/// ever new names.
pub const MAX_CHOICES: usize = 1024;

/// State that an initiator chose for a target port group, for itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// The iSCSI name of the initiator.
    pub initiator: String,
    /// The TARGET PORT GROUP number.
    pub group: u16,
    /// State that the initiator chose.
    pub state: AccessState,
    /// Administrator's state at the time of the choice. The choice holds as long as this state
    /// does.
    pub under: AccessState,
}

/// State chosen and the administrator's state at that time, by initiator and group.
type Choices = BTreeMap<String, BTreeMap<u16, (AccessState, AccessState)>>;

/// Access states of one logical unit.
#[derive(Debug)]
pub struct UnitAccess {
    groups: Arc<TargetPortGroups>,
    choices: Mutex<Choices>,
    /// TPGS mode that was last reported to initiators.
    told_mode: AtomicU8,
}

impl UnitAccess {
    /// Makes the states of a unit on which no initiator has chosen anything yet.
    pub fn new(groups: Arc<TargetPortGroups>) -> Self {
        Self {
            told_mode: AtomicU8::new(groups.mode() as u8),
            groups,
            choices: Mutex::default(),
        }
    }

    /// Returns the device's groups.
    pub fn groups(&self) -> &Arc<TargetPortGroups> {
        &self.groups
    }

    /// Returns the state of a group of this unit for an initiator.
    pub fn state(&self, initiator: &str, group: u16) -> AccessState {
        self.state_and_reason(initiator, group).0
    }

    /// Returns the state of a group of this unit for an initiator, and the origin of the state.
    pub fn state_and_reason(&self, initiator: &str, group: u16) -> (AccessState, StatusCode) {
        let layout = self.groups.layout();
        let choices = self.lock();
        let of_initiator = choices.get(initiator);
        let choice = of_initiator.and_then(|choices| choices.get(&group));
        effective(&layout, group, choice.copied())
    }

    /// Returns the choices that hold, in the order of initiators and groups.
    pub fn choices(&self) -> Vec<Choice> {
        let layout = self.groups.layout();
        let mut choices = flat(&self.lock());
        choices.retain(|choice| holds(&layout, choice.group, choice.state, choice.under));
        choices
    }

    /// Takes over the states that an initiator set, already checked. Returns whether any state
    /// changed for the initiator.
    ///
    /// # Errors
    /// [`TooManyChoices`]. Nothing changes then.
    pub fn choose(
        &self,
        initiator: &str,
        states: &[(u16, AccessState)],
    ) -> Result<bool, TooManyChoices> {
        let layout = self.groups.layout();
        let mut choices = self.lock();
        let mut of_initiator = choices.get(initiator).cloned().unwrap_or_default();
        let before = of_initiator.clone();
        for &(group, state) in states {
            let under = layout.group(group).map(|group| group.state);
            match under.filter(|under| *under != state) {
                Some(under) => drop(of_initiator.insert(group, (state, under))),
                // The administrator's own state does not count as a choice.
                None => drop(of_initiator.remove(&group)),
            }
        }
        let others = choices.iter().filter(|(name, _)| *name != initiator);
        let others: usize = others.map(|(_, choices)| choices.len()).sum();
        if of_initiator.len() > before.len() && others + of_initiator.len() > MAX_CHOICES {
            return Err(TooManyChoices);
        }
        let state_of = |choices: &BTreeMap<u16, _>, group| {
            effective(&layout, group, choices.get(&group).copied()).0
        };
        let mut groups = layout.groups.iter().map(|group| group.id);
        let changed = groups.any(|id| state_of(&before, id) != state_of(&of_initiator, id));
        match of_initiator.is_empty() {
            true => drop(choices.remove(initiator)),
            false => drop(choices.insert(initiator.to_owned(), of_initiator)),
        }
        Ok(changed)
    }

    /// Drops the choices of a group, or of all groups, so that the administrator's states hold
    /// again. Returns the choices that held.
    pub fn end_choices(&self, group: Option<u16>) -> Vec<Choice> {
        let mut ended = self.choices();
        ended.retain(|choice| group.is_none_or(|group| group == choice.group));
        self.retain(|choice| group.is_some_and(|group| group != choice.group));
        ended
    }

    /// Drops the void choices, after which the administrator set another state, or none. Returns
    /// whether there were any.
    pub(crate) fn drop_void_choices(&self) -> bool {
        let layout = self.groups.layout();
        self.retain(|choice| holds(&layout, choice.group, choice.state, choice.under))
    }

    /// Keeps some choices. Returns whether there were others.
    fn retain(&self, is_kept: impl Fn(&Choice) -> bool) -> bool {
        let mut choices = self.lock();
        let mut kept = flat(&choices);
        let before = kept.len();
        kept.retain(is_kept);
        *choices = nested(&kept);
        kept.len() < before
    }

    /// Returns the TPGS mode if it differs from that of the last call. It is then to be reported to
    /// initiators.
    pub(crate) fn take_changed_mode(&self) -> Option<TpgsMode> {
        let mode = self.groups.mode();
        (self.told_mode.swap(mode as u8, Ordering::Relaxed) != mode as u8).then_some(mode)
    }

    /// Returns the choices as bytes, for the unit's persistent image.
    ///
    /// Each choice is the length of the initiator's name, the name, the group, the state, and the
    /// administrator's state.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for choice in flat(&self.lock()) {
            let name = choice.initiator.as_bytes();
            // A name of the protocol has at most 223 bytes.
            bytes.extend_from_slice(&(name.len() as u16).to_be_bytes());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(&choice.group.to_be_bytes());
            bytes.extend_from_slice(&[choice.state as u8, choice.under as u8]);
        }
        bytes
    }

    /// Restores the choices that [`UnitAccess::to_bytes`] returned.
    ///
    /// # Errors
    /// [`DamagedChoices`] if the bytes are anything else. Nothing changes then.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), DamagedChoices> {
        let mut restored = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (choice, after) = read_choice(rest).ok_or(DamagedChoices)?;
            restored.push(choice);
            rest = after;
        }
        *self.lock() = nested(&restored);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Error of an initiator that chose for more groups than all initiators together may
/// ([`MAX_CHOICES`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyChoices;

/// Error for saved choices that [`UnitAccess::to_bytes`] did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedChoices;

impl std::fmt::Display for DamagedChoices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the saved target port group states are damaged")
    }
}

impl std::error::Error for DamagedChoices {}

fn read_choice(bytes: &[u8]) -> Option<(Choice, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
    let (&[high, low, state, under], rest) = rest.split_first_chunk::<4>()?;
    let is_choosable = |state: &AccessState| *state != AccessState::Transitioning;
    let choice = Choice {
        initiator: std::str::from_utf8(name).ok()?.to_owned(),
        group: u16::from_be_bytes([high, low]),
        state: AccessState::from_code(state).filter(is_choosable)?,
        under: AccessState::from_code(under)?,
    };
    Some((choice, rest))
}

fn flat(choices: &Choices) -> Vec<Choice> {
    let all = choices.iter().flat_map(|(initiator, of_initiator)| {
        of_initiator
            .iter()
            .map(move |(&group, &(state, under))| Choice {
                initiator: initiator.clone(),
                group,
                state,
                under,
            })
    });
    all.collect()
}

fn nested(choices: &[Choice]) -> Choices {
    let mut nested = Choices::new();
    for choice in choices {
        let of_initiator = nested.entry(choice.initiator.clone()).or_default();
        of_initiator.insert(choice.group, (choice.state, choice.under));
    }
    nested
}

/// Reports whether a choice holds: the group is still open, and the administrator's state is still
/// the one under which the choice was made.
fn holds(layout: &GroupLayout, group: u16, state: AccessState, under: AccessState) -> bool {
    layout.mode.is_explicit()
        && layout.group(group).is_some_and(|group| {
            group.state == under && under.is_active() && group.supported.contains(state)
        })
}

fn effective(
    layout: &GroupLayout,
    id: u16,
    choice: Option<(AccessState, AccessState)>,
) -> (AccessState, StatusCode) {
    let Some(group) = layout.group(id) else {
        return (AccessState::ActiveOptimized, StatusCode::None);
    };
    match choice {
        Some((state, under)) if holds(layout, id, state, under) => (state, StatusCode::Explicit),
        _ if group.state.is_active() => (group.state, StatusCode::None),
        _ => (group.state, StatusCode::Implicit),
    }
}
