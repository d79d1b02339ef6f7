//! The persistent state of a logical unit, as a small file beside the configuration: reservations
//! with APTPL, saved mode pages, access states, a SANITIZE that has not ended.
//!
//! The image carries a checksum and the generation of the unit's state; how it is kept:
//! [`state_folder`]. Only after the last step of a save is the command that changed the state
//! answered.
//!
//! Two commands may ask to save at once, on different event loops. One save runs at a time, and an
//! image older than the stored one is not stored: the stored one was made later and holds its state
//! too. Else a reservation just acknowledged could be replaced by what held before it.
//!
//! Where both copies of the newest image are lost, an older one does not count: a host that was
//! fenced off since would be let in. The unit waits for an administrator then.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use block::lane::Outcome;
use block::{BlockError, Done};
use crc_fast::CrcAlgorithm;
use state_folder::{KeptFile, Unfit};

/// Number of earlier images that are kept.
const HISTORY: usize = 2;

/// Lock that allows one save at a time. Saves are rare, so sharing the lock among units costs
/// nothing.
static SAVING: Mutex<()> = Mutex::new(());

/// Stores `image` durably, unless a newer one is stored already.
pub fn save(path: &Path, image: &[u8]) -> Outcome {
    store(path, image)
        .map(|()| Done::Nothing)
        .map_err(|error| BlockError::writing(error, "saving the unit's state"))
}

fn store(path: &Path, image: &[u8]) -> io::Result<()> {
    let _one_at_a_time = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = KeptFile::at(path.to_owned(), HISTORY);
    let stored = file.load(open).content.map(|(generation, _)| generation);
    let generation = scsi::image::generation(image);
    // A file that cannot be read is replaced.
    if stored.is_some() && stored >= generation {
        return Ok(());
    }
    file.save(generation.unwrap_or(0), &[&crc32c(image), image].concat())
}

/// Returns the CRC32C of an image, least significant byte first.
fn crc32c(image: &[u8]) -> [u8; 4] {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, image) as u32;
    sum.to_le_bytes()
}

fn open(bytes: &[u8]) -> Result<(u64, Vec<u8>), Unfit> {
    match bytes.split_first_chunk::<4>() {
        Some((sum, image)) if crc32c(image) == *sum => {
            let generation = scsi::image::generation(image);
            let generation = generation.ok_or("it is not an image of a unit's state")?;
            Ok((generation, image.to_vec()))
        }
        _ => Err("its checksum does not match: it is torn or damaged".into()),
    }
}

/// Reason for which the state of a unit is not known.
#[derive(Debug)]
pub struct Lost {
    /// Reason as a clause without a full stop.
    pub reason: String,
    /// Remedy for the administrator.
    pub next: String,
}

/// The stored state of a unit.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Image that was stored last. `None` means that there is none.
    pub image: Option<Vec<u8>>,
    /// Damage to the file by which nothing is lost.
    pub notice: Option<String>,
}

/// Returns the image that was stored last.
///
/// # Errors
/// No copy of the newest image is whole.
pub fn load(path: &Path) -> Result<Loaded, Lost> {
    // Without the lock, a save under way could be taken for damage.
    let _one_at_a_time = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = KeptFile::at(path.to_owned(), HISTORY);
    let found = file.load(open);
    let generation = found.content.as_ref().map(|(generation, _)| *generation);
    let image = found.content.map(|(_, image)| image);
    let Some(trouble) = found.trouble else {
        return Ok(Loaded {
            image,
            notice: None,
        });
    };
    if !trouble.is_newest_lost {
        let reason = trouble.reason;
        let notice = format!("{reason}; its copy in the history was used, so nothing is lost");
        tracing::error!("{notice}");
        file.put_right(generation);
        return Ok(Loaded {
            image,
            notice: Some(notice),
        });
    }
    let folder = path.parent().unwrap_or(Path::new(".")).join("lost");
    let damaged: Vec<String> = trouble
        .damaged
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let (folder, damaged) = (folder.display(), damaged.join(" "));
    let then = match generation {
        Some(generation) => {
            let older = file.copy(generation);
            let older = older.display();
            format!(
                "the unit is then served with the older state in {older}; move that file away too to serve \
                 the unit without any state"
            )
        }
        None => "the unit is then served without any reservation".to_owned(),
    };
    Err(Lost {
        reason: format!("{}, and so is its newest copy", trouble.reason),
        next: format!(
            "if no cluster relies on its persistent reservations and no SANITIZE was under way: mkdir -p {folder} && mv \
             {damaged} {folder}/; {then}"
        ),
    })
}

