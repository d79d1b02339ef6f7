//! Logging in and out: listings, persistence, and changes while I/O runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use testing::wait;

use super::{DEVICE, SIZE, back, front, log_in, run, until};
use crate::served::{BLOCK, Served, TARGET, log_in as session, read, settings, write};

#[test]
fn sessions_devices_and_paths_are_listed_in_the_columns_of_esxcli() {
    let (back, front) = (back(), front());
    let state = front.folder();
    let said = log_in(&front, &back, 2);
    assert!(
        said.contains("session C0") && said.contains("session C1"),
        "{said}"
    );
    assert!(said.contains("logged in, 1 LUN"), "{said}");
    let portal = back.portal.to_string();
    let sessions = run(
        state,
        "initiator session list -H -o target,c,portal,state,logins,tpgt,luns,reason",
    )
    .good();
    assert_eq!(
        sessions,
        format!(
            "{TARGET}\tC0\t{portal}\tlogged-in\t1\t1\t0\t-\n{TARGET}\tC1\t{portal}\tlogged-in\t1\t1\t0\t-\n"
        )
    );
    let parameters = run(state, "initiator session list -H -o parameters").good();
    assert!(parameters.contains("MaxOutstandingR2T=8"), "{parameters}");
    let lun = run(state, "initiator lun list -H -p").good();
    assert_eq!(
        lun,
        format!("{TARGET}\t0\t{DEVICE}\t{SIZE}\tSNDSTONE\tVOLUME\t2\n")
    );
    let device = run(state, "initiator device list -H").good();
    assert_eq!(
        device,
        format!("{DEVICE}\t16M\tSNDSTONE\tVOLUME\tVMW_SATP_ALUA\tVMW_PSP_MRU\t2\t0\t128\ton\n")
    );
    let paths = run(
        state,
        &format!("initiator path list -d {DEVICE} -H -o path,state,portal,reason"),
    )
    .good();
    assert_eq!(
        paths,
        format!("vmhba64:C0:T0:L0\tactive\t{portal}\t-\nvmhba64:C1:T0:L0\tactive\t{portal}\t-\n")
    );
    let whole = run(state, &format!("initiator device get -d {DEVICE}")).good();
    for line in [
        "Storage Array Type: VMW_SATP_ALUA",
        "Path Selection Policy: VMW_PSP_MRU",
        "Working Paths: vmhba64:C",
    ] {
        assert!(whole.contains(line), "{line}: {whole}");
    }
    let adapter = run(state, "initiator adapter get").good();
    assert!(adapter.contains("Sessions: 2 of 2 up"), "{adapter}");
    for (line, next) in [
        (
            "initiator device get -d naa.5",
            "sandstone initiator device list",
        ),
        (
            "initiator logout iqn.2026-01.x:none",
            "sandstone initiator session list",
        ),
        (
            "initiator rescan iqn.2026-01.x:none",
            "sandstone initiator session list",
        ),
        (
            &*format!("initiator login {TARGET} --portal 127.0.0.1"),
            "sandstone initiator modify",
        ),
        ("initiator login iqn.2026-01.x:y --portal a:b", "host:port"),
        (
            &*format!("initiator device set -d {DEVICE} -P fastest"),
            "VMW_PSP_RR",
        ),
        (&*format!("initiator psp set -d {DEVICE} -I 0"), "from 1 to"),
    ] {
        let error = run(state, line).bad();
        assert!(error.contains(next), "{line}: {error}");
    }
}

#[test]
fn a_target_that_is_away_is_told_with_the_reason_and_tried_again() {
    let (mut back, front) = (back(), front());
    let state = front.folder();
    let portal = back.portal;
    back.stop();
    let line = format!("initiator login {TARGET} --portal {portal}");
    let error = run(state, &line).bad();
    assert!(
        error.contains("Connection refused") && error.contains("keeps trying"),
        "{error}"
    );
    let listed = run(state, "initiator session list -H -o state,reason").good();
    assert!(listed.starts_with("down\tcannot connect"), "{listed}");
    back.restart();
    until(
        state,
        "initiator session list -H -o state,luns",
        "logged-in\t0",
    );
    // The target goes away while logged in: the path is dead, and says why.
    back.stop();
    until(
        state,
        "initiator path list -H -o state,reason",
        "dead\tcannot connect: Connection refused",
    );
    until(
        state,
        "initiator device list -H -o state",
        "dead: all paths are down",
    );
    back.restart();
    until(state, "initiator path list -H -o state", "active\n");
}

