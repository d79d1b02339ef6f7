//! `serve` with a portal that another program has, while no target uses it yet.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testing::wait;

/// Daemon that ends with the test.
struct Serving(Child);

impl Serving {
    fn start(state: &Path, portal: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_sandstone"))
            .args([
                "serve",
                "--console",
                "off",
                "--log",
                "warn",
                "--cache",
                "64M",
                "--portal",
            ])
            .args([portal, "--state"])
            .arg(state)
            .stdin(Stdio::null())
            .stderr(File::create(state.join("log")).unwrap())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// Waits until the daemon answers.
fn wait_for(state: &Path) {
    let status = || {
        let mut status = Command::new(env!("CARGO_BIN_EXE_sandstone"));
        let status = status.arg("--state").arg(state).arg("status").output();
        status.unwrap()
    };
    // The daemon is not well while a portal does not listen, and says so with the code 4. After a
    // kill the code is 3.
    wait::until_seen("it starts", status, |told| {
        matches!(told.status.code(), Some(0 | 3 | 4))
    });
}

fn log(state: &Path) -> String {
    std::fs::read_to_string(state.join("log")).unwrap()
}

#[test]
fn a_portal_that_is_taken_is_told_before_a_target_needs_it() {
    let state = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let portal = taken.local_addr().unwrap().to_string();
    let serving = Serving::start(state.path(), &portal);
    wait_for(state.path());
    let log = || log(state.path());
    // A line is whole with its end.
    let told = wait::until_seen("the log tells", log, |told| told.ends_with('\n'));
    assert!(told.contains(&portal) && told.contains("in use"), "{told}");
    assert!(told.contains("--portal"), "{told}");
    drop(serving);
    drop(taken);
    let _serving = Serving::start(state.path(), &portal);
    wait_for(state.path());
    wait::throughout(Duration::from_millis(500), || assert_eq!(log(), ""));
}
