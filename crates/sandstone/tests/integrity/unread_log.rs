//! Whoever reads the daemon's events may stop doing so; that is no reason to stop serving.

use std::time::Duration;

use super::kill::settings;
use super::process::{Process, file_unit, free_portal, target};
use super::session::PipelinedSession;

/// Several times what a pipe holds.
const LOGINS: usize = 1000;

#[test]
fn events_that_nobody_reads_keep_nobody_waiting() {
    let portal = free_portal();
    let mut process = Process::start_unheard(|config| {
        let (unit, map) = file_unit(0, 8, 512, true);
        config.targets.push(target(&[portal]));
        config.units.push(unit);
        config.maps.push(map);
    });
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.cut();
    for login in 0..LOGINS {
        let answered = session.try_log_in(Duration::from_secs(10));
        assert!(answered.is_ok(), "login {login}: {answered:?}");
        session.cut();
    }
    process.terminate();
}
