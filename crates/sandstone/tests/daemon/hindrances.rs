//! States that stop the I/O of a unit.
//!
//! Each is imposed over the wire or by the administrator, is seen in every view, and is ended by
//! the command that the views name. Then I/O goes again. One host never stops another, except where
//! SCSI intends that.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use initiator::connection::Connection;
use iscsi::initiator::LoginSettings;
use iscsi::pdu::Isid;
use serde_json::Value;
use testing::wait;

use crate::process::Process;
use crate::served::{BLOCK, TARGET, cdb, free_portal, log_in};

const ALICE: &str = "iqn.2026-01.test:alice";
const BOB: &str = "iqn.2026-01.test:bob";

/// Daemon with a unit that two hosts see, through two target port groups.
struct Bench {
    process: Process,
    portals: [SocketAddr; 2],
}

/// Answer to a READ or WRITE, after all unit attentions of its initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Good,
    Conflict,
    Sense([u8; 3]),
}

impl Bench {
    fn new() -> Self {
        let process = Process::start();
        let portals = [free_portal(), free_portal()];
        let [first, second] = portals;
        process.done(&format!("target create {TARGET} --portal {first}"));
        process.done(&format!(
            "target portal add {TARGET} {second} --tag 2 --target-port-group 2 --alua-state active-non-optimized"
        ));
        process.done("lu create disk --file --size 1M");
        process.done("map add disk --every-host --lun 0");
        Self { process, portals }
    }

    fn log_in(&self, name: &str, port: usize) -> Connection {
        let isid = Isid([0x80, 0, 0, 0, 0, port as u8]);
        let settings = LoginSettings::new(name, Some(TARGET.to_owned()), isid);
        log_in(self.portals[port], settings)
    }

    fn kill_and_restart(&mut self) {
        self.process.kill();
        self.process.restart();
    }

    /// Returns the hindrances of the unit as JSON.
    fn hindrances(&self) -> Vec<Value> {
        let text = self.process.done("lu list disk --json");
        let units: Value = serde_json::from_str(&text).unwrap();
        let found = &units[0]["status"]["hindrances"];
        found.as_array().cloned().unwrap_or_default()
    }

    /// Returns the hindrance of this kind, as every view shows it to an administrator who looks
    /// after `whom`.
    fn seen(&self, kind: &str, whom: &str) -> Value {
        let all = self.hindrances();
        let found = all.iter().find(|it| it["kind"] == kind);
        let found = found
            .unwrap_or_else(|| panic!("no {kind} in {all:?}"))
            .clone();
        let finding = found["finding"].as_str().unwrap();
        let end = found["end"].as_str().unwrap();
        for view in ["lu list", "lu show disk", "status"] {
            let text = self.process.done(view);
            assert!(
                text.contains(finding) && text.contains(end),
                "{view}: {text}"
            );
            assert!(text.contains(&format!("{kind}: ")), "{view}: {text}");
        }
        let words = self.process.done("lu list -H -o hindrances disk");
        assert!(words.contains(kind), "{words}");
        let metric = format!("sandstone_lu_hindrances{{lu=\"disk\",kind=\"{kind}\"}} ");
        assert!(self.metrics().contains(&metric), "{metric}");
        let (_, text) = self.process.verb(&format!("map explain {whom} disk"));
        assert!(text.contains(end), "{text}");
        found
    }

    /// Checks that no view shows the hindrance any more.
    fn gone(&self, kind: &str) {
        assert!(self.hindrances().iter().all(|it| it["kind"] != kind));
        for view in ["lu list", "status", "map explain iqn.2026-01.test:bob disk"] {
            let text = self.process.done(view);
            assert!(!text.contains(&format!("{kind}: ")), "{view}: {text}");
        }
    }

    /// Types the command that the views name to end the hindrance.
    fn end(&self, found: &Value) -> String {
        let end = found["end"].as_str().unwrap();
        let line = end.strip_prefix("sandstone ").unwrap();
        if line.starts_with("lu clear") {
            let told = self.process.done(&format!("{line} --dry-run"));
            assert!(
                told.contains("would end") && told.contains("nothing was changed"),
                "{told}"
            );
            assert!(
                self.hindrances().contains(found),
                "a dry run changes nothing"
            );
            return self.process.done(&format!("{line} --yes"));
        }
        self.process.done(line)
    }