#[test]
fn logins_device_settings_and_rules_survive_a_restart() {
    let (back, mut front) = (back(), front());
    let folder = front.folder().to_owned();
    let state = &*folder;
    run(state, "initiator adapter set --name iqn.2026-01.x:Gateway").good();
    log_in(&front, &back, 1);
    run(state, "initiator claimrule add -s VMW_SATP_ALUA -V SNDSTONE -M VOLUME -P VMW_PSP_RR -O iops=1 -e ours").good();
    run(
        state,
        "initiator satp set -s VMW_SATP_DEFAULT_AA -P VMW_PSP_RR",
    )
    .good();
    run(
        state,
        &format!("initiator device set -d {DEVICE} --queue-depth 32 --max-io 128K"),
    )
    .good();
    let check = || {
        until(
            state,
            "initiator session list -H -o state,luns",
            "logged-in\t0",
        );
        let device = run(state, "initiator device list -H -o psp,dqlen").good();
        assert_eq!(device, "VMW_PSP_RR\t32\n");
        let limits = run(state, "initiator psp get -H -o iops,type").good();
        assert_eq!(limits, "1\tDefault\n");
        let rule = run(state, "initiator claimrule list --user -H").good();
        assert_eq!(
            rule,
            "VMW_SATP_ALUA\t-\tSNDSTONE\tVOLUME\t-\t-\tuser\t-\tVMW_PSP_RR\tiops=1\tours\n"
        );
        let satps = run(state, "initiator satp list -H").good();
        assert!(
            satps.contains("VMW_SATP_DEFAULT_AA\tVMW_PSP_RR\t"),
            "{satps}"
        );
        let adapter = run(state, "initiator adapter get").good();
        assert!(
            adapter.contains("Name: iqn.2026-01.x:Gateway\n"),
            "{adapter}"
        );
        assert!(
            run(back.folder(), "session list -H -o initiator")
                .good()
                .contains("iqn.2026-01.x:Gateway")
        );
    };
    check();
    front.restart();
    check();
    // The administrator's choice goes; the rules decide again.
    run(
        state,
        "initiator claimrule remove -s VMW_SATP_ALUA -V SNDSTONE -M VOLUME",
    )
    .good();
    run(state, &format!("initiator device reset -d {DEVICE}")).good();
    let device = run(state, "initiator device list -H -o psp,dqlen").good();
    assert_eq!(device, "VMW_PSP_MRU\t128\n");
    let error = run(
        state,
        "initiator claimrule remove -s VMW_SATP_ALUA -c tpgs_on",
    )
    .bad();
    assert!(error.contains("next:"), "{error}");
    // Returning to an older configuration includes the initiator.
    let shown = run(state, "config show").good();
    assert!(shown.contains("[[initiator.targets]]"), "{shown}");
}

#[test]
fn secrets_are_never_shown_and_survive_an_edited_file() {
    let (back, front) = (back(), front());
    let state = front.folder();
    let secret = "a secret of ours 1";
    std::fs::write(state.join("ours"), secret).unwrap();
    std::fs::write(state.join("theirs"), "and one of theirs").unwrap();
    let (ours, theirs) = (state.join("ours"), state.join("theirs"));
    run(back.folder(), "host create h --initiator iqn.2026-01.x:gw").good();
    run(
        back.folder(),
        &format!("host auth h --user me --secret-file {}", ours.display()),
    )
    .good();
    run(
        back.folder(),
        &format!(
            "target auth {TARGET} --user array --secret-file {}",
            theirs.display()
        ),
    )
    .good();
    run(state, "initiator adapter set --name iqn.2026-01.x:gw").good();
    let line = format!(
        "initiator login {TARGET} --portal {} --user me --secret-file {} --mutual-user array --mutual-secret-file {}",
        back.portal,
        ours.display(),
        theirs.display()
    );
    run(state, &format!("{line} --no-wait --dry-run")).good();
    run(state, &line).good();
    let shown = run(state, "config show").good();
    assert!(
        !shown.contains(secret) && shown.contains("<unchanged>"),
        "{shown}"
    );
    let path = state.join("edited.toml");
    std::fs::write(&path, shown.replace("sessions = 1", "sessions = 2")).unwrap();
    run(state, &format!("config apply {} --yes", path.display())).good();
    until(
        state,
        "initiator session list -H -o c,state",
        "C1\tlogged-in",
    );
    let auth = run(back.folder(), "session list -H -o auth").good();
    assert_eq!(auth, "CHAP me\nCHAP me\n");
    // With another secret, new sessions are refused, and say so.
    std::fs::write(&ours, "another secret of ours").unwrap();
    run(
        state,
        &format!(
            "initiator modify {TARGET} --user me --secret-file {}",
            ours.display()
        ),
    )
    .good();
    let reason = until(state, "initiator session list -H -o reason", "refused");
    assert!(reason.contains("the target refused the login"), "{reason}");
}

