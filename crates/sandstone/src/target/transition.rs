//! Target port groups that go out of service: between the state before and the one after, until nothing that
//! began before is under way (SPC-4 5.15.2.5).
//!
//! Whoever sets a group to standby does so because the disk is served from elsewhere next. A write that began
//! before must not land after that, nor be in a cache that the other side cannot see. So new commands are
//! answered with 02/04/0A first; then those that began are waited for, and caches are emptied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use scsi::alua::{AccessState, GroupLayout, TargetPortGroups};
use scsi::task_set::Wake;

use super::message::{Message, QuietSignal};
use super::operation::{Operations, Token, Work};
use super::shared::Shared;
use super::unit::Unit;
use crate::control::ApplyError;

/// So long the commands of a group may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Groups whose commands are waited for.
#[derive(Clone, Debug)]
pub(super) struct DrainOrder {
    groups: Arc<[u16]>,
    /// Fires once every command is over that there was when its loop looked.
    signal: Arc<QuietSignal>,
}

impl DrainOrder {
    /// Has the signal wait for the commands of a loop.
    pub(super) fn carry_out(&self, operations: &mut Operations) {
        for (operation, mapped) in operations.entered() {
            // What has not been looked at asks for the state when it is. What goes on although its command
            // is over, SANITIZE for one, is not waited for.
            let begun = !matches!(operation.work, Work::Queued { .. });
            let group = mapped.itl.nexus().target_port.target_port_group;
            if begun && self.groups.contains(&group) && !operation.outlives_its_command() {
                operation.observers.push(Arc::clone(&self.signal));
            }
        }
    }
}

/// Holds the groups that leave service under `layout` between the two states, until what began before is over
/// and durable. May block.
///
/// # Errors
/// It did not end in time, or could not be made durable. The groups are in their states of before.
pub(super) fn leave_service(
    shared: &Shared,
    groups: &TargetPortGroups,
    layout: &GroupLayout,
    units: &BTreeMap<String, Arc<Unit>>,
) -> Result<(), ApplyError> {
    let before = groups.layout();
    let leaving = leaving(&before, layout);
    if leaving.is_empty() {
        return Ok(());
    }
    let mut between = layout.clone();
    for group in &mut between.groups {
        if leaving.contains(&group.id) {
            group.state = AccessState::Transitioning;
        } else if let Some(old) = before.group(group.id) {
            // What else changes does so afterwards, and is told then.
            group.state = old.state;
        }
    }
    // A layout that contradicts itself is refused as a whole, by who called.
    if groups.replace(between).is_err() {
        return Ok(());
    }
    let take_over = || {
        let units = units.values();
        units.for_each(|unit| unit.logical.access_states_are_changing());
    };
    take_over();
    let left = drain(shared, &leaving).and_then(|()| empty_caches(units, &leaving));
    if left.is_err() && groups.replace((*before).clone()).is_ok() {
        take_over();
    }
    left
}

/// The groups that serve now, or are between two states, and will be in standby or unavailable.
fn leaving(before: &GroupLayout, after: &GroupLayout) -> Vec<u16> {
    let is_out = |state| matches!(state, AccessState::Standby | AccessState::Unavailable);
    let groups = after.groups.iter().filter(|group| {
        let old = before.group(group.id);
        is_out(group.state) && old.is_some_and(|old| !is_out(old.state))
    });
    groups.map(|group| group.id).collect()
}

fn drain(shared: &Shared, groups: &[u16]) -> Result<(), ApplyError> {
    let (over, all_over) = channel();
    let wake: Wake = Arc::new(move |_| {
        // Who waited so long waits no more.
        let _ = over.send(());
    });
    let order = DrainOrder {
        groups: groups.into(),
        // No operation waits for it, so the token says nothing.
        signal: QuietSignal::new(Token(0), wake),
    };
    shared.send_to_all(|| Message::Drain(order.clone()));
    drop(order);
    match all_over.recv_timeout(PATIENCE) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
        Err(RecvTimeoutError::Timeout) => Err(refusal(
            groups,
            format!(
                "commands that began before are still under way after {} s",
                PATIENCE.as_secs()
            ),
        )),
    }
}

fn empty_caches(units: &BTreeMap<String, Arc<Unit>>, groups: &[u16]) -> Result<(), ApplyError> {
    let caching = units
        .values()
        .filter(|unit| unit.logical.may_hold_volatile());
    for unit in caching {
        let emptied = unit.empty_cache().map_err(|error| {
            let what = format!("the write cache of lu {}", unit.name);
            refusal(groups, format!("{what} could not be emptied: {error}"))
        });
        // Other groups go on using it.
        drop(emptied?);
    }
    Ok(())
}

fn refusal(groups: &[u16], message: String) -> ApplyError {
    let numbers: Vec<String> = groups.iter().map(u16::to_string).collect();
    let number = numbers.join(", ");
    ApplyError {
        object: format!("target port group {number}"),
        message,
        next: format!(
            "see the event log and what the units lie on; `sandstone target alua-state {} transitioning` keeps new commands out and waits for none",
            numbers.first().map_or("GROUP", String::as_str)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::alua::{SupportedStates, TargetPortGroup, TpgsMode};

    fn layout(states: &[AccessState]) -> GroupLayout {
        let groups = (1..).zip(states).map(|(id, state)| TargetPortGroup {
            id,
            preferred: false,
            supported: SupportedStates::ALL,
            state: *state,
            ports: vec![id],
        });
        GroupLayout {
            mode: TpgsMode::Both,
            groups: groups.collect(),
            implicit_transition_s: 0,
        }
    }

    #[test]
    fn who_goes_out_of_service_leaves_it_and_nobody_else() {
        use AccessState::{
            ActiveNonOptimized, ActiveOptimized, Standby, Transitioning, Unavailable,
        };
        let serving = [ActiveOptimized, ActiveNonOptimized, Transitioning];
        let out = [Standby, Unavailable];
        for before in serving.into_iter().chain(out) {
            for after in serving.into_iter().chain(out) {
                let leaves = serving.contains(&before) && out.contains(&after);
                let found = leaving(
                    &layout(&[ActiveOptimized, before]),
                    &layout(&[ActiveOptimized, after]),
                );
                let expected: &[u16] = if leaves { &[2] } else { &[] };
                assert_eq!(found, expected, "{before:?} to {after:?}");
            }
        }
        // A new group has nothing under way.
        let new = leaving(
            &layout(&[ActiveOptimized]),
            &layout(&[ActiveOptimized, Standby]),
        );
        assert!(new.is_empty(), "{new:?}");
    }
}
