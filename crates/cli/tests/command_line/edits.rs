//! Tests of changes: made, previewed, asked about, refused, taken back.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::daemon::{Daemon, run};

const ESX1: &str = "iqn.1998-01.com.vmware:esx1";
const ONE: &str = "iqn.2024-08.internal.sandstone:one";

#[test]
fn without_a_daemon_the_command_that_starts_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["lu", "list"], None);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, "");
    let expected = format!(
        "sandstone: no Sandstone daemon answers at {}/control.sock\n  \
         state: nothing was changed\n  \
         next:  start one with `sandstone serve --state DIR` (or `sandstone demo` to try it out), \
         or say where it is with --state, --control, SANDSTONE_STATE or SANDSTONE_CONTROL\n",
        folder.path().display()
    );
    assert_eq!(ran.err, expected);
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let daemon = Daemon::start();
    for line in [
        "lu",
        "lu create",
        "lu create a --size ten",
        "lu frobnicate a",
        "session kill many",
        "map add a",
    ] {
        let ran = daemon.run(line);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(
            ran.out.is_empty() && ran.err.contains("Usage") || ran.err.contains("error:"),
            "{line}: {ran:?}"
        );
    }
    assert_eq!(daemon.run("--help").code, 0);
    assert_eq!(daemon.run("--version").code, 0);
}

#[test]
fn a_created_unit_is_told_with_its_naa_and_survives_a_restart() {
    let mut daemon = Daemon::start();
    let ran = daemon.run("lu create vol1 --file --size 10G");
    assert!(
        ran.out.starts_with("lu vol1 created, naa.652534e"),
        "{ran:?}"
    );
    let before = daemon.run("lu list -H -o name,size,naa,serial");
    daemon.restart();
    assert_eq!(daemon.run("lu list -H -o name,size,naa,serial"), before);
}

#[test]
fn a_dry_run_shows_everything_and_changes_nothing() {
    let daemon = Daemon::start();
    let ran = daemon.run("host create esx --initiator iqn.1998-01.com.vmware:* --dry-run");
    let expected = "  \
  + host esx
      initiators  iqn.1998-01.com.vmware:*
      name        esx
nothing was changed (--dry-run)
";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected));
    assert_eq!(daemon.run("host list -H").out, "");
}

#[test]
fn a_modification_tells_old_and_new() {
    let daemon = Daemon::with_one_of_each();
    let ran = daemon.run("lu modify vol1 --write-cache yes --size 20G");
    assert_eq!(
        ran.out,
        "lu vol1: backend.size 10737418240 -> 21474836480, write_cache false -> true\n"
    );
    let again = daemon.run("lu modify vol1 --write-cache yes");
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "nothing to change: the configuration already says so\n")
    );
    let shrunk = daemon.run("lu modify vol1 --size 1G");
    assert_eq!(shrunk.code, 1);
    assert!(shrunk.err.contains("would cut off data"), "{shrunk:?}");
}

#[test]
fn deleting_what_is_in_use_needs_a_yes_and_shows_why() {
    let daemon = Daemon::with_one_of_each();
    daemon.log_in(3, ESX1, ONE);
    let preview = format!(
        "This would happen:
  - lu vol1
  - map vol1 (host esx, every target)
  ! session 3 of {ESX1} at {ONE}: ends: nothing is mapped to this initiator at this target
"
    );
    let ran = daemon.run("lu delete vol1");
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with(&preview), "{}", ran.err);
    assert!(
        ran.err.contains("repeat the command with --yes"),
        "{}",
        ran.err
    );
    let ran = daemon.run_answering("lu delete vol1", "n\n");
    assert_eq!(
        (ran.code, ran.err),
        (1, format!("{preview}nothing was changed\n"))
    );
    let ran = daemon.run_answering("lu delete vol1", "y\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out
            .starts_with("lu vol1 removed\nmap vol1 (host esx, every target) removed\nsession 3 "),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("its data stays in volumes/vol1.img"),
        "{}",
        ran.err
    );
    assert_eq!(daemon.run("map list -H").out, "");
}

#[test]
fn what_nothing_depends_on_goes_without_a_question() {
    let daemon = Daemon::start();
    daemon.run("host create lonely");
    let ran = daemon.run("host delete lonely");
    assert_eq!((ran.code, ran.out.as_str()), (0, "host lonely removed\n"));
    daemon.run("lu create ram --memory --size 1M");
    let ran = daemon.run("lu delete ram");
    assert_eq!(ran.code, 1, "memory is gone for good");
    assert_eq!(daemon.run("lu delete ram -f").code, 0);
}

#[test]
fn a_refusal_of_the_data_plane_leaves_everything_as_it_was() {
    let mut daemon = Daemon::with_one_of_each();
    let before = daemon.run("config show").out;
    *daemon.data_plane.refuses.lock().unwrap() = Some("vol2".into());
    let ran = daemon.run("lu create vol2 --file --size 1G");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("lu vol2: the disk is on fire"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("the change was undone") && ran.err.contains("next:  put it out"),
        "{}",
        ran.err
    );
    assert_eq!(daemon.run("config show").out, before);
    daemon.restart();
    assert_eq!(
        daemon.run("config show").out,
        before,
        "not even on the disk"
    );
}

