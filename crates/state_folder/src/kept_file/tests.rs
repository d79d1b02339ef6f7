//! Every fault at every step of a save, and every damage to saved files. The result is the old
//! content or the new one, and no acknowledged change is missing.

use super::super::steps::faults;
use super::*;

fn sealed(generation: u64) -> Vec<u8> {
    super::super::seal_json("numbers", generation, &generation).expect("JSON")
}

fn load(path: &Path) -> (KeptFile, FoundFile<u64>) {
    let mut file = KeptFile::at(path.to_owned(), 3);
    let found = file.load(|bytes| super::super::open_json::<u64>("numbers", bytes));
    (file, found)
}

/// Returns a folder in which the file was saved three times.
fn saved() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("numbers.json");
    let mut file = KeptFile::at(path.clone(), 3);
    for generation in 1..=3 {
        file.save(generation, &sealed(generation)).expect("saved");
    }
    (folder, path)
}

fn content(found: &FoundFile<u64>) -> Option<u64> {
    found.content.map(|(generation, number)| {
        assert_eq!(generation, number);
        number
    })
}

/// Steps of a save.
const STEPS: usize = 10;

#[test]
fn a_fault_at_any_step_leaves_what_was_in_force() {
    type Make = fn(usize) -> Box<dyn FnMut(Step) -> io::Result<()>>;
    let faults: [(&str, Make); 2] = [
        ("full", |at| Box::new(faults::full(at))),
        ("read-only", |at| Box::new(faults::read_only(at))),
    ];
    for (how, fault) in faults {
        for at in 0..STEPS {
            for is_reserved in [false, true] {
                let (_folder, path) = saved();
                let (mut file, _) = load(&path);
                if is_reserved {
                    file.reserve().expect("room");
                }
                let outcome = faults::during(fault(at), || file.save(4, &sealed(4)));
                let (mut file, found) = load(&path);
                let expected = if outcome.is_ok() { 4 } else { 3 };
                let left = content(&found);
                // If going back fails too, the error says so, and both contents are allowed.
                let is_halfway = outcome.as_ref().is_err_and(KeptFile::is_halfway);
                assert!(!is_halfway || how == "read-only", "{how} at {at}");
                assert!(!is_halfway || at >= 3, "nothing had its name yet: {at}");
                assert!(
                    left == Some(expected) || is_halfway && left == Some(4),
                    "{how} at {at}: {left:?} after {outcome:?}"
                );
                file.save(9, &sealed(9)).expect("it is well again");
                assert_eq!(content(&load(&path).1), Some(9));
            }
        }
    }
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_content() {
    for at in 0..STEPS {
        for torn in [None, Some(0), Some(20)] {
            let (folder, path) = saved();
            let (mut file, _) = load(&path);
            let crashed = tempfile::tempdir().expect("a folder");
            let (from, to) = (folder.path().to_owned(), crashed.path().to_owned());
            let mut step = 0;
            let crash = move |_| {
                if step == at {
                    copy_folder(&from, &to, torn);
                }
                step += 1;
                Ok(())
            };
            faults::during(crash, || file.save(4, &sealed(4))).expect("saved");
            let path = crashed.path().join("numbers.json");
            if !path.exists() {
                // The save has fewer steps.
                continue;
            }
            let (mut file, found) = load(&path);
            let left = content(&found);
            assert!(matches!(left, Some(3 | 4)), "crash at {at}: {left:?}");
            file.save(9, &sealed(9)).expect("saved");
            assert_eq!(content(&load(&path).1), Some(9));
        }
    }
}

/// Copies the files that a crash leaves. A file that was not renamed yet may keep its first bytes
/// only.
fn copy_folder(from: &Path, to: &Path, torn: Option<usize>) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("a folder");
            copy_folder(&entry.path(), &target, torn);
            continue;
        }
        let mut bytes = fs::read(entry.path()).expect("read");
        if let (Some(torn), Some("new")) = (torn, target.extension().and_then(|of| of.to_str())) {
            bytes.truncate(torn);
        }
        fs::write(target, bytes).expect("written");
    }
}

