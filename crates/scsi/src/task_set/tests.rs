//! Tests of the order of commands: by hand, against a model, and on many threads.

use std::sync::atomic::{AtomicI32, AtomicUsize};

use proptest::prelude::*;

use super::*;
use TaskAttribute::{HeadOfQueue, Ordered, Simple};
use TaskSetType::{PerNexus, Shared};

type Log = Arc<Mutex<Vec<u64>>>;

/// Makes task sets, the nexuses 0, 1, … in them, and a log of woken waiters.
fn task_sets(nexuses: u64) -> (Vec<NexusTasks>, Log) {
    let woken = Log::default();
    let log = woken.clone();
    let sets = TaskSets::new(Arc::new(move |waiter| log.lock().unwrap().push(waiter)));
    let joined = (0..nexuses).map(|number| sets.join(NexusId(number)));
    (joined.collect(), woken)
}

fn gates(nexuses: &[NexusTasks]) -> Vec<bool> {
    let places = nexuses.iter().map(|nexus| &nexus.place);
    places.map(|place| place.gate.load(SeqCst)).collect()
}

#[test]
fn ordered_waits_for_older_and_holds_younger() {
    let (n, woken) = task_sets(3);
    assert_eq!(n[0].enter(Simple, 1, || Shared), Entered::Now);
    assert_eq!(n[1].enter(Ordered, 2, || Shared), Entered::Queued);
    assert_eq!(n[2].enter(Simple, 3, || Shared), Entered::Queued);
    assert_eq!(n[2].enter(HeadOfQueue, 4, || Shared), Entered::Now);
    n[0].leave(Simple);
    assert!(woken.lock().unwrap().is_empty());
    n[2].leave(HeadOfQueue);
    assert_eq!(*woken.lock().unwrap(), [2]);
    assert_eq!(n[0].enter(Simple, 5, || Shared), Entered::Queued);
    n[1].leave(Ordered);
    woken.lock().unwrap().sort_unstable();
    assert_eq!(*woken.lock().unwrap(), [2, 3, 5]);
    n[2].leave(Simple);
    n[0].leave(Simple);
    assert_eq!(gates(&n), [false; 3], "the gates opened again");
}

#[test]
fn an_ordered_command_alone_runs_at_once() {
    for kind in [Shared, PerNexus] {
        let (n, _) = task_sets(1);
        assert_eq!(n[0].enter(Ordered, 1, || kind), Entered::Now);
        assert_eq!(n[0].enter(Ordered, 2, || kind), Entered::Queued);
        assert!(n[0].cancel(2));
        n[0].leave(Ordered);
        assert!(!n[0].cancel(2));
        assert_eq!(n[0].enter(Simple, 3, || kind), Entered::Now);
    }
}

#[test]
fn in_a_set_of_its_own_ordered_concerns_its_nexus_alone() {
    let (n, woken) = task_sets(2);
    assert_eq!(n[0].enter(Simple, 1, || PerNexus), Entered::Now);
    assert_eq!(n[1].enter(Ordered, 2, || PerNexus), Entered::Now);
    assert_eq!(n[0].enter(Ordered, 3, || PerNexus), Entered::Queued);
    assert_eq!(n[0].enter(Simple, 4, || PerNexus), Entered::Queued);
    assert_eq!(n[1].enter(Simple, 5, || PerNexus), Entered::Queued);
    n[1].leave(Ordered);
    assert_eq!(*woken.lock().unwrap(), [5]);
    n[0].leave(Simple);
    assert_eq!(*woken.lock().unwrap(), [5, 3]);
    n[0].leave(Ordered);
    assert_eq!(*woken.lock().unwrap(), [5, 3, 4]);
}

#[test]
fn a_change_of_the_type_breaks_no_barrier() {
    let (n, woken) = task_sets(3);
    assert_eq!(n[0].enter(Simple, 1, || Shared), Entered::Now);
    assert_eq!(n[1].enter(Ordered, 2, || Shared), Entered::Queued);
    // From now on each nexus has its own set: older commands of the nexus are waited for, and older
    // barriers.
    assert_eq!(n[0].enter(Ordered, 3, || PerNexus), Entered::Queued);
    assert_eq!(n[2].enter(Ordered, 4, || PerNexus), Entered::Queued);
    n[0].leave(Simple);
    assert_eq!(*woken.lock().unwrap(), [2]);
    n[1].leave(Ordered);
    assert_eq!(*woken.lock().unwrap(), [2, 3, 4]);
    // The type changes back: a barrier waits for ORDERED commands in a set of their own, and for
    // commands that wait behind them.
    assert_eq!(n[0].enter(Simple, 5, || PerNexus), Entered::Queued);
    assert_eq!(n[1].enter(Ordered, 6, || Shared), Entered::Queued);
    n[2].leave(Ordered);
    n[0].leave(Ordered);
    assert_eq!(*woken.lock().unwrap(), [2, 3, 4, 5]);
    n[0].leave(Simple);
    assert_eq!(*woken.lock().unwrap(), [2, 3, 4, 5, 6]);
    n[1].leave(Ordered);
    assert_eq!(gates(&n), [false; 3]);
}

