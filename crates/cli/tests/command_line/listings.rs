//! Tests of listings and explanations, as people and scripts see them.

use super::daemon::Daemon;

const ESX1: &str = "iqn.1998-01.com.vmware:esx1";
const ONE: &str = "iqn.2024-08.internal.sandstone:one";

fn json(daemon: &Daemon, line: &str) -> serde_json::Value {
    serde_json::from_str(&daemon.run(line).out).unwrap()
}

#[test]
fn lists_follow_the_conventions() {
    let daemon = Daemon::with_one_of_each();
    let naa = daemon.run("lu list -H -o naa").out.trim().to_owned();
    let people = daemon.run("lu list").out;
    let expected = format!(
        "NAME  SIZE   USED  STATE   BACKEND           BLOCK  MAPS  NAA
vol1   10G  1.25G  online  volumes/vol1.img    512     1  {naa}
"
    );
    assert_eq!(people, expected);
    assert_eq!(daemon.run("lu list -H -o name,size").out, "vol1\t10G\n");
    assert_eq!(
        daemon.run("lu list -Hp -o NAME,size,used").out,
        "vol1\t10737418240\t1342177280\n"
    );
    let json = json(&daemon, "lu list --json");
    assert_eq!(json[0]["spec"]["backend"]["size"], 10_737_418_240_u64);
    let ran = daemon.run("lu list -o colour");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("no column \"colour\"") && ran.err.contains("choose from -o name,size,"),
        "{}",
        ran.err
    );
    let ran = daemon.run("lu list vol9");
    assert!(
        ran.code == 1 && ran.err.contains("logical unit vol9 does not exist"),
        "{ran:?}"
    );
}

#[test]
fn an_empty_list_says_how_to_fill_it_but_not_to_scripts() {
    let daemon = Daemon::start();
    for (verb, next) in [
        ("lu", "lu create"),
        ("target", "target create"),
        ("host", "host create"),
        ("map", "map add"),
    ] {
        let ran = daemon.run(&format!("{verb} list"));
        assert!(
            ran.code == 0 && ran.out.is_empty() && ran.err.contains(next),
            "{ran:?}"
        );
        let ran = daemon.run(&format!("{verb} list -H"));
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
        assert_eq!(daemon.run(&format!("{verb} list --json")).out, "[]\n");
    }
}

#[test]
fn targets_hosts_maps_and_sessions_are_listed() {
    let daemon = Daemon::with_one_of_each();
    daemon.log_in(3, ESX1, ONE);
    let target = format!("{ONE}\tonline\t0.0.0.0:3260,1\t1\t-\n");
    assert_eq!(daemon.run("target list -H").out, target);
    assert_eq!(
        daemon.run("host list -H").out,
        "esx\tiqn.1998-01.com.vmware:*\t-\t1\t1\n"
    );
    assert_eq!(
        daemon.run("map list -H -o lu,host,target,lun,access").out,
        "vol1\tesx\t*\t0\trw\n"
    );
    let sessions = daemon.run("session list").out;
    let expected = "\
TSIH  INITIATOR                    TARGET                              PEER            LUNS  READ  WRITTEN    AGE
   3  iqn.1998-01.com.vmware:esx1  iqn.2024-08.internal.sandstone:one  10.0.0.7:49152     1    3G       5M  1h 6m
";
    assert_eq!(sessions, expected);
    assert_eq!(
        daemon
            .run("session list -Hp -o tsih,digests,portal,age")
            .out,
        "3\theader\t10.0.0.1:3260,1\t4000\n"
    );
}

#[test]
fn a_session_is_killed_only_when_asked_for_by_number_and_yes() {
    let daemon = Daemon::with_one_of_each();
    daemon.log_in(3, ESX1, ONE);
    assert!(
        daemon
            .run("session kill 4 -y")
            .err
            .contains("there is no session 4")
    );
    assert_eq!(daemon.run("session kill 3").code, 1);
    assert_eq!(daemon.run_answering("session kill 3", "").code, 1);
    for dry in ["session kill 3 -n", "session kill 3 --yes --dry-run"] {
        let ran = daemon.run(dry);
        let told = format!(
            "session 3 of {ESX1} at {ONE}, 0 commands in flight: it would end\n\
             nothing was changed (--dry-run)\n"
        );
        assert_eq!((ran.code, ran.out), (0, told));
    }
    let told = json(&daemon, "session kill 3 -n --json");
    assert_eq!(told["dry_run"], true);
    assert_eq!(told["action"], "kill");
    assert_eq!(told["session"]["initiator"], ESX1);
    assert_eq!(daemon.run("session kill 4 -n").code, 1);
    assert_eq!(daemon.run("session list -H -o tsih").out, "3\n");
    let ran = daemon.run("session kill 3 --yes");
    assert_eq!((ran.code, ran.out.as_str()), (0, "session 3 ended\n"));
    assert!(daemon.run("session list").err.contains("no sessions"));
    daemon.log_in(3, ESX1, ONE);
    let told = json(&daemon, "session kill 3 --yes --json");
    assert_eq!(told["dry_run"], false);
    assert_eq!(told["session"]["tsih"], 3);
    assert!(daemon.run("session list").err.contains("no sessions"));
}

