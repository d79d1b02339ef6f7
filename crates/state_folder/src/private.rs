//! Files with secrets that an administrator asks for and that nobody else may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::kept_file::sync_folder;
use super::steps::{Step, before};

/// Writes a file with mode 0600, durably. An existing file stays as it is, unless it is to be
/// replaced.
///
/// # Order of writes
/// 1. A file is created under an unused name, closed to other users before its first byte. If an
///    older file is to be replaced, the name lies beside it.
/// 2. The bytes are written and synced.
/// 3. The new file takes the name of the older one, which is there and whole until then.
/// 4. The folder is synced.
///
/// A power cut leaves the older file, or a new file that may be cut short. Such a file was never
/// acknowledged as whole, and its checksum shows the damage. A power cut may also leave a file
/// beside the older one. The folder is the administrator's, so no other file is removed.
///
/// # Errors
/// The file exists, or is no regular file, or the folder cannot be written. An older file is as it
/// was, and nothing is left behind.
pub fn write_private(path: &Path, bytes: &[u8], is_replaced: bool) -> io::Result<()> {
    if is_replaced && fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other(
            "the path exists and is not a regular file",
        ));
    }
    before(Step::Create)?;
    let (new, file) = match is_replaced {
        true => begin_beside(path)?,
        false => (path.to_owned(), begin(path)?),
    };
    let written = write(file, bytes).and_then(|()| {
        if is_replaced {
            before(Step::Rename)?;
            fs::rename(&new, path)?;
        }
        Ok(())
    });
    if let Err(error) = written {
        // If the file stays, its checksum shows that it is cut short.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    sync_folder(path)
}

fn write(mut file: File, bytes: &[u8]) -> io::Result<()> {
    before(Step::Write)?;
    file.write_all(bytes)?;
    before(Step::Sync)?;
    file.sync_all()
}

fn begin(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a file beside this one, under an unused name.
fn begin_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".new-{number}"));
        let name = PathBuf::from(name);
        match begin(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::rc::Rc;

    use super::super::steps::faults;
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("reads");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_closed_to_others_from_the_first_byte_on() {
        let folder = folder();
        let path = folder.path().join("backup");
        for is_replaced in [false, true] {
            let looked_at = folder.path().to_owned();
            let look = move |step: Step| {
                for name in names(&looked_at) {
                    let file = fs::metadata(looked_at.join(&name)).expect("is there");
                    assert_eq!(file.permissions().mode() & 0o777, 0o600, "{step:?}: {name}");
                }
                Ok(())
            };
            faults::during(look, || write_private(&path, b"secret", is_replaced)).expect("written");
        }
        assert_eq!(names(folder.path()), ["backup"]);
    }

    #[test]
    fn what_is_there_is_replaced_only_where_that_is_asked_for() {
        let folder = folder();
        let path = folder.path().join("backup");
        write_private(&path, b"old", false).expect("written");
        let refused = write_private(&path, b"new", false).expect_err("it is there");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("reads"), b"old");
        // A link would lead the secrets to another place.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).expect("linked");
        write_private(&link, b"new", false).expect_err("it is there");
        assert_eq!(names(folder.path()), ["backup", "link"]);
        write_private(&link, b"new", true).expect_err("it is no regular file");
        let other = folder.path().join("backup.new-0");
        fs::write(&other, b"another one").expect("written");
        write_private(&path, b"new", true).expect("written");
        assert_eq!(fs::read(&path).expect("reads"), b"new");
        assert_eq!(fs::read(&other).expect("reads"), b"another one");
        assert_eq!(names(folder.path()), ["backup", "backup.new-0", "link"]);
    }

    #[test]
    fn a_write_that_fails_at_any_step_leaves_what_was_there_and_nothing_else() {
        for is_replaced in [false, true] {
            for at in 0.. {
                let folder = folder();
                let path = folder.path().join("backup");
                if is_replaced {
                    write_private(&path, b"old", false).expect("written");
                }
                let fault = faults::read_only(at);
                let Err(error) =
                    faults::during(fault, || write_private(&path, b"new", is_replaced))
                else {
                    break;
                };
                assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
                // The last step syncs the folder: by then the new file is there, and may be lost
                // again.
                let found = fs::read(&path).ok();
                let is_whole = found.as_deref() == Some(b"new");
                let old = is_replaced.then(|| b"old".to_vec());
                assert!(is_whole || found == old, "step {at}: {found:?}");
                let left: &[&str] = if found.is_some() { &["backup"] } else { &[] };
                assert_eq!(names(folder.path()), left, "step {at}");
            }
        }
    }

    #[test]
    fn at_a_power_cut_at_any_step_the_old_one_is_whole_or_the_new_one_is() {
        let steps = Rc::new(std::cell::RefCell::new(Vec::new()));
        let folder = folder();
        let path = folder.path().join("backup");
        write_private(&path, b"old", false).expect("written");
        let (looked_at, seen) = (path.clone(), Rc::clone(&steps));
        let look = move |step: Step| {
            let content = fs::read(&looked_at).expect("one of them is there");
            seen.borrow_mut().push((step, content));
            Ok(())
        };
        faults::during(look, || write_private(&path, b"new", true)).expect("written");
        let old = b"old".to_vec();
        let expected = [
            (Step::Create, old.clone()),
            (Step::Write, old.clone()),
            (Step::Sync, old.clone()),
            // The new file is durable before it takes the place of the old one.
            (Step::Rename, old),
            (Step::SyncFolder, b"new".to_vec()),
        ];
        assert_eq!(*steps.borrow(), expected);
    }
}
