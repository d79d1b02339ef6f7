//! Target port groups that go out of service. A group stays between its old and its new state until
//! no earlier command is under way (SPC-4 5.15.2.5).
//!
//! An administrator sets a group to standby because the disk is served from elsewhere next. An
//! earlier write must not land after that, nor stay in a cache that the other side cannot see. So
//! new commands are first answered with 02/04/0A. Then earlier commands are waited for, and caches
//! are emptied.
//!
//! A SANITIZE that was asked for through such a group keeps it in service. It may take hours, and
//! nothing but its end may end it (SBC-4 4.11.2). A suspended one would leave the other side a disk
//! that is overwritten in part and does not report it. SANITIZE is the one command that goes on for
//! long after its session. All other work that outlives its command (a reservation, mode parameters
//! or access states being stored) is waited for like any command.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use scsi::alua::{AccessState, GroupLayout, TargetPortGroups};
use scsi::task_set::Wake;

use super::command::operation::Token;
use super::command::peers::Peers;
use super::drain::{DrainOrder, Whose};
use super::unit::Unit;
use crate::quiet_signal::QuietSignal;
use block::clock;
use model::data_plane::ApplyError;

/// Time that commands may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Holds the groups that leave service under `layout` between the two states, until earlier
/// commands are over and durable. `units` are those served now, including units that this change
/// deletes: their commands by these groups count too. May block.
///
/// # Errors
/// The commands did not end in time, will not end for long, or could not be made durable. The
/// groups are in their former states.
pub fn leave_service(
    peers: &impl Peers,
    groups: &Arc<TargetPortGroups>,
    layout: &GroupLayout,
    units: &[Arc<Unit>],
) -> Result<(), ApplyError> {
    match Departure::begin(peers, groups, layout, units)? {
        Some(departure) => departure.finish(),
        None => Ok(()),
    }
}

/// Target port groups between their old and their new state, while earlier commands end. If this is
/// dropped before [`Departure::finish`], the groups are in their former states again.
#[derive(Debug)]
pub struct Departure {
    groups: Arc<TargetPortGroups>,
    /// Former states, or `None` once the groups have left them for good.
    before: Option<Arc<GroupLayout>>,
    after: GroupLayout,
    leaving: Vec<u16>,
    units: Vec<Arc<Unit>>,
    earlier: EarlierWork,
}

impl Departure {
    /// Puts the groups that leave service between the two states, as [`leave_service`] does, and
    /// does not wait. Returns `None` if no group leaves.
    ///
    /// # Errors
    /// A SANITIZE will not end for long.
    pub fn begin(
        peers: &impl Peers,
        groups: &Arc<TargetPortGroups>,
        layout: &GroupLayout,
        units: &[Arc<Unit>],
    ) -> Result<Option<Self>, ApplyError> {
        let before = groups.layout();
        let leaving = leaving(&before, layout);
        if leaving.is_empty() {
            return Ok(None);
        }
        let mut between = layout.clone();
        for group in &mut between.groups {
            if leaving.contains(&group.id) {
                group.state = AccessState::Transitioning;
            } else if let Some(old) = before.group(group.id) {
                // All other changes come afterwards, and are reported then.
                group.state = old.state;
            }
        }
        // A known SANITIZE refuses the change before anybody is disturbed. One that begins
        // meanwhile is seen when every loop has looked.
        refuse_while_sanitized(units, layout, &leaving)?;
        // The caller refuses a layout that contradicts itself as a whole.
        if groups.replace(between).is_err() {
            return Ok(None);
        }
        take_over(units);
        let earlier = EarlierWork::begin(peers, vec![Whose::Groups(leaving.as_slice().into())]);
        Ok(Some(Self {
            groups: Arc::clone(groups),
            before: Some(before),
            after: layout.clone(),
            leaving,
            units: units.to_vec(),
            earlier,
        }))
    }

    /// Reports whether [`Self::finish`] would not have to wait.
    pub fn is_over(&mut self) -> bool {
        self.earlier.is_over()
    }