/// Forgets the state of a unit that was deleted.
pub fn remove(path: &Path) -> io::Result<()> {
    KeptFile::at(path.to_owned(), HISTORY).remove()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use state_folder::steps::faults;

    /// Makes an image in the device server's form: magic and version, then the generation.
    fn image(generation: u64) -> Vec<u8> {
        [&b"SLUIMG\0\x01"[..], &generation.to_be_bytes()].concat()
    }

    #[test]
    fn an_older_image_never_replaces_a_newer_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("units").join("a.state");
        let threads: Vec<_> = (1..=8)
            .map(|generation| {
                let path = path.clone();
                std::thread::spawn(move || assert!(save(&path, &image(generation)).is_ok()))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(load(&path).unwrap().image.unwrap(), image(8));
        assert!(save(&path, &image(3)).is_ok());
        assert_eq!(load(&path).unwrap().image.unwrap(), image(8));
        assert!(save(&path, &image(9)).is_ok());
        assert_eq!(load(&path).unwrap().image.unwrap(), image(9));
    }

    #[test]
    fn a_damaged_image_costs_nothing_and_an_older_one_is_never_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("units").join("a.state");
        assert!(load(&path).unwrap().image.is_none());
        for generation in [1, 2] {
            assert!(save(&path, &image(generation)).is_ok());
        }
        let damage = |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[5] ^= 1;
            fs::write(path, bytes).unwrap();
        };
        damage(&path);
        assert_eq!(load(&path).unwrap().image.unwrap(), image(2), "the copy");
        assert_eq!(load(&path).unwrap().image.unwrap(), image(2), "put right");
        let copy = KeptFile::at(path.clone(), HISTORY).copy(2);
        damage(&path);
        damage(&copy);
        let lost = load(&path).unwrap_err();
        // The advice of the error helps.
        for file in [&path, &copy] {
            assert!(
                lost.next.contains(&file.display().to_string()),
                "{}",
                lost.next
            );
            fs::remove_file(file).unwrap();
        }
        assert_eq!(load(&path).unwrap().image.unwrap(), image(1));
        assert!(save(&path, &image(5)).is_ok());
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(load(&path).unwrap().image.is_none());
    }

    #[test]
    fn a_save_that_fails_at_any_step_leaves_the_state_before_and_of_other_units() {
        for at in 0..10 {
            for is_full in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let [path, other] =
                    ["a.state", "b.state"].map(|of| folder.path().join("units").join(of));
                for path in [&path, &other] {
                    assert!(save(path, &image(1)).is_ok());
                }
                let saved = match is_full {
                    true => faults::during(faults::full(at), || save(&path, &image(2))),
                    false => faults::during(faults::read_only(at), || save(&path, &image(2))),
                };
                let found = load(&path).unwrap().image.unwrap();
                let expected = if saved.is_ok() { 2 } else { 1 };
                // The copy already had its name, and could not be taken back.
                let is_halfway = !is_full && at >= 4;
                assert!(
                    found == image(expected) || is_halfway && found == image(2),
                    "step {at}: {found:?}"
                );
                assert!(save(&path, &image(3)).is_ok());
                assert_eq!(load(&path).unwrap().image.unwrap(), image(3), "step {at}");
                assert_eq!(load(&other).unwrap().image.unwrap(), image(1), "step {at}");
            }
        }
    }
}
