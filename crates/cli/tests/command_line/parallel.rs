//! Tests of verbs of many administrators at once. Each verb is applied to the configuration in
//! force when its turn comes, and only a real contradiction makes it fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

use config::change::{AddMap, Change, CreateHost, CreateUnit, ModifyUnit, RemoveMap};
use config::identity::Seed;
use config::store::Store;
use control::Transactions;
use control::transaction::{Commit, Committed};
use model::config::BackendSpec;
use model::{Config, Error, ErrorKind};
use proptest::prelude::*;
use proptest::test_runner::Config as Cases;

use super::daemon::{Daemon, FakeDataPlane};

/// Unit whose presence makes the data plane refuse a configuration.
const BURNING: &str = "u3";

/// Tests the fault of the issue: of many removals at once some were refused, though each removed a
/// different object.
#[test]
fn removals_of_different_objects_at_once_all_succeed() {
    const THREADS: usize = 4;
    const EACH: usize = 8;
    let daemon = Daemon::with_one_of_each();
    for unit in 0..THREADS * EACH {
        let made = daemon.run(&format!("lu create u{unit} --file --size 1M"));
        let mapped = daemon.run(&format!("map add u{unit} --host esx"));
        assert_eq!((made.code, mapped.code), (0, 0), "{made:?} {mapped:?}");
    }
    thread::scope(|scope| {
        for first in 0..THREADS {
            let daemon = &daemon;
            scope.spawn(move || {
                for unit in (first..THREADS * EACH).step_by(THREADS) {
                    for line in [format!("map remove u{unit}"), format!("lu delete u{unit}")] {
                        let ran = daemon.run(&line);
                        assert_eq!(ran.code, 0, "{line}: {ran:?}");
                    }
                }
            });
        }
    });
    assert_eq!(daemon.run("lu list -H -o name").out, "vol1\n");
}

/// Tests the fault of the issue: of 600 verbs at once that touched different objects, ten failed.
#[test]
fn six_hundred_verbs_at_once_on_different_objects_all_succeed() {
    const THREADS: usize = 20;
    const EACH: usize = 5;
    let daemon = Daemon::with_one_of_each();
    thread::scope(|scope| {
        for number in (0..THREADS * EACH).step_by(EACH) {
            let daemon = &daemon;
            scope.spawn(move || {
                for unit in number..number + EACH {
                    for line in [
                        format!("lu create u{unit} --memory --size 1M"),
                        format!("host create h{unit} --initiator iqn.1998-01.com.vmware:h{unit}"),
                        format!("map add u{unit} --host h{unit}"),
                        format!("lu modify u{unit} --read-only yes"),
                        format!("map remove u{unit}"),
                        format!("lu delete u{unit} --yes"),
                    ] {
                        let ran = daemon.run(&line);
                        assert_eq!(ran.code, 0, "{line}: {ran:?}");
                    }
                }
            });
        }
    });
    assert_eq!(daemon.run("lu list -H -o name").out, "vol1\n");
    let hosts = daemon.run("host list -H -o name").out;
    assert_eq!(hosts.lines().count(), 1 + THREADS * EACH, "{hosts}");
}

#[test]
fn a_removal_that_would_take_more_than_was_shown_is_shown_anew() {
    let daemon = Daemon::with_one_of_each();
    daemon.run("lu create vol2 --file --size 1M");
    // The preview shows the unit alone. While the user reads it, the unit is mapped.
    let mut asked = 0;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut ask = |_: &str| {
        asked += 1;
        if asked == 1 {
            assert_eq!(daemon.run("map add vol1 --host other").code, 0);
        }
        Ok("y".to_owned())
    };
    daemon.run("host create other --initiator iqn.1994-05.com.redhat:*");
    let state = daemon.folder.path().to_str().unwrap().to_owned();
    let words = ["sandstone", "--state", &state, "lu", "delete", "vol1"];
    let terminal = cli::Terminal {
        out: &mut out,
        err: &mut err,
        ask: Some(&mut ask),
        width: None,
    };
    let code = cli::run_client(
        &super::daemon::PROGRAM,
        words.map(std::ffi::OsString::from),
        terminal,
    );
    let err = String::from_utf8(err).unwrap();
    assert_eq!((code, asked), (0, 2), "{err}");
    let told = "the effect of the change differs from the preview: now it would remove lu vol1; remove map \
                vol1 (host esx, every target); remove map vol1 (host other, every target): trying again";
    assert!(err.contains(told), "{err}");
    assert_eq!(daemon.run("map list -H").out, "");
}