    fn metrics(&self) -> String {
        let mut stream = UnixStream::connect(self.process.folder().join("control.sock")).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

fn access(session: &mut Connection, writes: bool) -> Answer {
    loop {
        let told = match writes {
            true => session.write(0, &cdb(0x8A, 0, 1), vec![7; BLOCK]),
            false => session.read(0, &cdb(0x88, 0, 1), BLOCK as u32),
        };
        let told = told.unwrap();
        match told.status {
            Some(0) => return Answer::Good,
            Some(0x18) => return Answer::Conflict,
            Some(2) if told.sense[2] & 0xF != 6 => {
                return Answer::Sense([told.sense[2] & 0xF, told.sense[12], told.sense[13]]);
            }
            Some(2) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Sends a command that ends well, after unit attentions.
fn send(session: &mut Connection, cdb: &[u8], data: &[u8]) {
    loop {
        let told = session.write(0, cdb, data.to_vec()).unwrap();
        match told.status {
            Some(0) => return,
            Some(2) if told.sense[2] & 0xF == 6 => {}
            _ => panic!("{cdb:02x?}: {told:?}"),
        }
    }
}

fn reserve_persistently(session: &mut Connection) {
    let mut list = [0; 24];
    // REGISTER AND IGNORE EXISTING KEY with APTPL; RESERVE, Exclusive Access.
    (list[15], list[20]) = (1, 1);
    send(session, &[0x5F, 6, 0, 0, 0, 0, 0, 0, 24, 0], &list);
    let mut list = [0; 24];
    list[7] = 1;
    send(session, &[0x5F, 1, 3, 0, 0, 0, 0, 0, 24, 0], &list);
}

/// Sends a MODE SELECT of the control page with SWP, saved.
fn write_protect(session: &mut Connection) {
    let sense = [0x1A, 0x08, 0x0A, 0, 255, 0];
    let mut list = session.read(0, &sense, 255).unwrap().data_in;
    list[0] = 0;
    list[2] = 0;
    list[4] &= 0x3F;
    list[8] |= 8;
    send(session, &[0x15, 0x11, 0, 0, list.len() as u8, 0], &list);
}

/// Sends SET TARGET PORT GROUPS that puts both groups in this state.
fn set_both_groups(session: &mut Connection, state: u8) {
    let list = [0, 0, 0, 0, state, 0, 0, 1, state, 0, 0, 2];
    send(session, &[0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0], &list);
}

/// Returns the states of both groups and their setters, as an initiator is told.
fn report(session: &mut Connection) -> [(u8, u8); 2] {
    loop {
        let told = session.read(0, &[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256);
        let told = told.unwrap();
        if told.status == Some(0) {
            let data = told.data_in;
            return [(data[4] & 0xF, data[9]), (data[16] & 0xF, data[21])];
        }
        assert_eq!(told.sense[2] & 0xF, 6, "{told:?}");
    }
}

#[test]
fn what_one_host_imposes_on_others_is_seen_and_ended() {
    let bench = Bench::new();
    let mut alice = bench.log_in(ALICE, 0);
    let mut bob = bench.log_in(BOB, 1);
    type Impose = fn(&mut Connection);
    let cases: [(&str, Impose, Answer, Answer); 4] = [
        (
            "stopped",
            |alice| send(alice, &[0x1B, 0, 0, 0, 0, 0], &[]),
            Answer::Sense([2, 0x04, 0x02]),
            Answer::Sense([2, 0x04, 0x02]),
        ),
        (
            "write-protect",
            write_protect,
            Answer::Good,
            Answer::Sense([7, 0x27, 0x02]),
        ),
        (
            "reservation",
            |alice| send(alice, &[0x16, 0, 0, 0, 0, 0], &[]),
            Answer::Conflict,
            Answer::Conflict,
        ),
        (
            "persistent-reservation",
            reserve_persistently,
            Answer::Conflict,
            Answer::Conflict,
        ),
    ];
    for (kind, impose, reads, writes) in cases {
        impose(&mut alice);
        let bob_is_told = [access(&mut bob, false), access(&mut bob, true)];
        assert_eq!(bob_is_told, [reads, writes], "{kind}");
        let found = bench.seen(kind, BOB);
        assert_eq!(found["by"], ALICE, "{found}");
        let told = bench.end(&found);
        assert!(told.contains(&format!("ended: {kind}")), "{told}");
        bench.gone(kind);
        for session in [&mut bob, &mut alice] {
            assert_eq!(access(session, false), Answer::Good, "{kind}");
            assert_eq!(access(session, true), Answer::Good, "{kind}");
        }
        let again = bench.process.done(&format!("lu clear disk {kind} --yes"));
        assert_eq!(again, format!("nothing to end: lu disk has no {kind}\n"));
    }
}

#[test]
fn what_survives_a_kill_is_seen_after_it_and_what_was_ended_does_not_come_back() {
    let mut bench = Bench::new();
    let mut alice = bench.log_in(ALICE, 0);
    set_both_groups(&mut alice, 2);
    let choices = |bench: &Bench| {
        let all = bench.hindrances();
        all.iter().filter(|it| it["kind"] == "alua-choice").count()
    };
    assert_eq!(choices(&bench), 2);
    drop(alice);
    bench.kill_and_restart();
    assert_eq!(choices(&bench), 2);
    let mut alice = bench.log_in(ALICE, 0);
    assert_eq!(access(&mut alice, false), Answer::Sense([2, 0x04, 0x0B]));
    bench.process.done("lu clear disk alua-choice");
    assert_eq!(access(&mut alice, false), Answer::Good);
    reserve_persistently(&mut alice);
    write_protect(&mut alice);
    drop(alice);
    bench.kill_and_restart();
    for kind in ["persistent-reservation", "write-protect"] {
        let found = bench.seen(kind, BOB);
        bench.end(&found);
    }
    bench.kill_and_restart();
    assert_eq!(bench.hindrances(), [] as [Value; 0]);
    let mut bob = bench.log_in(BOB, 0);
    assert_eq!(access(&mut bob, true), Answer::Good);
}

/// Any host that sees a unit may send SET TARGET PORT GROUPS, which shuts out only that host.
#[test]
fn a_host_that_sets_all_groups_unavailable_does_so_for_itself_alone() {
    let mut bench = Bench::new();
    for state in [2, 3] {
        let mut alice = bench.log_in(ALICE, 0);
        let mut bob = bench.log_in(BOB, 1);
        set_both_groups(&mut alice, state);
        for _ in 0..2 {
            assert_eq!(access(&mut bob, false), Answer::Good);
            assert_eq!(access(&mut bob, true), Answer::Good);
            bench.process.done("lu offline -y disk");
            bench.process.done("lu online disk");
        }
        assert_eq!(
            access(&mut alice, false),
            Answer::Sense([2, 0x04, 0x09 + state])
        );
        let found = bench.seen("alua-choice", ALICE);
        assert_eq!(found["binds_only"], ALICE);
        let targets = bench.process.done("target list");
        assert!(targets.contains(ALICE), "{targets}");
        let ports = bench.process.done("target list -H -o ports");
        assert!(ports.contains("active-optimized:explicit=1"), "{ports}");
        let hers = bench.process.done(&format!("map explain {ALICE} disk"));
        assert!(hers.contains("I/O to disk may be refused"), "{hers}");
        // None of it concerns Bob.
        let bobs = bench.process.done(&format!("map explain {BOB} disk"));
        assert!(!bobs.contains("alua"), "{bobs}");
        drop((alice, bob));
        bench.kill_and_restart();
        let mut bob = bench.log_in(BOB, 0);
        assert_eq!(access(&mut bob, true), Answer::Good);
        let mut alice = bench.log_in(ALICE, 1);
        assert_eq!(
            access(&mut alice, false),
            Answer::Sense([2, 0x04, 0x09 + state])
        );
        bench.end(&found);
        bench.gone("alua-choice");
        assert_eq!(access(&mut alice, true), Answer::Good);
    }
}

/// Linux multipath asks for an optimized path by itself. The command line shows its choice and the
/// effective state.
#[test]
fn the_command_line_and_the_wire_tell_one_truth_of_alua() {
    let bench = Bench::new();
    let mut alice = bench.log_in(ALICE, 1);
    let mut bob = bench.log_in(BOB, 1);
    let list = [0, 0, 0, 0, 0, 0, 0, 2];
    send(
        &mut alice,
        &[0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0],
        &list,
    );
    assert_eq!(report(&mut alice), [(0, 0), (0, 1)]);
    assert_eq!(report(&mut bob), [(0, 0), (1, 0)]);
    let found = bench.seen("alua-choice", ALICE);
    assert_eq!(
        (&found["by"], &found["stops"]),
        (&ALICE.into(), &"nothing".into())
    );
    let target = bench.process.done("target list --json");
    let target: Value = serde_json::from_str(&target).unwrap();
    let choice = &target[0]["alua_choices"][0];
    assert_eq!(choice["unit"], "disk");
    assert_eq!(choice["administrator"], "active-non-optimized");
    assert_eq!(choice["chosen"], "active-optimized");
    // The administrator repeats the command: the state is already so, but not for Alice.
    let line = "target alua-state 2 active-non-optimized";
    let told = bench.process.done(&format!("{line} --dry-run"));
    assert!(told.contains(ALICE), "{told}");
    assert_eq!(report(&mut alice), [(0, 0), (0, 1)], "a dry run");
    let told = bench.process.done(line);
    assert!(
        told.contains("active-optimized -> active-non-optimized"),
        "{told}"
    );
    assert_eq!(report(&mut alice), [(0, 0), (1, 0)]);
    let told = bench.process.done(line);
    assert_eq!(
        told,
        "nothing to change: the configuration already says so\n"
    );
    // Another command, also in SCSI's spelling, ends choices too. They do not come back with the
    // first command.
    set_both_groups(&mut alice, 3);
    bench
        .process
        .done("target alua-state 1 active/non-optimized");
    bench.process.done("target alua-state 1 active/optimized");
    assert_eq!(report(&mut alice), [(0, 0), (3, 1)]);
    bench
        .process
        .done(&format!("target modify {TARGET} --alua implicit"));
    assert_eq!(report(&mut alice), [(0, 0), (1, 0)]);
    bench
        .process
        .done(&format!("target modify {TARGET} --alua both"));
    assert_eq!(report(&mut alice), [(0, 0), (1, 0)]);
    assert_eq!(bench.hindrances(), [] as [Value; 0]);
}

#[test]
fn what_the_administrator_imposed_is_seen_and_ended_likewise() {
    let mut bench = Bench::new();
    for (verb, kind, writes) in [
        (
            "lu offline -y disk",
            "offline",
            Answer::Sense([2, 0x04, 0x12]),
        ),
        (
            "lu modify -y disk --read-only yes",
            "read-only",
            Answer::Sense([7, 0x27, 0x00]),
        ),
        (
            "target alua-state 1 standby",
            "alua",
            Answer::Sense([2, 0x04, 0x0B]),
        ),
        (
            "target alua-state 1 unavailable",
            "alua",
            Answer::Sense([2, 0x04, 0x0C]),
        ),
        (
            "target alua-state 1 transitioning",
            "alua",
            Answer::Sense([2, 0x04, 0x0A]),
        ),
    ] {
        let mut bob = bench.log_in(BOB, 0);
        bench.process.done(verb);
        assert_eq!(access(&mut bob, true), writes, "{verb}");
        let found = bench.seen(kind, BOB);
        assert_eq!(found.get("by"), None);
        if kind == "alua" {
            let told = bench.process.done(&format!("map explain {BOB} disk"));
            assert!(
                !told.contains("may be refused"),
                "another path is open: {told}"
            );
        }
        bench.end(&found);
        bench.gone(kind);
        assert_eq!(access(&mut bob, true), Answer::Good, "{verb}");
    }
    // The file of the unit is away.
    let file = bench.process.folder().join("volumes/disk.img");
    let aside = file.with_extension("aside");
    bench.process.kill();
    std::fs::rename(&file, &aside).unwrap();
    bench.process.restart();
    let mut bob = bench.log_in(BOB, 0);
    assert_eq!(access(&mut bob, true), Answer::Sense([2, 0x04, 0x01]));
    bench.seen("fault", BOB);
    let refused = bench.process.refused("lu clear disk stopped");
    assert!(refused.contains("lu disk is not served now"), "{refused}");
    std::fs::rename(&aside, &file).unwrap();
    wait::until_seen(
        "the fault is gone",
        || bench.hindrances(),
        |left| left.is_empty(),
    );
    wait::until("bob may write", || access(&mut bob, true) == Answer::Good);
}

#[test]
fn a_word_that_ends_nothing_says_what_does() {
    let bench = Bench::new();
    for (line, says) in [
        (
            "lu clear nothing stopped",
            "logical unit nothing does not exist",
        ),
        (
            "lu clear disk offline",
            "[possible values: sanitize-failed, stopped, alua-choice",
        ),
    ] {
        let refused = bench.process.refused(line);
        assert!(refused.contains(says), "{line}: {refused}");
    }
    // An administrator has to say that no cluster relies on it.
    let mut alice = bench.log_in(ALICE, 0);
    reserve_persistently(&mut alice);
    let refused = bench
        .process
        .refused("lu clear disk persistent-reservation");
    assert!(refused.contains("no cluster relies on it"), "{refused}");
    assert!(refused.contains("--yes"), "{refused}");
    assert_eq!(bench.hindrances().len(), 1);
}