/// Traffic that writes through a gateway until it is told to stop, and reads back its writes.
struct Traffic {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Traffic {
    fn start(front: &Served) -> Self {
        let portal = front.portal;
        let (stop, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (theirs, count) = (Arc::clone(&stop), Arc::clone(&written));
        let thread = std::thread::spawn(move || {
            let mut connection = session(portal, settings(1));
            let mut round = 0u64;
            while !theirs.load(Ordering::Relaxed) {
                round += 1;
                let lba = round % 64;
                let data = vec![round as u8; 2 * BLOCK];
                let outcome = write(&mut connection, lba * 2, &data);
                assert_eq!(outcome.status, Some(0), "{outcome:?}");
                assert_eq!(read(&mut connection, lba * 2, 2), data);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            stop,
            written,
            thread: Some(thread),
        }
    }

    /// Waits for this many more rounds.
    fn go_on(&self, rounds: u64) {
        let until = self.written.load(Ordering::Relaxed) + rounds;
        // After 30 s the initiator would repeat a lost command, and hide that it was lost.
        let soon = wait::at_most(std::time::Duration::from_secs(25));
        soon.until("I/O goes on", || {
            assert!(!self.thread.as_ref().unwrap().is_finished(), "I/O failed");
            self.written.load(Ordering::Relaxed) >= until
        });
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn everything_changes_while_io_runs() {
    let (back, front) = (back(), front());
    let state = front.folder();
    log_in(&front, &back, 2);
    run(state, &format!("lu create gw --backend {DEVICE}")).good();
    run(state, "map add gw --every-host --lun 0").good();
    let traffic = Traffic::start(&front);
    traffic.go_on(20);
    for psp in [
        "VMW_PSP_RR",
        "fixed",
        "least-queue",
        "lowest-latency",
        "mru",
        "rr",
    ] {
        run(
            state,
            &format!("initiator device set -d {DEVICE} -P {psp} --queue-depth 8"),
        )
        .good();
        traffic.go_on(10);
    }
    let said = run(
        state,
        &format!("initiator psp set -d {DEVICE} -I 1 -t iops"),
    )
    .good();
    assert!(said.contains(DEVICE), "{said}");
    traffic.go_on(20);
    run(state, &format!("initiator device set -d {DEVICE} -P mru")).good();
    let noted = run(state, &format!("initiator psp set -d {DEVICE} -B 64K"));
    assert!(
        noted.err.contains("the limits take effect with VMW_PSP_RR"),
        "{noted:?}"
    );
    run(state, &format!("initiator device set -d {DEVICE} -P rr")).good();
    assert_eq!(
        run(state, "initiator psp get -H -o psp,iops,type").good(),
        "VMW_PSP_RR\t1\tIops\n"
    );
    // More sessions, fewer, and all made anew.
    run(state, &format!("initiator modify {TARGET} --sessions 4")).good();
    until(
        state,
        "initiator path list -H -o path,state",
        "vmhba64:C3:T0:L0\tactive",
    );
    traffic.go_on(20);
    run(state, &format!("initiator modify {TARGET} --sessions 1")).good();
    traffic.go_on(20);
    run(
        state,
        &format!(
            "initiator modify {TARGET} --sessions 2 --data-digest yes --max-outstanding-r2t 1"
        ),
    )
    .good();
    traffic.go_on(20);
    until(
        state,
        "initiator session list -H -o c,digests,state",
        "C0\tdata\tlogged-in\nC1\tdata\tlogged-in\n",
    );
    run(state, "initiator adapter set --name iqn.2026-01.x:renamed").good();
    traffic.go_on(20);
    until(
        back.folder(),
        "session list -H -o initiator",
        "iqn.2026-01.x:renamed\niqn.2026-01.x:renamed\n",
    );
    run(state, "initiator rescan").good();
    traffic.go_on(20);
    // The only path to a served disk stays.
    let error = run(state, &format!("initiator logout {TARGET} --yes")).bad();
    assert!(error.contains("sandstone lu modify gw"), "{error}");
    traffic.go_on(5);
    traffic.end();
    run(state, "lu delete gw --yes").good();
    run(state, &format!("initiator logout {TARGET}")).good();
    until_none(state);
    assert_eq!(run(back.folder(), "session list -H").good(), "");
    // The host logs in again, over connections that were used before.
    log_in(&front, &back, 3);
    assert_eq!(
        run(state, "initiator path list -H -o path,state")
            .good()
            .lines()
            .count(),
        3
    );
}

fn until_none(state: &std::path::Path) {
    let sessions = || run(state, "initiator session list -H").good();
    wait::until_seen("no session is left", sessions, |told| told.is_empty());
}

/// A host has two ports. Each of its sessions leaves through its own port, as the other end sees
/// it.
#[test]
fn sessions_leave_from_the_addresses_and_interfaces_that_they_are_bound_to() {
    let (back, front) = (back(), front());
    let portal = back.portal;
    let line = format!(
        "initiator login {TARGET} --portal {portal} --bind 127.0.0.2 --bind 127.0.0.3 --bind lo"
    );
    run(front.folder(), &line).good();
    let seen = run(back.folder(), "session list -H -o peer").good();
    let mut from: Vec<&str> = seen
        .lines()
        .map(|peer| peer.split(':').next().unwrap())
        .collect();
    from.sort_unstable();
    assert_eq!(from, ["127.0.0.1", "127.0.0.2", "127.0.0.3"], "{seen}");
    run(front.folder(), &format!("initiator logout {TARGET}")).good();
    let nowhere = format!("initiator login {TARGET} --portal {portal} --bind nic-of-nobody");
    let error = run(front.folder(), &nowhere).bad();
    assert!(error.contains("nic-of-nobody"), "{error}");
}