/// Tests that a client which names a generation by the API is told of any change, as ever.
#[test]
fn a_generation_that_a_client_asks_for_is_checked_strictly() {
    let (transactions, _, _folder) = transactions();
    let how = Commit {
        if_generation: Some(transactions.config().generation),
        ..Commit::default()
    };
    let made = transactions.commit(&create("u0"), &how).unwrap();
    assert_eq!(made.generation, made.from_generation + 1);
    let stale = transactions.commit(&create("u1"), &how).unwrap_err();
    assert_eq!(stale.kind, ErrorKind::Stale);
    assert_eq!(stale.not_changed, "nothing was changed");
    let preview = Commit {
        dry_run: true,
        ..Commit::default()
    };
    let seen = transactions.commit(&delete("u0"), &preview).unwrap();
    // A change elsewhere does not matter. A change here is reported.
    transactions
        .commit(&create("u2"), &Commit::default())
        .unwrap();
    let how = Commit {
        cascade: true,
        if_effect: Some(seen.effect),
        ..Commit::default()
    };
    let mapped = Change::AddMap(map("u0", None));
    let unmapped = Change::RemoveMap(RemoveMap {
        unit: "u0".into(),
        ..RemoveMap::default()
    });
    transactions.commit(&mapped, &Commit::default()).unwrap();
    let stale = transactions.commit(&delete("u0"), &how).unwrap_err();
    assert_eq!(stale.kind, ErrorKind::Stale);
    assert!(
        stale
            .message
            .ends_with("remove lu u0; remove map u0 (every host, every target)")
    );
    transactions.commit(&unmapped, &Commit::default()).unwrap();
    transactions.commit(&delete("u0"), &how).unwrap();
}

