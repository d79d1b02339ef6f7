//! Faults and power cuts at each step of a save that several changes share. Answered changes are
//! stored, and refused changes are not.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use config::change::{CreateUnit, ModifyUnit};
use model::config::BackendSpec;
use model::data_plane::{DataPlane, PortalStatus, UnitStatus};
use model::hindrance::{Clearing, Hindrance};
use model::initiator::view::{InitiatorDevice, InitiatorSession};
use model::volume_id::VolumeId;
use state_folder::steps::{Step, faults};

/// A data plane that refuses configurations with a unit of the given name. Its pool has the given
/// volumes.
#[derive(Default)]
struct Picky(Option<&'static str>, Catalogue);

/// Names and numbers of volumes.
#[derive(Clone, Default)]
struct Catalogue(Arc<Mutex<Vec<(&'static str, u32)>>>);

impl Catalogue {
    fn set(&self, volumes: &[(&'static str, u32)]) {
        *self.0.lock().expect("whole") = volumes.to_vec();
    }
}

impl Volumes for Catalogue {
    fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>> {
        let all = self.0.lock().expect("whole");
        let find = |name: &String| all.iter().find(|(of, _)| of == name);
        let id = |name| find(name).map(|(_, number)| VolumeId::new(7, *number));
        names.iter().map(id).collect()
    }

    fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>> {
        let all = self.0.lock().expect("whole");
        let find = |id: &VolumeId| all.iter().find(|(_, number)| *number == id.dataset);
        let name = |id| find(id).map(|(name, _)| (*name).to_owned());
        ids.iter().map(name).collect()
    }
}

impl DataPlane for Picky {
    fn apply(&self, config: Arc<Config>) -> Result<(), ApplyError> {
        match self.0.and_then(|name| config.unit(name)) {
            Some(unit) => Err(ApplyError {
                object: format!("lu {}", unit.name),
                message: "it burns".to_owned(),
                next: "put it out".to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn try_again(&self) {}

    fn sessions(&self) -> Vec<SessionInfo> {
        Vec::new()
    }

    fn kill_session(&self, _: u16) -> bool {
        false
    }

    fn ask_to_log_out(&self, _: u16, _: u16) -> bool {
        false
    }

    fn units(&self) -> Vec<UnitStatus> {
        Vec::new()
    }

    fn clear(&self, _: &str, _: Clearing) -> Result<Vec<Hindrance>, Error> {
        Ok(Vec::new())
    }

    fn portals(&self) -> Vec<PortalStatus> {
        Vec::new()
    }

    fn initiator_sessions(&self) -> Vec<InitiatorSession> {
        Vec::new()
    }

    fn initiator_devices(&self) -> Vec<InitiatorDevice> {
        Vec::new()
    }

    fn initiator_rescan(&self, _: Option<&str>) -> bool {
        false
    }

    fn physical_block_size(&self, _: &BackendSpec) -> Option<u32> {
        None
    }

    fn volumes(&self) -> &dyn Volumes {
        &self.1
    }

    fn shutdown(&self) {}
}

/// Changes that wait for a daemon whose state folder has one unit, `u0`.
struct Site {
    folder: tempfile::TempDir,
    transactions: Transactions,
    jobs: Vec<Arc<Job>>,
}

impl Site {
    /// Makes a site with requests for the units `u1` and so on, and one for `u0` again, which is
    /// refused.
    fn with(count: usize, burning: Option<&'static str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, config) = Store::open(folder.path()).expect("opens");
        let data_plane = Arc::new(Picky(burning, Catalogue::default()));
        let transactions = Transactions::new(store, Arc::new(config), data_plane);
        let made = transactions.commit(&create(0), &Commit::default());
        made.expect("made");
        let numbers = (1..=count).chain([0]);
        let add = |number| {
            let wanted = Wanted::Change(create(number));
            transactions.queue.add(Job::new(wanted, Commit::default()))
        };
        let jobs = numbers.map(add).collect();
        Self {
            folder,
            transactions,
            jobs,
        }
    }

    /// Makes all waiting changes on this thread.
    fn make_all(&self) {
        let mut store = self.transactions.lock();
        let jobs = self.transactions.queue.take();
        self.transactions.make_all(&mut store, jobs);
    }
}

fn create(number: usize) -> Change {
    create_on(number, BackendSpec::Memory { size: 1 << 20 })
}

fn create_on(number: usize, backend: BackendSpec) -> Change {
    Change::CreateUnit(CreateUnit {
        name: format!("u{number}"),
        backend,
        block_size: 512,
        physical_block_size: None,
        new_volume: None,
        write_cache: false,
        read_only: false,
        thin: None,
        threshold_percent: None,
        naa: None,
        serial: None,
    })
}

/// Returns the units in a state folder, as the next start finds them.
fn stored(folder: &Path) -> Vec<String> {
    let (_, config) = Store::open(folder).expect("opens");
    config.units.into_iter().map(|unit| unit.name).collect()
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// Checks the fault of the issue: each of 500 units and maps was saved alone.
#[test]
fn changes_that_wait_are_stored_by_one_save() {
    let site = Site::with(100, None);
    let renames = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&renames);
    let count = move |step| {
        if step == Step::Rename {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    faults::during(count, || site.make_all());
    // The two renames are those of the copy and of the file.
    assert_eq!(renames.load(Ordering::Relaxed), 2);
    let done = site.jobs.iter().filter_map(|job| job.outcome());
    let (made, refused): (Vec<_>, Vec<_>) = done.partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (100, 1));
    drop(site.transactions);
    assert_eq!(stored(site.folder.path()).len(), 101);
}

#[test]
fn a_fault_at_any_step_of_a_shared_save_refuses_exactly_what_is_not_stored() {
    type Make = fn(usize) -> Box<dyn FnMut(Step) -> io::Result<()>>;
    let once = |at| -> Box<dyn FnMut(Step) -> io::Result<()>> {
        let mut step = 0;
        Box::new(move |_| {
            step += 1;
            match step == at + 1 {
                true => Err(io::ErrorKind::Other.into()),
                false => Ok(()),
            }
        })
    };
    let faults: [(&str, Make); 3] = [
        ("full", |at| Box::new(faults::full(at))),
        ("read-only", |at| Box::new(faults::read_only(at))),
        ("once", once),
    ];
    for (how, fault) in faults {
        // A save has ten steps. After a failure, each change is tried alone.
        for (at, burning) in (0..40).flat_map(|at| [(at, None), (at, Some("u2"))]) {
            let when = format!("{how} at {at}, {burning:?} burns");
            let site = Site::with(3, burning);
            faults::during(fault(at), || site.make_all());
            let outcomes = site.jobs.iter().map(|job| job.outcome().expect("answered"));
            let outcomes: Vec<Outcome> = outcomes.collect();
            let running = site.transactions.config();
            drop(site.transactions);
            let stored = stored(site.folder.path());
            // A failure to take a change back is reported, and saves are off until the next start.
            let is_said = |outcome: &Outcome| {
                let error = outcome.as_ref().err();
                error.is_some_and(|error| {
                    error.message.contains("could not be restored")
                        || error.message.contains("could not be undone")
                        || error.not_changed.contains("may be another")
                })
            };
            let is_unsure = outcomes.iter().any(is_said);
            for (number, outcome) in (1..).zip(&outcomes[..3]) {
                let name = format!("u{number}");
                let is_made = outcome.is_ok();
                assert_eq!(running.unit(&name).is_some(), is_made, "{when}: {name}");
                let is_stored = stored.contains(&name);
                assert!(is_stored || !is_made, "{when}: {name} was acknowledged");
                assert!(is_made || !is_stored || is_unsure, "{when}: {name}");
            }
            assert!(outcomes[3].is_err(), "{when}: u0 was there");
        }
    }
}

#[test]
fn a_power_cut_at_any_step_of_a_shared_save_takes_nothing_that_was_answered() {
    for burning in [None, Some("u2")] {
        for at in 0..40 {
            let when = format!("step {at}, {burning:?} burns");
            let site = Site::with(3, burning);
            let after = tempfile::tempdir().expect("a folder");
            let (from, to) = (site.folder.path().to_owned(), after.path().to_owned());
            let (jobs, mut step) = (site.jobs.clone(), 0);
            let answered = Arc::<Mutex<Option<Vec<bool>>>>::default();
            let seen = Arc::clone(&answered);
            let cut = move |_| {
                if step == at {
                    copy_folder(&from, &to);
                    let is_made = |job: &Arc<Job>| matches!(*job.slot(), Some(Ok(_)));
                    *seen.lock().expect("seen") = Some(jobs.iter().map(is_made).collect());
                }
                step += 1;
                Ok(())
            };
            faults::during(cut, || site.make_all());
            let Some(answered) = answered.lock().expect("seen").take() else {
                // The save has fewer steps than `at`.
                continue;
            };
            let stored = stored(after.path());
            assert!(stored.contains(&"u0".to_owned()), "{when}: {stored:?}");
            for (number, is_answered) in (1..).zip(&answered[..3]) {
                let is_stored = stored.contains(&format!("u{number}"));
                assert!(is_stored || !is_answered, "{when}: u{number} is lost");
            }
        }
    }
}

fn on(volume: &str) -> BackendSpec {
    BackendSpec::Volume {
        volume: volume.to_owned(),
    }
}

/// Makes a daemon with a unit `u0` on `tank/a`, which has since been renamed to `tank/b`.
fn renamed() -> (tempfile::TempDir, Transactions, Catalogue) {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, config) = Store::open(folder.path()).expect("opens");
    let volumes = Catalogue::default();
    volumes.set(&[("tank/a", 1), ("tank/c", 3)]);
    let data_plane = Arc::new(Picky(None, volumes.clone()));
    let transactions = Transactions::new(store, Arc::new(config), data_plane);
    let made = transactions.commit(&create_on(0, on("tank/a")), &Commit::default());
    made.expect("made");
    volumes.set(&[("tank/b", 1), ("tank/c", 3)]);
    (folder, transactions, volumes)
}

/// Volume names used to be looked up before the administrator's change, which they then undid.
#[test]
fn a_unit_that_an_administrator_points_elsewhere_does_not_go_back() {
    let (_folder, transactions, _) = renamed();
    let elsewhere = ModifyUnit {
        backend: Some(on("tank/c")),
        ..ModifyUnit::default()
    };
    let modify = Wanted::Change(Change::ModifyUnit("u0".to_owned(), elsewhere));
    for wanted in [modify, Wanted::Follow] {
        let job = Job::new(wanted, Commit::default());
        transactions.queue.add(job);
    }
    let mut store = transactions.lock();
    transactions.make_all(&mut store, transactions.queue.take());
    let config = transactions.config();
    assert_eq!(config.units[0].backend, on("tank/c"));
    assert_eq!(config.identity.volumes[0].id, VolumeId::new(7, 3));
}

/// Two units over one volume would destroy each other's data. The check uses the current name of
/// the volume.
#[test]
fn a_renamed_volume_that_a_unit_serves_is_given_to_no_other_unit() {
    let (_folder, transactions, _) = renamed();
    for dry_run in [true, false] {
        let how = Commit {
            dry_run,
            ..Commit::default()
        };
        let refused = transactions.commit(&create_on(1, on("tank/b")), &how);
        let error = refused.expect_err("u0 serves it");
        assert!(error.message.contains("tank/b"), "{error}");
    }
    transactions.follow_volumes().expect("followed");
    assert_eq!(transactions.config().units[0].backend, on("tank/b"));
}
