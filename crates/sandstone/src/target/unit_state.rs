//! The persistent state of a logical unit (reservations with APTPL, saved mode pages, access states, a
//! SANITIZE that has not ended) as a small file beside the configuration.
//!
//! # Order of writes
//! 1. the new image goes to a temporary file, which is synced;
//! 2. it is renamed over the old one;
//! 3. the folder is synced.
//!
//! Two commands may ask to save at once, on different event loops. One save runs at a time, and an
//! image older than the stored one is not stored: the stored one was made later and holds its state
//! too. Else a reservation just acknowledged could be replaced by what held before it.
//!
//! A power cut leaves the old image or the new one, never a mix; only after step 3 is the command that
//! changed the state answered. The image carries a checksum, so that bit rot is told from a state.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::block::lane::Outcome;
use crate::block::{BlockError, Done};

/// The moments of a save between which a crash leaves different files behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SaveStep {
    /// The temporary file is written, perhaps not on the disk yet.
    Written,
    /// The temporary file is on the disk.
    Synced,
    /// It took the name of the old image; the folder may not know yet after a power cut.
    Renamed,
    /// The name is on the disk too.
    Durable,
}

/// One save at a time. They are rare; that units share the lock costs nothing.
static SAVING: Mutex<()> = Mutex::new(());

/// Stores `image` durably, unless a newer one is stored already.
pub(super) fn save(path: &Path, image: &[u8]) -> Outcome {
    let _one_at_a_time = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_superseded(path, image) {
        return Ok(Done::Nothing);
    }
    write(path, image, &mut |_| Ok(()))
        .map(|()| Done::Nothing)
        .map_err(|error| BlockError::writing(error, "saving the unit's state"))
}

/// Whether the stored image was made after this one. What cannot be read is replaced.
fn is_superseded(path: &Path, image: &[u8]) -> bool {
    let stored = load(path).ok().flatten();
    let stored = stored.as_deref().and_then(scsi::image::generation);
    stored.is_some() && stored > scsi::image::generation(image)
}

/// Stores the image and calls `observe` at each step; an error from it stands for a crash there.
fn write(
    path: &Path,
    image: &[u8],
    observe: &mut dyn FnMut(SaveStep) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_durable(folder)?;
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(&iscsi::digest::to_wire(iscsi::digest::crc32c(image)))?;
    file.write_all(image)?;
    observe(SaveStep::Written)?;
    file.sync_all()?;
    observe(SaveStep::Synced)?;
    fs::rename(&temporary, path)?;
    observe(SaveStep::Renamed)?;
    File::open(folder)?.sync_all()?;
    observe(SaveStep::Durable)
}

/// Makes the folder, unless it exists, so that a power cut does not take it away again with what is
/// stored in it.
fn make_durable(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => File::open(folder.parent().unwrap_or(Path::new(".")))?.sync_all(),
    }
}

/// The image stored last; `None` if there is none.
///
/// # Errors
/// The file cannot be read, or its checksum is wrong.
pub(super) fn load(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match bytes.split_first_chunk::<4>() {
        Some((sum, image)) if iscsi::digest::to_wire(iscsi::digest::crc32c(image)) == *sum => {
            Ok(Some(image.to_vec()))
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: wrong checksum", path.display()),
        )),
    }
}

/// Forgets the state of a unit that was deleted.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image as the device server makes them: magic and version, then the generation.
    fn image(generation: u64) -> Vec<u8> {
        [&b"SLUIMG\0\x01"[..], &generation.to_be_bytes()].concat()
    }

    #[test]
    fn an_older_image_never_replaces_a_newer_one() {
        let folder =
            std::env::temp_dir().join(format!("sandstone-unit-order-{}", std::process::id()));
        let path = folder.join("a.state");
        let threads: Vec<_> = (1..=8)
            .map(|generation| {
                let path = path.clone();
                std::thread::spawn(move || assert!(save(&path, &image(generation)).is_ok()))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(load(&path).unwrap().unwrap(), image(8));
        assert!(save(&path, &image(3)).is_ok());
        assert_eq!(load(&path).unwrap().unwrap(), image(8));
        assert!(save(&path, &image(9)).is_ok());
        assert_eq!(load(&path).unwrap().unwrap(), image(9));
        fs::remove_dir_all(folder).unwrap();
    }

    /// Whatever a crash leaves behind: `image(1)` or `image(2)` is loaded, and the next save works.
    fn assert_old_or_new(path: &Path, when: &str) -> u64 {
        let loaded = load(path).unwrap().expect("an image was stored");
        let generation = (1..=2).find(|generation| loaded == image(*generation));
        assert!(save(path, &image(3)).is_ok(), "{when}");
        assert_eq!(load(path).unwrap().unwrap(), image(3), "{when}");
        generation.unwrap_or_else(|| panic!("{when}: neither the old nor the new image"))
    }

    #[test]
    fn a_crash_at_any_step_leaves_the_old_or_the_new_image() {
        for crash in [
            SaveStep::Written,
            SaveStep::Synced,
            SaveStep::Renamed,
            SaveStep::Durable,
        ] {
            let state = tempfile::tempdir().unwrap();
            let path = state.path().join("units").join("a.state");
            assert!(save(&path, &image(1)).is_ok());
            let crashed = write(&path, &image(2), &mut |step| match step {
                step if step == crash => Err(io::Error::other("crash")),
                _ => Ok(()),
            });
            assert!(crashed.is_err());
            let found = assert_old_or_new(&path, &format!("{crash:?}"));
            assert_eq!(found == 2, crash >= SaveStep::Renamed, "{crash:?}");
        }
    }

    /// A power cut takes what was not synced: any part of the temporary file, and the new name.
    #[test]
    fn a_power_cut_leaves_the_old_or_the_new_image() {
        let whole = image(2).len() + 4;
        for kept in 0..=whole {
            let state = tempfile::tempdir().unwrap();
            let path = state.path().join("units").join("a.state");
            assert!(save(&path, &image(1)).is_ok());
            let temporary = path.with_extension("new");
            let cut = write(&path, &image(2), &mut |_| Err(io::Error::other("cut")));
            assert!(cut.is_err());
            let file = fs::OpenOptions::new().write(true).open(&temporary).unwrap();
            file.set_len(kept as u64).unwrap();
            // The length may be on the disk before the bytes are.
            file.set_len(whole as u64).unwrap();
            assert_eq!(assert_old_or_new(&path, &format!("{kept} bytes")), 1);
        }
        // Renamed, but the folder was not synced: the old name is back.
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("units").join("a.state");
        assert!(save(&path, &image(1)).is_ok());
        let old = fs::read(&path).unwrap();
        assert!(write(&path, &image(2), &mut |_| Ok(())).is_ok());
        fs::rename(&path, path.with_extension("new")).unwrap();
        fs::write(&path, old).unwrap();
        assert_eq!(assert_old_or_new(&path, "the rename is lost"), 1);
    }

    #[test]
    fn an_image_survives_and_damage_is_told() {
        let folder =
            std::env::temp_dir().join(format!("sandstone-unit-state-{}", std::process::id()));
        let path = folder.join("a.state");
        assert!(load(&path).unwrap().is_none());
        assert!(save(&path, b"first").is_ok());
        assert!(save(&path, b"second").is_ok());
        assert_eq!(load(&path).unwrap().unwrap(), b"second");
        let mut bytes = fs::read(&path).unwrap();
        bytes[5] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(load(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        remove(&path).unwrap();
        remove(&path).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