#[test]
fn one_damaged_file_costs_nothing_and_two_are_told() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("missing", |path| fs::remove_file(path).expect("removed")),
        ("empty", |path| fs::write(path, "").expect("written")),
        ("garbage", |path| {
            fs::write(path, [0xaa; 300]).expect("written")
        }),
        ("torn", |path| {
            let bytes = fs::read(path).expect("read");
            fs::write(path, &bytes[..bytes.len() - 2]).expect("written");
        }),
        ("older", |path| fs::write(path, sealed(1)).expect("written")),
    ];
    for (how, damage) in damages {
        let (_folder, path) = saved();
        damage(&path);
        let (mut file, found) = load(&path);
        assert_eq!(content(&found), Some(3), "{how}");
        let trouble = found.trouble.expect("it is told");
        assert!(!trouble.is_newest_lost, "{how}");
        file.put_right(Some(3));
        let (file, found) = load(&path);
        assert!(found.trouble.is_none(), "{how}");
        // The copy alone is damaged.
        if how != "older" {
            damage(&file.copy(3));
            let (_, found) = load(&path);
            assert_eq!(
                (content(&found), found.trouble.is_none()),
                (Some(3), true),
                "{how}"
            );
            if how == "missing" {
                continue;
            }
            // Copy and file are damaged.
            damage(&path);
            let (_, found) = load(&path);
            assert_eq!(content(&found), Some(2), "{how}");
            assert!(found.trouble.expect("told").is_newest_lost, "{how}");
        }
    }
}

#[test]
fn where_all_is_damaged_there_is_nothing_and_that_is_no_new_file() {
    let (folder, path) = saved();
    let (file, _) = load(&path);
    for generation in file.generations().expect("listed") {
        fs::write(file.copy(generation), "x").expect("written");
    }
    fs::write(&path, "x").expect("written");
    let (mut file, found) = load(&path);
    assert_eq!(content(&found), None);
    let trouble = found.trouble.expect("it is told");
    assert!(
        trouble.is_newest_lost && trouble.damaged.len() == 4,
        "{trouble:?}"
    );
    file.put_right(None);
    assert!(folder.path().join("numbers.json.damaged").exists());
    let next = file.next_generation();
    assert_eq!(next, 4);
    file.save(next, &sealed(next)).expect("saved");
    assert_eq!(content(&load(&path).1), Some(4));
}

/// A kill between the two steps of a save leaves a copy above a whole file.
#[test]
fn a_file_that_is_only_older_than_its_copy_is_not_called_damaged() {
    let (folder, path) = saved();
    let (file, _) = load(&path);
    fs::write(file.copy(4), sealed(4)).expect("written");
    for put_right in [None, Some(4)] {
        let (mut file, found) = load(&path);
        assert_eq!(content(&found), Some(4));
        file.put_right(put_right);
        assert!(!folder.path().join("numbers.json.damaged").exists());
        assert!(path.exists(), "there is a whole file at each moment");
    }
    assert!(load(&path).1.trouble.is_none());
}

#[test]
fn only_so_many_generations_are_kept_and_all_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = saved();
    let (mut file, _) = load(&path);
    for generation in 4..20 {
        file.save(generation, &sealed(generation)).expect("saved");
    }
    assert_eq!(file.generations().expect("listed"), [16, 17, 18, 19]);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&file.copy(19)), 0o600);
    assert_eq!(mode(&folder.path().join("history")), 0o700);
    file.go_back(18).expect("gone back");
    assert_eq!(content(&load(&path).1), Some(18));
    file.remove().expect("removed");
    let (_, found) = load(&path);
    assert!(found.content.is_none() && found.trouble.is_none());
}

#[test]
fn older_generations_are_forgotten_and_the_one_in_force_stays() {
    let (folder, path) = saved();
    let (file, _) = load(&path);
    let generations = || file.generations().expect("listed");
    assert_eq!(generations(), [1, 2, 3]);
    let other = folder.path().join("history/other.1.json");
    fs::write(&other, "of another file").expect("written");
    faults::during(faults::read_only(0), || file.forget_older()).expect_err("read-only");
    assert_eq!(generations(), [1, 2, 3]);
    file.forget_older().expect("removed");
    assert_eq!(generations(), [3]);
    assert!(other.exists());
    let (_, found) = load(&path);
    assert_eq!((content(&found), found.trouble.is_none()), (Some(3), true));
}
