//! Tests of the configuration as a whole: shown, edited, applied, compared, imported, gone back to.

use std::path::PathBuf;

use super::daemon::{Daemon, run};

fn file(daemon: &Daemon, name: &str, text: &str) -> PathBuf {
    let path = daemon.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn what_is_shown_can_be_edited_and_applied_whole_or_not_at_all() {
    let daemon = Daemon::with_one_of_each();
    let shown = daemon.run("config show").out;
    let same = file(&daemon, "same.toml", &shown);
    assert_eq!(
        daemon.run(&format!("config diff {}", same.display())).code,
        0
    );
    let edited = file(
        &daemon,
        "edited.toml",
        &shown.replace("read_only = false", "read_only = true"),
    );
    let ran = daemon.run(&format!("config diff {}", edited.display()));
    let expected = "  ~ lu vol1\n      read_only  false -> true\n  ~ map vol1 (host esx, every target)\n      read_only  false -> true\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, expected));
    let plan = daemon.run(&format!("config plan {}", edited.display()));
    assert_eq!(
        (plan.code, plan.out),
        (0, format!("{expected}nothing was changed (--dry-run)\n"))
    );
    assert_eq!(
        daemon
            .run(&format!("config apply {}", edited.display()))
            .code,
        0
    );
    assert_eq!(daemon.run("map list -H -o access").out, "ro\n");
    let broken = file(
        &daemon,
        "broken.toml",
        &shown
            .replace("lun = 0", "lun = 99999")
            .replace("vol1", "vol2"),
    );
    let before = daemon.run("config show").out;
    let ran = daemon.run(&format!("config apply {}", broken.display()));
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("the file is not a configuration"),
        "{}",
        ran.err
    );
    assert_eq!(daemon.run("config show").out, before);
}

#[test]
fn applying_a_file_that_lacks_something_asks_first() {
    let daemon = Daemon::with_one_of_each();
    let empty = file(&daemon, "empty.toml", "");
    let line = format!("config apply {}", empty.display());
    let ran = daemon.run(&line);
    assert!(ran.code == 1 && ran.err.contains("  - lu vol1"), "{ran:?}");
    assert_eq!(daemon.run("lu list -H -o name").out, "vol1\n");
    assert_eq!(daemon.run(&format!("{line} --yes")).code, 0);
    assert_eq!(daemon.run("lu list -H").out, "");
}

#[test]
fn an_earlier_generation_comes_back_without_reusing_identities() {
    let daemon = Daemon::with_one_of_each();
    let naa = daemon.run("lu list -H -o naa").out;
    let kept = daemon.run("config history -H -o generation").out;
    assert_eq!(kept, "0\n1\n2\n3\n4\n");
    assert_eq!(daemon.run("lu delete vol1 -y").code, 0);
    assert_eq!(daemon.run("config rollback 4 -y").code, 0);
    assert_eq!(
        daemon.run("lu list -H -o naa").out,
        naa,
        "the same disk again"
    );
    assert_eq!(daemon.run("map list -H -o lu,lun").out, "vol1\t0\n");
    let ran = daemon.run("config rollback 77 -y");
    assert!(
        ran.code == 1 && ran.err.contains("generation 77 is not kept"),
        "{ran:?}"
    );
}

#[test]
fn a_damaged_configuration_is_mended_without_a_daemon() {
    let mut daemon = Daemon::with_one_of_each();
    daemon.stop();
    std::fs::write(daemon.folder.path().join("config.toml"), "torn").unwrap();
    let ran = daemon.run("config rollback 3 --yes");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out
            .contains("generation 3 is in force again as generation"),
        "{}",
        ran.out
    );
    daemon.restart();
    assert_eq!(daemon.run("lu list -H -o name").out, "vol1\n");
    assert_eq!(
        daemon.run("map list -H").out,
        "",
        "generation 3 had no map yet"
    );
}

#[test]
fn other_targets_configurations_are_imported() {
    let daemon = Daemon::start();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/src/import");
    let lio = format!("{sources}/lio/saveconfig.json");
    let ran = daemon.run(&format!("config import {lio}"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err
            .contains("note: storage object old was left out: Sandstone has no backend like pscsi"),
        "{}",
        ran.err
    );
    let summary = "2 of 3 devices, 1 of 2 targets, 1 host, 2 maps; left out: storage object old, target naa.5001405000000001\n";
    assert!(ran.err.ends_with(summary), "{}", ran.err);
    let dry = daemon.run(&format!("config import {lio} --apply --dry-run"));
    assert!(dry.err.ends_with(summary), "{dry:?}");
    let lines: Vec<_> = dry.out.lines().collect();
    // Two units, a target, a host and two maps have one line each. The last line says that nothing
    // was changed.
    assert_eq!(lines.len(), 7, "{dry:?}");
    assert!(lines[0].starts_with("  + lu "), "{dry:?}");
    let printed = file(&daemon, "lio.toml", &ran.out);
    assert_eq!(
        daemon
            .run(&format!("config apply {}", printed.display()))
            .code,
        0
    );
    assert_eq!(
        daemon.run("lu list -H -o name,naa").out,
        "vm1\tnaa.60014054b6d8f7e3f1a4d0e9a5c0f6f2\ndata_1\tnaa.60014050a1b2c3d11112222333344445\n"
    );
    let again = daemon.run(&format!("config import {lio} --apply"));
    assert!(
        again.code == 1 && again.err.contains("logical unit vm1 exists already"),
        "{again:?}"
    );
    let scst = run(
        daemon.folder.path(),
        &[
            "config",
            "import",
            &format!("{sources}/scst/scst.conf"),
            "--format",
            "scst",
        ],
        None,
    );
    assert!(
        scst.code == 0 && scst.out.contains("6e843b6aa1b2c3d4e5f60718293a4b5c"),
        "{scst:?}"
    );
}
