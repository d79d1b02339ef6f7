//! Tests of `config history`: the time, the author and the changes of each generation.

use serde_json::Value;

use super::daemon::{Daemon, run};
use testing::user::me;

#[test]
fn each_generation_tells_when_by_whom_and_what_was_changed() {
    let daemon = Daemon::with_one_of_each();
    for line in [
        "lu modify vol1 --read-only yes",
        "host add-initiator esx iqn.1991-05.com.microsoft:win",
        "map remove vol1 --host esx -y",
        "lu delete vol1 -y",
    ] {
        let ran = daemon.run(line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    let me = me();
    let told = daemon
        .run("config history -H -p -o generation,author,summary")
        .out;
    let expected = [
        "0\tthe daemon\tthe state folder was created",
        &format!("1\t{me}\tlu vol1 created"),
        &format!("2\t{me}\ttarget iqn.2024-08.internal.sandstone:one created"),
        &format!("3\t{me}\thost esx created"),
        &format!("4\t{me}\tmap vol1 (host esx, every target) created"),
        &format!("5\t{me}\tlu vol1 changed: read_only"),
        &format!("6\t{me}\thost esx changed: initiators"),
        &format!("7\t{me}\tmap vol1 (host esx, every target) removed"),
        &format!("8\t{me}\tlu vol1 removed"),
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    let commands = daemon.run("config history -H -o command,in_force").out;
    let last = "sandstone lu delete vol1 -y\tyes";
    assert_eq!(commands.lines().last(), Some(last));
    assert_eq!(commands.matches("\tyes").count(), 1, "{commands}");
    // People and programs get equal dates.
    let exact = daemon.run("config history -H -p -o time").out;
    let times: Vec<u64> = exact.lines().map(|line| line.parse().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 1_700_000_000, "{times:?}");
    let dates = daemon.run("config history -H -o time").out;
    assert!(dates.lines().all(|date| date.ends_with(" UTC")), "{dates}");
}

#[test]
fn programs_are_told_all_of_it() {
    let daemon = Daemon::with_one_of_each();
    let told: Value = serde_json::from_str(&daemon.run("config history --json").out).unwrap();
    let newest = told.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&newest["generation"], &newest["in_force"]),
        (&4.into(), &true.into())
    );
    assert!(newest["time_s"].as_u64().unwrap() > 1_700_000_000);
    let change = &newest["changes"][0];
    assert_eq!(change["user"], me());
    assert_eq!(change["command"], "sandstone map add vol1 --host esx");
    assert_eq!(change["objects"][0]["action"], "add");
    assert_eq!(change["objects"][0]["object"], "map");
}

#[test]
fn a_request_that_no_command_line_made_is_told_without_its_secrets() {
    let daemon = Daemon::start();
    let body = r#"{"name": "web", "initiators": ["iqn.2026-01.x:y"], "chap": {"user": "u", "secret": "a-very-long-secret"}}"#;
    let (code, answer) = super::api::http(&daemon, "POST /v1/hosts", body);
    assert_eq!(code, 200, "{answer}");
    let told = daemon.run("config history --json").out;
    assert!(told.contains("POST /v1/hosts"), "{told}");
    assert!(!told.contains("a-very-long-secret"), "{told}");
    // A request cannot name its author either.
    let (code, answer) = super::api::http(&daemon, "POST /v1/hosts?by=root", body);
    assert_eq!(code, 400, "{answer}");
}

#[test]
fn changes_that_many_ask_for_at_once_are_all_told() {
    let daemon = Daemon::start();
    std::thread::scope(|scope| {
        for number in 0..24 {
            let daemon = &daemon;
            scope.spawn(move || daemon.run(&format!("host create h{number}")));
        }
    });
    let told = daemon.run("config history -H -p -o summary").out;
    for number in 0..24 {
        assert!(told.contains(&format!("host h{number} created")), "{told}");
    }
}

#[test]
fn generations_of_older_versions_are_unknown() {
    let mut daemon = Daemon::with_one_of_each();
    daemon.stop();
    // The file looks as earlier versions wrote it, which noted nothing.
    for file in ["config.toml", "history/config.4.toml"] {
        let path = daemon.folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let (first, body) = text.split_once('\n').unwrap();
        let body: String = body
            .lines()
            .filter(|line| !line.starts_with("# made: "))
            .map(|line| format!("{line}\n"))
            .collect();
        let (first, _) = first.rsplit_once(' ').unwrap();
        let sum = crc32fast::hash(body.as_bytes());
        std::fs::write(&path, format!("{first} {sum:08x}\n{body}")).unwrap();
    }
    daemon.restart();
    let told = daemon.run("config history -H").out;
    let last = told.lines().last();
    assert_eq!(last, Some("4\tunknown\tunknown\tunknown"));
    assert!(told.contains("host esx created"), "{told}");
    let json: Value = serde_json::from_str(&daemon.run("config history --json").out).unwrap();
    assert_eq!(json[4]["time_s"], Value::Null);
    assert_eq!(json[4]["changes"], Value::Null);
}

#[test]
fn going_back_shows_what_changes_with_a_daemon_and_without() {
    let mut daemon = Daemon::with_one_of_each();
    let gone = "  - map vol1 (host esx, every target)\n";
    let preview = daemon.run("config rollback 3 -n");
    assert_eq!(
        preview.out,
        format!("{gone}nothing was changed (--dry-run)\n")
    );
    daemon.stop();
    let offline = daemon.run("config rollback 3 -n");
    assert_eq!(offline, preview);
    let history = daemon.run("config history -H -o generation,in_force").out;
    assert_eq!(history.lines().last(), Some("4\tyes"));
    // An earlier generation is put in force in the folder itself, and the history tells by whom.
    assert_eq!(daemon.run("config rollback 3").code, 0);
    daemon.restart();
    let told = daemon
        .run("config history -H -o author,summary,command")
        .out;
    let last = format!(
        "{}\tmap vol1 (host esx, every target) removed\tsandstone config rollback 3",
        me()
    );
    assert_eq!(told.lines().last(), Some(last.as_str()));
}

#[test]
fn without_a_daemon_and_a_folder_the_history_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["config", "history"], None);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("no Sandstone daemon answers"),
        "{}",
        ran.err
    );
}
