//! Small file system: a tmpfs of 16 MiB in a mount namespace of its own.

use std::path::PathBuf;
use std::process::Command;

use testing::skipped::skipped;

const INSIDE: &str = "SANDSTONE_TEST_SMALL_FOLDER";

/// Returns a folder on a file system with room for 16 MiB.
///
/// For that, the test is run a second time in a namespace in which it may mount one. `None` if that
/// second run is done, or if the kernel does not let an ordinary user mount; then a message says
/// so.
pub(crate) fn inside_small_folder(test: &str) -> Option<PathBuf> {
    if let Ok(folder) = std::env::var(INSIDE) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let small = || {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
            .env(INSIDE, folder.path());
        command
    };
    let mount = format!("mount -t tmpfs -o size=16m none \"${INSIDE}\"");
    let tried = small().arg(&mount).status();
    if !tried.is_ok_and(|status| status.success()) {
        skipped("this machine lets no ordinary user mount a tmpfs in a namespace");
        return None;
    }
    let mut inside = small();
    inside.arg(format!("{mount} && exec \"$0\" --exact --nocapture {test}"));
    let status = inside.arg(std::env::current_exe().unwrap()).status();
    assert!(status.unwrap().success(), "the test inside failed");
    None
}
