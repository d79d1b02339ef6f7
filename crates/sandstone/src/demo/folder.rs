//! The folder in which a demo keeps its state. The state of anything else is left alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::{TARGET, UNIT};
use cli::Connection;
use cli::demo::Args;
use config::store::Store;
use model::{Error, ErrorKind};

/// Folder of a demo whose user names none.
const FOLDER: &str = "sandstone-demo";
/// File that marks a state folder as a demo's.
const MARK: &str = "demo";
/// Entries that show that a folder is a state folder.
const STATE: [&str; 4] = ["config.toml", "pools.json", "units", "history"];

/// State folder of a demo.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Whether the folder was made for one run, so that nobody can want it back.
    is_temporary: bool,
}

impl Folder {
    /// Returns the folder that the user names, else `./sandstone-demo`, so that the user finds it;
    /// a temporary one where nothing is to be kept.
    pub(super) fn choose(args: &Args, connection: &Connection) -> Result<Self, Error> {
        let kept = connection.state.clone().or_else(|| {
            let is_kept = !args.once && args.memory.is_none();
            is_kept.then(|| PathBuf::from(FOLDER))
        });
        let Some(path) = kept else {
            return Self::temporary();
        };
        let folder = Self {
            path,
            is_temporary: false,
        };
        folder.claim()?;
        Ok(folder)
    }

    /// Makes a new folder in a place where everybody may make some. A folder that exists there is
    /// somebody else's.
    fn temporary() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("{FOLDER}-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| unusable(&path, error))?;
        let folder = Self {
            path,
            is_temporary: true,
        };
        folder.mark()?;
        Ok(folder)
    }

    /// Marks the folder as a demo's, if it is nothing else yet.
    fn claim(&self) -> Result<(), Error> {
        if self.path.join(MARK).exists() {
            return Ok(());
        }
        let is_state = STATE.iter().any(|name| self.path.join(name).exists());
        if is_state && !was_made_by_a_demo(&self.path) {
            return Err(foreign(&self.path));
        }
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path);
        made.map_err(|error| unusable(&self.path, error))?;
        self.mark()
    }

    fn mark(&self) -> Result<(), Error> {
        let text = "This state folder belongs to `sandstone demo`.\n";
        fs::write(self.path.join(MARK), text).map_err(|error| unusable(&self.path, error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Reports whether a demo of an earlier version, which left no mark, made the folder.
fn was_made_by_a_demo(folder: &Path) -> bool {
    let config = Store::peek(folder);
    config.is_ok_and(|config| config.unit(UNIT).is_some() && config.target(TARGET).is_some())
}

fn unusable(folder: &Path, error: io::Error) -> Error {
    Error::storage(format!("use the state folder {}", folder.display()), error)
}

fn foreign(folder: &Path) -> Error {
    let folder = folder.display();
    Error::new(
        ErrorKind::Exists,
        format!("{folder} is the state folder of a Sandstone daemon, not of a demo"),
        format!(
            "run the demo in its own folder: sandstone demo --state DIR; or serve this state folder: \
             sandstone serve --state {folder}"
        ),
    )
    .not_changed("nothing was started, and nothing in the folder was changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_that_is_there_already_is_somebody_elses() {
        let first = Folder::temporary().expect("a new folder");
        let refused = Folder::temporary().err().expect("it is there");
        assert!(refused.to_string().contains("File exists"), "{refused}");
        assert!(first.path.join(MARK).exists(), "it is left alone");
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists());
    }
}