#[test]
fn secrets_go_in_and_never_come_out() {
    let daemon = Daemon::with_one_of_each();
    let file = daemon.folder.path().join("secret");
    std::fs::write(&file, "correct horse battery\n").unwrap();
    let path = file.to_str().unwrap();
    let mut said = String::new();
    for words in [
        vec![
            "host",
            "auth",
            "esx",
            "--user",
            "esx",
            "--secret-file",
            path,
        ],
        vec!["host", "list", "--json"],
        vec!["host", "list"],
        vec!["config", "show"],
        vec!["config", "show", "--json"],
        vec!["map", "explain", ESX1, "vol1"],
        vec!["status", "--json"],
    ] {
        let ran = run(daemon.folder.path(), &words, None);
        assert_eq!(ran.code, 0, "{words:?}: {ran:?}");
        said.push_str(&ran.out);
        said.push_str(&ran.err);
    }
    assert!(!said.contains("correct horse"), "{said}");
    assert!(
        said.contains("CHAP esx") && said.contains("<unchanged>"),
        "{said}"
    );
    let stored = std::fs::read_to_string(daemon.folder.path().join("config.toml")).unwrap();
    assert!(!stored.contains("correct horse"), "it is sealed there");
    let opened = config::store::Store::peek(daemon.folder.path()).unwrap();
    let chap = opened.hosts.iter().find_map(|host| host.chap.as_ref());
    let secret = &chap.unwrap().secret;
    assert!(
        secret.contains("correct horse battery"),
        "the login needs it"
    );
    std::fs::write(&file, "short\n").unwrap();
    let ran = run(
        daemon.folder.path(),
        &[
            "host",
            "auth",
            "esx",
            "--user",
            "esx",
            "--secret-file",
            path,
        ],
        None,
    );
    assert!(ran.code == 1 && ran.err.contains("has 5 bytes"), "{ran:?}");
    let ran = daemon.run("host auth esx --user esx --generate");
    let secret = ran
        .out
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("secret: "))
        .unwrap()
        .to_owned();
    assert_eq!(secret.len(), 16);
    assert_eq!(daemon.run("host auth esx --none").code, 0);
    assert!(daemon.run("host list -H -o auth").out.starts_with('-'));
}