#[test]
fn a_cancelled_barrier_opens_all_gates() {
    let (n, woken) = task_sets(2);
    assert_eq!(n[0].enter(Simple, 1, || Shared), Entered::Now);
    assert_eq!(n[0].enter(Ordered, 2, || Shared), Entered::Queued);
    assert_eq!(n[1].enter(Simple, 3, || Shared), Entered::Queued);
    assert!(n[0].cancel(2));
    assert_eq!(*woken.lock().unwrap(), [3]);
    assert_eq!(gates(&n), [false; 2]);
}

#[test]
fn a_nexus_is_the_same_under_each_of_its_luns_and_forgotten_with_the_last() {
    let (mut n, _) = task_sets(2);
    let sets = n[0].sets.clone();
    let again = sets.join(NexusId(0));
    assert_eq!(n[0].enter(Simple, 1, || PerNexus), Entered::Now);
    assert_eq!(again.enter(Ordered, 2, || PerNexus), Entered::Queued);
    assert_eq!(sets.lock().members.len(), 2);
    drop(again);
    assert!(gates(&n)[0], "what waits still waits");
    assert!(n[0].cancel(2));
    n[0].leave(Simple);
    n.clear();
    assert!(sets.lock().members.is_empty());
}

#[test]
fn a_nexus_that_joins_behind_a_barrier_waits_for_it() {
    let (n, woken) = task_sets(1);
    assert_eq!(n[0].enter(Ordered, 1, || Shared), Entered::Now);
    let late = n[0].sets.join(NexusId(7));
    assert_eq!(late.enter(Simple, 2, || Shared), Entered::Queued);
    n[0].leave(Ordered);
    assert_eq!(*woken.lock().unwrap(), [2]);
}

const NEXUSES: u64 = 3;

#[derive(Clone, Copy, Debug)]
enum Action {
    Enter(u64, TaskAttribute),
    /// End of the running command with this number, modulo the number of running ones.
    Leave(usize),
    /// Cancellation of the waiting command with this number.
    Cancel(usize),
    SetType(TaskSetType),
}

/// Command as the standard sees it: only its age counts.
#[derive(Clone, Copy, Debug)]
struct Modelled {
    waiter: u64,
    nexus: u64,
    attribute: TaskAttribute,
    /// Task set type at the arrival of the command.
    kind: TaskSetType,
    runs: bool,
}

impl Modelled {
    /// Reports whether an ORDERED command is ordered also against commands of this nexus.
    fn reaches(&self, nexus: u64) -> bool {
        self.attribute == Ordered && (self.kind == Shared || self.nexus == nexus)
    }
}