    /// Waits until earlier commands are over and durable. May block.
    ///
    /// # Errors
    /// As those of [`leave_service`].
    pub fn finish(mut self) -> Result<(), ApplyError> {
        self.earlier.sit_out();
        let Self { leaving, units, .. } = &self;
        let in_time = match self.earlier.ended() == [true] {
            true => Ok(()),
            false => Err(still_under_way(leaving)),
        };
        let left = in_time
            .and_then(|()| refuse_while_sanitized(units, &self.after, leaving))
            .and_then(|()| empty_caches(units, leaving));
        if left.is_ok() {
            self.before = None;
        }
        left
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        if let Some(before) = self.before.take()
            && self.groups.replace((*before).clone()).is_ok()
        {
            take_over(&self.units);
        }
    }
}

/// Puts a layout in force. Its units report the change, and store it.
pub fn put_in_force<'a>(
    groups: &TargetPortGroups,
    layout: GroupLayout,
    units: impl Iterator<Item = &'a Arc<Unit>>,
) {
    if *groups.layout() == layout || groups.replace(layout).is_err() {
        return;
    }
    for unit in units {
        if unit.logical.access_states_changed() {
            unit.store_state();
        }
    }
}

fn take_over(units: &[Arc<Unit>]) {
    let units = units.iter();
    units.for_each(|unit| unit.logical.access_states_are_changing());
}

/// Returns the groups that serve now, or are between two states, and will be in standby or
/// unavailable.
fn leaving(before: &GroupLayout, after: &GroupLayout) -> Vec<u16> {
    let groups = after.groups.iter().filter(|group| {
        let old = before.group(group.id);
        is_out(group.state) && old.is_some_and(|old| !is_out(old.state))
    });
    groups.map(|group| group.id).collect()
}

fn is_out(state: AccessState) -> bool {
    matches!(state, AccessState::Standby | AccessState::Unavailable)
}

fn still_under_way(groups: &[u16]) -> ApplyError {
    refusal(
        groups,
        format!(
            "earlier commands are still under way after {} s",
            PATIENCE.as_secs()
        ),
    )
}

/// Waits until nothing is under way on units that nobody sees any more. Returns whether that was so
/// in time. May block.
pub fn outlast(peers: &impl Peers, units: &[Arc<Unit>]) -> bool {
    earlier_work(peers, units).wait() == [true]
}

/// Returns the wait of [`outlast`].
pub(crate) fn earlier_work(peers: &impl Peers, units: &[Arc<Unit>]) -> EarlierWork {
    EarlierWork::begin(peers, vec![Whose::Units(units.into())])
}

/// Returns the wait for saves of these units' state, for all of them at once.
pub(crate) fn saves(peers: &impl Peers, units: &[Arc<Unit>]) -> EarlierWork {
    let each = units
        .iter()
        .map(|unit| Whose::Saves([Arc::clone(unit)].into()));
    EarlierWork::begin(peers, each.collect())
}

/// Several kinds of work that began before the loops look, which are waited for in the time of one.
#[derive(Debug)]
pub struct EarlierWork {
    /// Channel that tells the number of each kind that is over. It is disconnected when every loop
    /// has let go of every order. Each order has reported its end by then.
    over: Receiver<usize>,
    ended: Vec<bool>,
    give_up: Instant,
    is_over: bool,
}

impl EarlierWork {
    fn begin(peers: &impl Peers, all: Vec<Whose>) -> Self {
        let (ending, over) = channel();
        let ended = vec![false; all.len()];
        for (at, whose) in all.into_iter().enumerate() {
            let ending = ending.clone();
            let wake: Wake = Arc::new(move |_| {
                // After the deadline, nobody listens any more.
                let _ = ending.send(at);
            });
            // No operation waits for it, so the token has no meaning.
            let signal = QuietSignal::at_the_end(Token(0), wake);
            peers.loops().drain(&DrainOrder::new(whose, signal));
        }
        Self {
            over,
            ended,
            give_up: clock::now() + PATIENCE,
            is_over: false,
        }
    }

    /// Looks at what has ended, without waiting. Reports whether there is nothing left to wait for:
    /// all has ended, or the time is up.
    pub fn is_over(&mut self) -> bool {
        loop {
            match self.over.try_recv() {
                Ok(at) => self.ended[at] = true,
                Err(TryRecvError::Disconnected) => self.is_over = true,
                Err(TryRecvError::Empty) => {
                    self.is_over |= clock::now() >= self.give_up;
                    return self.is_over;
                }
            }
            if self.is_over {
                return true;
            }
        }
    }