#[test]
fn portals_redirects_and_states_of_a_target() {
    let daemon = Daemon::with_one_of_each();
    let ok = |line: &str| {
        let ran = daemon.run(line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran.out
    };
    ok(&format!(
        "target portal add {ONE} 10.0.0.1:3261 --tag 2 --target-port-group 2 --alua-state standby"
    ));
    assert_eq!(
        ok("target list -H -o portals,ports"),
        "0.0.0.0:3260,1 10.0.0.1:3261,2\t1:rtpi=1:tpg=1:active-optimized 2:rtpi=2:tpg=2:standby\n"
    );
    ok("target alua-state 2 active-non-optimized");
    assert_eq!(
        ok("target list -H -o ports"),
        "1:rtpi=1:tpg=1:active-optimized 2:rtpi=2:tpg=2:active-non-optimized\n"
    );
    ok("target alua-state 2 transitioning");
    assert_eq!(
        ok("target list -H -o ports"),
        "1:rtpi=1:tpg=1:active-optimized 2:rtpi=2:tpg=2:transitioning\n"
    );
    let unknown = daemon.run("target alua-state 2 offline");
    assert!(
        unknown.code == 2 && unknown.err.contains("unavailable or transitioning"),
        "{unknown:?}"
    );
    let nowhere = daemon.run("target alua-state 7 standby");
    assert_eq!(nowhere.code, 1, "{nowhere:?}");
    assert!(
        nowhere
            .err
            .contains("target port group 7 has no portal groups"),
        "{nowhere:?}"
    );
    ok(&format!("target redirect {ONE} 10.0.0.9:3260 --permanent"));
    assert_eq!(
        ok("target list -H -o state"),
        "redirects to 10.0.0.9:3260\n"
    );
    ok(&format!("target redirect {ONE} --none"));
    ok(&format!("target offline {ONE}"));
    assert_eq!(ok("target list -H -o state"), "offline\n");
    ok(&format!("target online {ONE}"));
    ok(&format!(
        "target modify {ONE} --queue-depth 64 --alias disks"
    ));
    ok(&format!("target portal remove {ONE} 10.0.0.1:3261"));
    assert_eq!(
        ok("target list -H -o portals,alias"),
        "0.0.0.0:3260,1\tdisks\n"
    );
    let ran = daemon.run(&format!("target portal remove {ONE} 0.0.0.0"));
    assert!(
        ran.code == 1 && ran.err.contains("the only portal"),
        "{ran:?}"
    );
}

#[test]
fn share_does_all_of_it_and_says_what_to_type() {
    let daemon = Daemon::start();
    let ran = daemon.run(
        "share db --host iqn.1993-08.org.debian:01:9f2c --file --size 1G --portal 10.0.0.1 --client linux",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let naa = daemon
        .run("lu list -H -o naa")
        .out
        .trim()
        .trim_start_matches("naa.")
        .to_owned();
    let expected = format!(
        "lu db created, naa.{naa}
target iqn.2024-08.internal.sandstone:db created
host 9f2c created
map db (host 9f2c, target iqn.2024-08.internal.sandstone:db) added as LUN 0

Linux (open-iscsi)
    iscsiadm -m discovery -t sendtargets -p 10.0.0.1:3260
    iscsiadm -m node -T iqn.2024-08.internal.sandstone:db --login
    ls -l /dev/disk/by-id/wwn-0x{naa}

"
    );
    assert_eq!(ran.out, expected);
    let again = daemon.run("share db --host iqn.1993-08.org.debian:01:9f2c --client qemu");
    assert!(
        again.code == 0 && again.out.starts_with("nothing to change"),
        "{again:?}"
    );
    let second = daemon.run("share logs --host 9f2c --file --size 1G --client qemu");
    assert!(
        second
            .out
            .contains("iscsi://10.0.0.1:3260/iqn.2024-08.internal.sandstone:db/1"),
        "{second:?}"
    );
}

/// Tests target groups, COMSTAR's third part of a view: targets that one map names together.
#[test]
fn a_map_names_a_target_group_and_explain_follows_it() {
    const TWO: &str = "iqn.2024-08.internal.sandstone:two";
    let daemon = Daemon::with_one_of_each();
    let none = daemon.run("target-group list");
    assert!(
        none.out.is_empty() && none.err.contains("no target groups"),
        "{none:?}"
    );
    daemon.run(&format!("target create {TWO} --portal 10.0.0.2:3261"));
    daemon.run("lu create vol2 --memory --size 1G");
    let made = daemon.run(&format!("target-group create site-a --target {ONE}"));
    assert_eq!(
        (made.code, made.out.as_str()),
        (0, "target group site-a created\n")
    );
    let mapped = daemon.run("map add vol2 --host esx --target site-a");
    assert_eq!(mapped.code, 0, "{mapped:?}");
    let told = daemon.run(&format!("map explain {ESX1} vol2"));
    let conclusion = format!("{ESX1} sees vol2 as LUN 1 of {ONE}.\n");
    assert!(told.out.starts_with(&conclusion), "{told:?}");
    let grown = daemon.run(&format!("target-group add-target site-a {TWO}"));
    assert_eq!(grown.code, 0, "{grown:?}");
    let told = daemon.run(&format!("map explain {ESX1} vol2"));
    assert!(told.out.contains(&format!("LUN 1 of {TWO}")), "{told:?}");
    let listed = daemon.run("target-group list -H");
    assert_eq!(listed.out, format!("site-a\t{ONE} {TWO}\t1\n"));
    let listed = daemon.run("map list -H -o lu,target site-a");
    assert_eq!(listed.code, 2, "{listed:?}");
    let listed = daemon.run("map list -H -o lu,host,target,lun");
    assert_eq!(listed.out, "vol1\tesx\t*\t0\nvol2\tesx\tsite-a\t1\n");
    let unknown = daemon.run("map add vol2 --host esx --target site-b --lun 9");
    assert_eq!(unknown.code, 1);
    assert!(
        unknown
            .err
            .contains("the target group \"site-b\", which does not exist")
            && unknown.err.contains("sandstone target-group create site-b"),
        "{unknown:?}"
    );
    let refused = daemon.run(&format!("target delete {TWO}"));
    assert!(refused.err.contains("target group site-a"), "{refused:?}");
    let refused = daemon.run("target-group delete site-a");
    assert!(refused.err.contains("- map vol2"), "{refused:?}");
    let removed = daemon.run("target-group delete site-a --yes");
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(daemon.run("map list -H -o lu").out, "vol1\n");
}

#[test]
fn who_looks_is_answered_while_a_change_takes_its_time() {
    const LOOKS: [&str; 8] = [
        "status",
        "lu list",
        "target list",
        "host list",
        "map list",
        "session list",
        "config show",
        "lu modify vol1 --read-only yes --dry-run",
    ];
    let daemon = Daemon::with_one_of_each();
    let folder = daemon.folder.path().to_owned();
    let (told, answers) = channel();
    let looks = move || {
        // The change has its own thread: an unanswered question must not keep it from ending.
        let (answered, answer) = channel();
        std::thread::spawn(move || {
            for line in LOOKS {
                let words: Vec<&str> = line.split_whitespace().collect();
                drop(answered.send(run(&folder, &words, None)));
            }
        });
        for _ in LOOKS {
            let Ok(ran) = answer.recv_timeout(Duration::from_secs(30)) else {
                return;
            };
            told.send(ran).unwrap();
        }
    };
    *daemon.data_plane.during_a_change.lock().unwrap() = Some(Box::new(looks));
    let changed = daemon.run(&format!("target offline {ONE}"));
    assert_eq!(changed.code, 0, "{changed:?}");
    for line in LOOKS {
        let ran = answers.recv();
        let ran = ran.unwrap_or_else(|_| panic!("{line}: no answer before the change was over"));
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    assert_eq!(daemon.run("target list -H -o state").out, "offline\n");
}