/// Starts all commands that may run, oldest first.
fn settle(commands: &mut [Modelled]) {
    for at in 0..commands.len() {
        let command = commands[at];
        let held = |(place, other): (usize, &Modelled)| {
            let concerns = command.reaches(other.nexus) || other.reaches(command.nexus);
            // HEAD OF QUEUE overtakes, and every command that has not started waits for it.
            place != at && concerns && (place < at || other.runs)
        };
        let blocked = commands.iter().enumerate().any(held);
        if command.attribute == HeadOfQueue || !blocked {
            commands[at].runs = true;
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    let attribute = prop_oneof![6 => Just(Simple), 3 => Just(Ordered), 1 => Just(HeadOfQueue)];
    prop_oneof![
        6 => (0..NEXUSES, attribute).prop_map(|(nexus, attribute)| Action::Enter(nexus, attribute)),
        5 => any::<usize>().prop_map(Action::Leave),
        1 => any::<usize>().prop_map(Action::Cancel),
        1 => prop_oneof![Just(Shared), Just(PerNexus)].prop_map(Action::SetType),
    ]
}

/// Does each action to the task sets and to the model, which must agree on the running commands
/// after it.
fn agree(first: TaskSetType, actions: &[Action]) {
    let (n, woken) = task_sets(NEXUSES);
    let (mut model, mut kind, mut running) = (Vec::<Modelled>::new(), first, Vec::new());
    for (number, action) in actions.iter().enumerate() {
        match *action {
            Action::Enter(nexus, attribute) => {
                let waiter = number as u64;
                if n[nexus as usize].enter(attribute, waiter, || kind) == Entered::Now {
                    running.push(waiter);
                }
                model.push(Modelled {
                    waiter,
                    nexus,
                    attribute,
                    kind,
                    runs: false,
                });
            }
            Action::Leave(which) => {
                let able: Vec<usize> = (0..model.len()).filter(|at| model[*at].runs).collect();
                if !able.is_empty() {
                    let gone = model.remove(able[which % able.len()]);
                    running.retain(|waiter| *waiter != gone.waiter);
                    n[gone.nexus as usize].leave(gone.attribute);
                }
            }
            Action::Cancel(which) => {
                if !model.is_empty() {
                    let at = which % model.len();
                    let Modelled { waiter, nexus, .. } = model[at];
                    let cancelled = n[nexus as usize].cancel(waiter);
                    assert_eq!(cancelled, !model[at].runs);
                    if cancelled {
                        model.remove(at);
                    }
                }
            }
            Action::SetType(to) => kind = to,
        }
        running.append(&mut woken.lock().unwrap());
        running.sort_unstable();
        settle(&mut model);
        let expected: Vec<u64> = model
            .iter()
            .filter(|command| command.runs)
            .map(|command| command.waiter)
            .collect();
        assert_eq!(running, expected, "after {action:?}, number {number}");
    }
    while let Some(gone) = model.iter().position(|command| command.runs) {
        let gone = model.remove(gone);
        n[gone.nexus as usize].leave(gone.attribute);
        settle(&mut model);
    }
    assert!(model.is_empty(), "they wait for ever: {model:?}");
    assert_eq!(gates(&n), [false; NEXUSES as usize]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn runs_exactly_what_the_model_lets_run(
        per_nexus: bool,
        actions in proptest::collection::vec(action(), 1..80),
    ) {
        agree(if per_nexus { PerNexus } else { Shared }, &actions);
    }
}

/// Runs threads, each a nexus, that send SIMPLE and ORDERED commands. The test finds any command
/// that runs beside an ORDERED one of its set.
fn on_many_threads(kind: TaskSetType) {
    const THREADS: usize = 4;
    let (n, pending) = task_sets(THREADS as u64);
    let inside: Vec<AtomicI32> = (0..THREADS).map(|_| AtomicI32::new(0)).collect();
    let runs = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (nexus, tasks) in n.iter().enumerate() {
            let (pending, runs) = (&pending, &runs);
            let inside = &inside[if kind == Shared { 0 } else { nexus }];
            // Each nexus has two loops, so that a fault can show within its own set, too.
            for half in 0..2_u64 {
                scope.spawn(move || {
                    for n in 0..2500_u64 {
                        let attribute = if n % 17 == nexus as u64 {
                            Ordered
                        } else {
                            Simple
                        };
                        let waiter = (nexus as u64) << 32 | half << 31 | n;
                        if tasks.enter(attribute, waiter, || kind) == Entered::Queued {
                            while !pending.lock().unwrap().contains(&waiter) {
                                std::thread::yield_now();
                            }
                            pending.lock().unwrap().retain(|other| *other != waiter);
                        }
                        let weight = if attribute == Ordered { 1000 } else { 1 };
                        let before = inside.fetch_add(weight, SeqCst);
                        assert!(
                            before < 1000 && (attribute == Simple || before == 0),
                            "{before} beside {attribute:?}"
                        );
                        std::hint::spin_loop();
                        inside.fetch_sub(weight, SeqCst);
                        runs.fetch_add(1, SeqCst);
                        tasks.leave(attribute);
                    }
                });
            }
        }
    });
    assert_eq!(runs.load(SeqCst), 20_000);
    assert_eq!(gates(&n), [false; THREADS]);
}

#[test]
fn ordered_never_runs_beside_another_on_many_threads() {
    on_many_threads(Shared);
}

#[test]
fn nor_beside_another_of_its_nexus() {
    on_many_threads(PerNexus);
}

#[test]
fn what_runs_and_what_waits_is_told_for_a_nexus_and_for_all() {
    let (n, _) = task_sets(2);
    for waiter in [1, 2] {
        assert_eq!(n[0].enter(Simple, waiter, || Shared), Entered::Now);
    }
    assert_eq!(n[1].enter(Ordered, 3, || Shared), Entered::Queued);
    assert_eq!(n[0].enter(Simple, 4, || Shared), Entered::Queued);
    assert_eq!((n[0].under_way(), n[1].under_way()), ((2, 1), (0, 1)));
    assert_eq!(n[0].sets.under_way(), (2, 2));
    n[0].leave(Simple);
    n[0].leave(Simple);
    // The ordered command runs alone.
    assert_eq!((n[0].under_way(), n[1].under_way()), ((0, 1), (1, 0)));
    n[1].leave(Ordered);
    n[0].leave(Simple);
    assert_eq!(n[0].sets.under_way(), (0, 0));
}