/// Tests that verbs which come while another one is being made are stored together.
#[test]
fn verbs_that_come_together_share_one_write() {
    const VERBS: usize = 16;
    let (transactions, data_plane, folder) = transactions();
    let (enter, entered) = std::sync::mpsc::channel();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let pause = move || {
        enter.send(()).unwrap();
        left.recv().unwrap();
    };
    *data_plane.during_a_change.lock().unwrap() = Some(Box::new(pause));
    let made: Vec<Committed> = thread::scope(|scope| {
        let commit = |number: usize| {
            let transactions = &transactions;
            scope.spawn(move || {
                let change = create(&format!("u{number}"));
                transactions.commit(&change, &Commit::default()).unwrap()
            })
        };
        let mut threads = vec![commit(0)];
        entered.recv().unwrap();
        threads.extend((1..VERBS).map(commit));
        while transactions.waiting() < VERBS - 1 {
            thread::yield_now();
        }
        leave.send(()).unwrap();
        let made = threads.into_iter().map(|thread| thread.join().unwrap());
        made.collect()
    });
    // Each has a generation of its own, but two writes made all of them durable.
    let mut generations: Vec<u64> = made.iter().map(|made| made.generation).collect();
    generations.sort_unstable();
    assert!(generations.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    assert!(transactions.history().unwrap().len() <= 3);
    drop(transactions);
    let (_, stored) = Store::open(folder.path()).unwrap();
    assert_eq!(stored.units.len(), VERBS);
}

fn create(name: &str) -> Change {
    let number: u64 = name[1..].parse().unwrap();
    Change::CreateUnit(CreateUnit {
        name: name.into(),
        backend: BackendSpec::Memory { size: 1 << 20 },
        block_size: 512,
        physical_block_size: None,
        new_volume: None,
        write_cache: false,
        read_only: false,
        thin: None,
        threshold_percent: None,
        // The NAA is given, so that a change makes the identical configuration whenever it is made.
        naa: Some(format!("6{:031x}", (u128::from(number) + 1) << 40)),
        serial: None,
    })
}

fn delete(name: &str) -> Change {
    Change::DeleteUnit(name.into())
}

fn map(unit: &str, host: Option<&str>) -> AddMap {
    AddMap {
        unit: unit.into(),
        host: host.map(str::to_owned),
        target: None,
        lun: None,
        read_only: false,
    }
}

fn transactions() -> (Arc<Transactions>, Arc<FakeDataPlane>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (store, config) = Store::open(folder.path()).unwrap();
    let data_plane = Arc::<FakeDataPlane>::default();
    let transactions = Transactions::new(store, Arc::new(config), data_plane.clone());
    (Arc::new(transactions), data_plane, folder)
}

/// Generates a verb, as an administrator chooses it.
fn verb() -> impl Strategy<Value = (Change, bool)> {
    let unit = (0..5_u8).prop_map(|number| format!("u{number}"));
    let host = (0..3_u8).prop_map(|number| format!("h{number}"));
    let change =
        (0..9_u8, unit, host, any::<bool>()).prop_map(|(kind, unit, host, flag)| match kind {
            0..3 => create(&unit),
            3 => delete(&unit),
            4 => Change::ModifyUnit(
                unit,
                ModifyUnit {
                    write_cache: Some(flag),
                    ..ModifyUnit::default()
                },
            ),
            5 => Change::CreateHost(CreateHost {
                except: Vec::new(),
                initiators: vec![format!("iqn.1998-01.com.vmware:{host}")],
                name: host,
                chap: None,
            }),
            6 => Change::DeleteHost(host),
            7 => Change::AddMap(map(&unit, flag.then_some(&host))),
            _ => Change::RemoveMap(RemoveMap {
                unit,
                all: flag,
                ..RemoveMap::default()
            }),
        });
    (change, any::<bool>())
}

/// Result of a verb, and the generations in force meanwhile.
struct Done {
    change: Change,
    how: Commit,
    first: u64,
    last: u64,
    outcome: Result<Committed, Error>,
}

/// Reports whether the verb, applied to this configuration, gives its recorded result.
fn fits(done: &Done, config: &Config) -> bool {
    let applied = done
        .change
        .applied(config, Seed::fixed(0), done.how.cascade);
    match (&done.outcome, applied) {
        (Err(told), Err(error)) => *told == error,
        (Err(told), Ok(after)) => {
            told.kind == ErrorKind::Refused && after.unit(BURNING).is_some() && after != *config
        }
        (Ok(told), Ok(after)) => {
            told.from_generation == config.generation && told.generation == after.generation
        }
        (Ok(_), Err(_)) => false,
    }
}

proptest! {
    #![proptest_config(Cases { cases: 24, ..Cases::default() })]

    /// Tests random verbs of many threads. The result is that of some order of them, one after the
    /// other. No verb fails that does not fail in that order.
    #[test]
    fn verbs_of_many_threads_come_to_what_some_order_of_them_comes_to(
        threads in prop::collection::vec(prop::collection::vec(verb(), 1..12), 2..6)
    ) {
        let (transactions, data_plane, folder) = transactions();
        *data_plane.refuses.lock().unwrap() = Some(BURNING.to_owned());
        let begin = transactions.config();
        let all = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for verbs in threads {
                let (transactions, all) = (&transactions, &all);
                scope.spawn(move || {
                    for (change, cascade) in verbs {
                        let how = Commit { cascade, ..Commit::default() };
                        let first = transactions.config().generation;
                        let outcome = transactions.commit(&change, &how);
                        let last = transactions.config().generation;
                        all.lock().unwrap().push(Done { change, how, first, last, outcome });
                    }
                });
            }
        });
        let all = all.into_inner().unwrap();
        // The generations that the verbs made give the order.
        let mut order: Vec<&Done> = all
            .iter()
            .filter(|done| done.outcome.as_ref().is_ok_and(|it| it.generation > it.from_generation))
            .collect();
        order.sort_by_key(|done| done.outcome.as_ref().unwrap().generation);
        let mut configs = BTreeMap::from([(begin.generation, (*begin).clone())]);
        for done in order {
            let before = configs.last_key_value().unwrap().1;
            prop_assert!(fits(done, before), "{:?} {:?}", done.change, done.outcome);
            let after = done.change.applied(before, Seed::fixed(0), done.how.cascade).unwrap();
            configs.insert(after.generation, after);
        }
        let last = configs.last_key_value().unwrap().1;
        prop_assert_eq!(last, &*transactions.config());
        for done in &all {
            let meanwhile = configs.range(done.first..=done.last);
            let mut places = meanwhile.map(|(_, config)| config);
            prop_assert!(places.any(|config| fits(done, config)), "{:?} {:?}", done.change, done.outcome);
        }
        drop(transactions);
        let (_, stored) = Store::open(folder.path()).unwrap();
        prop_assert_eq!(&stored, last);
    }
}