    /// Waits to the end. Returns for each kind whether it ended in time. May block.
    pub(crate) fn wait(mut self) -> Vec<bool> {
        self.sit_out();
        self.ended
    }

    /// Waits to the end. May block.
    pub(crate) fn sit_out(&mut self) {
        while !self.is_over {
            let left = self.give_up.saturating_duration_since(clock::now());
            match self.over.recv_timeout(left) {
                Ok(at) => self.ended[at] = true,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.is_over = true;
                }
            }
        }
    }

    /// Reports for each kind whether it has ended.
    pub(crate) fn ended(&self) -> &[bool] {
        &self.ended
    }
}

/// Refuses if a SANITIZE holds its group in service. If that group no longer serves, the SANITIZE
/// holds all groups that still do.
fn refuse_while_sanitized(
    units: &[Arc<Unit>],
    layout: &GroupLayout,
    leaving: &[u16],
) -> Result<(), ApplyError> {
    let stays = |group| layout.group(group).is_some_and(|it| !is_out(it.state));
    let held = |unit: &&Arc<Unit>| {
        unit.logical
            .sanitized_through()
            .is_some_and(|it| !stays(it))
    };
    match units.iter().find(held) {
        None => Ok(()),
        Some(unit) => Err(ApplyError {
            object: groups_in_words(leaving),
            message: format!(
                "SANITIZE is overwriting lu {}, and cannot be stopped",
                unit.name
            ),
            next: "try again when SANITIZE has ended; until then TEST UNIT READY returns 02/04/1B, and \
                   REQUEST SENSE returns the progress"
                .into(),
        }),
    }
}

fn empty_caches(units: &[Arc<Unit>], groups: &[u16]) -> Result<(), ApplyError> {
    let caching = units.iter().filter(|unit| unit.logical.may_hold_volatile());
    for unit in caching {
        let emptied = unit.empty_cache().map_err(|error| {
            let what = format!("the write cache of lu {}", unit.name);
            refusal(groups, format!("{what} could not be emptied: {error}"))
        });
        // Other groups go on using the cache.
        drop(emptied?);
    }
    Ok(())
}

fn refusal(groups: &[u16], message: String) -> ApplyError {
    let first = groups.first().map_or("GROUP".to_owned(), u16::to_string);
    ApplyError {
        object: groups_in_words(groups),
        message,
        next: format!(
            "see the event log and the backends of the units; `sandstone target alua-state {first} \
             transitioning` keeps new commands out without waiting for any"
        ),
    }
}

fn groups_in_words(groups: &[u16]) -> String {
    let numbers: Vec<String> = groups.iter().map(u16::to_string).collect();
    format!("target port group {}", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::abort::AbortOrder;
    use crate::loops::Loops;
    use scsi::alua::{SupportedStates, TargetPortGroup, TpgsMode};
    use scsi::logical_unit::LogicalUnit;

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

    /// Protocol that has no loops, so nothing is ever under way.
    #[derive(Debug, Default)]
    struct NoPeers(Arc<Loops>);

    impl Peers for NoPeers {
        type Function = ();

        fn loops(&self) -> &Arc<Loops> {
            &self.0
        }

        fn abort(&self, _: usize, _: &Arc<AbortOrder<()>>) {}

        fn unit_of(&self, _: &Arc<LogicalUnit>) -> Option<Arc<Unit>> {
            None
        }
    }

    #[test]
    fn groups_stay_between_the_states_only_until_their_departure_ends_or_is_given_up() {
        use AccessState::{ActiveOptimized, Standby, Transitioning};
        let before = layout(&[ActiveOptimized, ActiveOptimized]);
        let after = layout(&[ActiveOptimized, Standby]);
        let groups = TargetPortGroups::new(before.clone()).map(Arc::new);
        let groups = groups.expect("a layout");
        let begin = || {
            let begun = Departure::begin(&NoPeers::default(), &groups, &after, &[]);
            let begun = begun.expect("no SANITIZE").expect("a group leaves");
            assert_eq!(groups.layout().groups[1].state, Transitioning);
            begun
        };
        drop(begin());
        assert_eq!(*groups.layout(), before);
        begin().finish().expect("nothing is under way");
        assert_eq!(groups.layout().groups[1].state, Transitioning);
        put_in_force(&groups, after.clone(), [].iter());
        assert_eq!(*groups.layout(), after);
    }
}