#[test]
fn an_initiator_is_asked_to_log_a_session_out_within_a_time() {
    let daemon = Daemon::with_one_of_each();
    daemon.log_in(3, ESX1, ONE);
    let ran = daemon.run("session logout 4");
    assert!(ran.err.contains("there is no session 4"), "{}", ran.err);
    assert_eq!(daemon.run("session logout 3 --within 0").code, 2);
    assert_eq!(daemon.run("session list -H -o tsih").out, "3\n");
    let ran = daemon.run("session logout 3 --within 5 -n");
    let told = format!(
        "session 3 of {ESX1} at {ONE}, 0 commands in flight: its initiator would be asked to log out within 5 s\n\
         nothing was changed (--dry-run)\n"
    );
    assert_eq!((ran.code, ran.out), (0, told));
    let told = json(&daemon, "session logout 3 --dry-run --json");
    assert_eq!(told["dry_run"], true);
    assert_eq!(told["action"], "logout");
    assert_eq!(told["within_s"], 30);
    assert_eq!(daemon.run("session logout 4 -n").code, 1);
    assert_eq!(daemon.run("session list -H -o tsih").out, "3\n");
    let ran = daemon.run("session logout 3 --within 5");
    let asked = "session 3: its initiator was asked to log out within 5 s\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, asked));
    assert!(daemon.run("session list").err.contains("no sessions"));
    daemon.log_in(3, ESX1, ONE);
    let told = json(&daemon, "session logout 3 --within 5 --json");
    assert_eq!(told["dry_run"], false);
    assert_eq!(told["within_s"], 5);
    assert!(daemon.run("session list").err.contains("no sessions"));
}

#[test]
fn explain_answers_why_and_says_what_to_do() {
    let daemon = Daemon::with_one_of_each();
    let ran = daemon.run(&format!("map explain {ESX1} vol1"));
    assert_eq!(ran.code, 0);
    assert!(
        ran.out
            .starts_with(&format!("{ESX1} sees vol1 as LUN 0 of {ONE}.\n")),
        "{}",
        ran.out
    );
    let ran = daemon.run("map explain iqn.1993-08.org.debian:01:9f2c vol1");
    let naa = daemon.run("lu list -H -o naa").out.trim().to_owned();
    let expected = format!(
        "iqn.1993-08.org.debian:01:9f2c does not see vol1: No map of vol1 includes this initiator.

  ok    iqn.1993-08.org.debian:01:9f2c is a well-formed iSCSI name.
  NO    The initiator belongs to no host.
        -> sandstone host add-initiator HOST iqn.1993-08.org.debian:01:9f2c
  ok    Logical unit vol1 exists and is online ({naa}).
  note  Logical unit vol1 is mapped as LUN 0, but to host esx.
  NO    No map of vol1 includes this initiator.
        -> sandstone share vol1 --host iqn.1993-08.org.debian:01:9f2c
"
    );
    assert_eq!((ran.code, ran.out), (1, expected));
    let ran = daemon.run(&format!("map explain {ESX1}"));
    assert!(
        ran.out.contains(&format!(
            "  LUN 0 of {ONE}: vol1 rw (host esx, every target)"
        )),
        "{}",
        ran.out
    );
}

#[test]
fn explain_takes_a_host_for_each_of_its_initiators() {
    let daemon = Daemon::with_one_of_each();
    let iqns = ["a", "b"].map(|name| format!("iqn.1993-08.org.debian:01:{name}"));
    let create = format!(
        "host create linux --initiator {} --initiator {}",
        iqns[0], iqns[1]
    );
    assert_eq!(daemon.run(&create).code, 0);
    let ran = daemon.run("map explain linux vol1");
    assert_eq!(ran.code, 1, "they do not see it yet");
    assert_eq!(daemon.run("map add vol1 --host linux").code, 0);
    let one_by_one = iqns.each_ref().map(|iqn| {
        let ran = daemon.run(&format!("map explain {iqn} vol1"));
        assert_eq!(ran.code, 0);
        ran.out
    });
    let ran = daemon.run("map explain linux vol1");
    assert_eq!((ran.code, ran.out), (0, one_by_one.join("\n")));
    let json = daemon.run("map explain linux --json").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (answer, iqn) in json.as_array().unwrap().iter().zip(&iqns) {
        assert_eq!(answer["initiator"], **iqn);
    }
    // A pattern stands for many initiators; the administrator must say which one is meant.
    let ran = daemon.run("map explain esx");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("host esx has patterns only")
            && ran.err.contains("sandstone map explain IQN"),
        "{}",
        ran.err
    );
    let ran = daemon.run("map explain nobody");
    assert_eq!(ran.code, 1);
    let finding =
        "nobody is not a host; as the name of an initiator it breaks the naming rules of RFC 7143";
    assert!(ran.out.contains(finding), "{}", ran.out);
}

#[test]
fn status_tells_the_daemon_in_short() {
    let daemon = Daemon::with_one_of_each();
    let ran = daemon.run("status");
    assert!(
        ran.out
            .contains("serving   1 logical units, 1 targets, 1 hosts, 0 sessions"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains(&format!("portal    0.0.0.0:3260,1 {ONE} listening")),
        "{}",
        ran.out
    );
}

#[test]
fn completion_and_manual_pages_are_made_for_every_shell_and_verb() {
    let daemon = Daemon::start();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = daemon.run(&format!("completion {shell}"));
        assert!(
            ran.code == 0 && ran.out.contains("sandstone"),
            "{shell}: {ran:?}"
        );
    }
    assert!(daemon.run("man").out.contains(".TH"));
    let folder = daemon.folder.path().join("man");
    let ran = daemon.run(&format!("man --folder {}", folder.display()));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(folder.join("sandstone-lu-create.1").exists());
    let ran = daemon.run("man pool create");
    assert!(ran.out.contains(".TH sandstone"), "{ran:?}");
    assert!(ran.out.contains("pool create tank mirror"), "{ran:?}");
    assert!(!std::path::Path::new("pool").exists(), "no folder is made");
}

/// Lists objects with long names at a terminal of 80 columns: each name is whole, so that it can be
/// copied.
#[test]
fn lists_fit_80_columns_and_break_no_naa_and_no_iqn() {
    let daemon = Daemon::start();
    let target = "iqn.2026-01.com.example.storage:second-floor.rack-17.san-one";
    let initiator = "iqn.1998-01.com.vmware:esx-host-of-the-second-floor-4f2a9c71";
    let naa = "naa.652534e0000000000000100000000001";
    let unit = "virtual-machines-of-the-second-floor";
    for line in [
        format!("lu create {unit} --memory --size 64M --naa {naa}"),
        format!("target create {target} --portal 192.0.2.10 --portal [2001:db8::10]:3260"),
        format!("target-group create all-of-the-second-floor --target {target}"),
        format!("host create hosts-of-the-second-floor --initiator {initiator}"),
        format!("map add {unit} --host hosts-of-the-second-floor --target {target}"),
    ] {
        let ran = daemon.run(&line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    daemon.log_in(1, initiator, target);
    for (line, names) in [
        ("lu list", vec![unit, naa]),
        ("target list", vec![target]),
        ("target-group list", vec!["all-of-the-second-floor"]),
        ("host list", vec!["hosts-of-the-second-floor"]),
        ("map list", vec![unit, target]),
        ("session list", vec![initiator]),
    ] {
        let ran = daemon.run_at(80, line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        for told in ran.out.lines() {
            assert!(told.chars().count() <= 80, "{line}: {told}");
        }
        for name in names {
            let is_whole = ran.out.split_whitespace().any(|word| word.contains(name));
            assert!(is_whole, "{name} of {line}: {}", ran.out);
        }
        // A pipe gets one line for each row, whatever its length.
        assert_eq!(daemon.run(line).out.lines().count(), 2, "{line}");
    }
}
