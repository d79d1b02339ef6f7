//! Sweep over the properties of the volume beneath the measured unit.

use testing::wait;

use super::Bench;
use crate::served::{TARGET, free_portal};

/// Returns the value of a volume's property, and its source.
fn property(bench: &Bench, name: &str) -> String {
    let shown = format!("volume get -H -o value,source {name} tank/vm");
    bench.process.done(&shown).trim().to_owned()
}

#[test]
fn properties_are_turned_and_put_back() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    bench.process.done("volume set compression=zstd tank/vm");
    let names = [
        "sync",
        "checksum",
        "compression",
        "primarycache",
        "refreservation",
    ];
    let before = names.map(|name| property(&bench, name));
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --ramp-up 0 -q 2 --repeat 2",
        bench.portal
    );
    let knobs = "-k sync=standard,always -k checksum=on,off -k compression=lz4,off -k primarycache=all,none \
                 -k thin=yes,no --save sweep.json";
    bench.process.done(&format!("{sweep} {knobs}"));
    assert_eq!(names.map(|name| property(&bench, name)), before);
    let saved = std::fs::read_to_string(bench.process.folder().join("sweep.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved["runs"].as_array().unwrap().len(), 12);
    assert_eq!(
        saved["failed"],
        serde_json::Value::Null,
        "nothing was refused"
    );
}

#[test]
fn what_the_pool_refuses_is_left_out() {
    let bench = Bench::new("--size 512M a");
    // More than the pool could ever keep for it.
    bench.process.done("volume create -s -V 4G tank/vm");
    bench.unit(0, "vm --volume tank/vm");
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --ramp-up 0 --repeat 2",
        bench.portal
    );
    let told = bench.process.done(&format!("{sweep} -k thin=yes,no"));
    assert!(told.contains("thin=no: left out: "), "{told}");
}

#[test]
fn what_cannot_be_turned_says_what_to_do() {
    let bench = Bench::new("--size 256M a");
    bench.unit(0, "vm --memory --size 16M");
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --repeat 1",
        bench.portal
    );
    let told = bench.process.refused(&format!("{sweep} -k sync"));
    assert!(told.contains("is not on a volume"), "{told}");
    let told = bench
        .process
        .refused(&format!("{sweep} -k volblocksize=8K,16K"));
    assert!(told.contains("is not on a volume"), "{told}");
    let told = bench
        .process
        .refused(&format!("{sweep} -k volblocksize -k write_cache"));
    assert!(told.contains("sweep over one knob, then"), "{told}");
    let other = crate::process::Process::start();
    let told = other.refused(&format!("{sweep} -k sync"));
    assert!(told.contains("serves no unit naa."), "{told}");
}

/// Returns the listings of all datasets, units and maps.
fn everything(bench: &Bench) -> String {
    let verbs = [
        "volume list -H -o name,volsize",
        "lu list -H -o name",
        "map list -H",
    ];
    verbs.map(|verb| bench.process.done(verb)).concat()
}

#[test]
fn a_volume_of_each_block_size_is_made_measured_and_removed() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    bench.process.done("volume set compression=off tank/vm");
    let before = everything(&bench);
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 8K --reads 0 --random 100 --working-set 1M --time 20ms \
         --ramp-up 0 -q 2 --repeat 2 --save sweep.json",
        bench.portal
    );
    // The workload writes, but not to the unit: the user need not agree to losing its content.
    let knobs = "-k volblocksize=8K,64K -k sync=disabled,always";
    bench.process.done(&format!("{sweep} {knobs}"));
    assert_eq!(everything(&bench), before, "all that was made is gone");
    let allocated = bench
        .process
        .done("volume get -H -o value -p referenced tank/vm");
    assert_eq!(allocated.trim(), "0", "the measured unit was left alone");
    let saved = std::fs::read_to_string(bench.process.folder().join("sweep.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let runs = saved["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6, "three settings, two rounds");
    assert_eq!(saved["failed"], serde_json::Value::Null);
    assert!(runs.iter().all(|run| run["parameters"]["fill"] == false));
}

#[test]
fn what_a_killed_sweep_left_is_named_and_not_taken_for_new() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    bench
        .process
        .done("volume create -s -V 64M tank/vm-sweep-16k");
    let before = everything(&bench);
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --repeat 1 -k volblocksize=8K,16K",
        bench.portal
    );
    let told = bench.process.refused(&sweep);
    assert!(told.contains("a volume with volblocksize=16K"), "{told}");
    assert!(
        told.contains("sandstone volume destroy tank/vm-sweep-16k"),
        "{told}"
    );
    assert_eq!(
        everything(&bench),
        before,
        "what was made for 8K is gone, the other is not ours"
    );
}

#[test]
fn a_unit_that_has_the_name_already_is_not_removed() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    bench.unit(1, "vm-sweep-16k --memory --size 1M");
    let before = everything(&bench);
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --repeat 1 -k volblocksize=8K,16K",
        bench.portal
    );
    let told = bench.process.refused(&sweep);
    assert!(told.contains("a volume with volblocksize=16K"), "{told}");
    assert_eq!(everything(&bench), before, "it is somebody else's");
}

#[test]
fn nothing_is_filled_but_the_volumes_that_were_made() {
    let bench = Bench::new("--size 512M a");
    let naa = "6e000000000000010000000000000001";
    bench.unit(0, &format!("vm --size 64M --naa {naa}"));
    // Another daemon shows the unit, as the second head of a cluster does, but lacks this daemon's
    // objects.
    let other = crate::process::Process::start();
    let portal = free_portal();
    other.done(&format!("target create {TARGET} --portal {portal}"));
    other.done(&format!("lu create vm --memory --size 64M --naa {naa}"));
    other.done("lu create precious --memory --size 64M");
    other.done("map add vm --every-host --lun 0");
    other.done("map add precious --every-host --lun 2");
    let before = everything(&bench);
    let sweep = format!(
        "bench sweep iscsi://{portal}/{TARGET}/0 --block 4K --time 20ms --repeat 1 -k volblocksize=8K,16K"
    );
    let told = bench.process.refused(&sweep);
    assert!(told.contains("the unit opened as"), "{told}");
    assert_eq!(everything(&bench), before);
    let lus: serde_json::Value =
        serde_json::from_str(&other.done("lu list precious --json")).unwrap();
    assert_eq!(lus[0]["status"]["writes"], 0, "{lus}");
}

#[test]
fn a_pool_is_not_filled_to_the_brim_for_a_sweep() {
    let bench = Bench::new("--size 512M a");
    bench.process.done("volume create -s -V 1G tank/vm");
    bench.unit(0, "vm --volume tank/vm");
    let before = everything(&bench);
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --repeat 1 -k volblocksize=8K,16K",
        bench.portal
    );
    let told = bench.process.refused(&sweep);
    assert!(
        told.contains("would fill 1G for each of 2 values"),
        "{told}"
    );
    assert_eq!(everything(&bench), before);
}

/// Starts a sweep, waits until it has changed this knob in the output of `shown`, and kills it.
fn killed(bench: &Bench, knob: &str, shown: &str, is_turned: impl Fn(&str) -> bool) {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sandstone"))
        .arg("--state")
        .arg(bench.process.folder())
        .args([
            "bench",
            "sweep",
            &format!("iscsi://{}/{TARGET}/0", bench.portal),
        ])
        .args(["--block", "4K", "--time", "1h", "-k", knob])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let shown = || bench.process.done(shown);
    wait::until_seen("it is turned", shown, |told| is_turned(told));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_a_killed_sweep_turned_is_put_back_by_the_next_command() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    bench.process.done("volume set compression=zstd tank/vm");
    let names = ["sync", "compression"];
    let before = names.map(|name| property(&bench, name));
    let get = "volume get -H -o value sync,compression tank/vm";
    killed(&bench, "sync=always,disabled", get, |told| {
        !told.contains("standard")
    });
    let run = format!(
        "bench run iscsi://{}/{TARGET}/0 --block 4K --time 20ms --ramp-up 0",
        bench.portal
    );
    let told = bench.process.done(&run);
    assert!(
        told.contains("a sweep that was killed left changed properties"),
        "{told}"
    );
    assert_eq!(names.map(|name| property(&bench, name)), before);
    // The command reports it once.
    let told = bench.process.done(&run);
    assert!(!told.contains("was killed"), "{told}");
}

#[test]
fn what_a_killed_sweep_made_is_removed_by_the_next_command() {
    let bench = Bench::new("--size 512M a");
    bench.unit(0, "vm --size 64M");
    let before = everything(&bench);
    killed(&bench, "volblocksize=8K,64K", "map list -H", |told| {
        ["vm-sweep-8k", "vm-sweep-64k"]
            .iter()
            .all(|made| told.contains(made))
    });
    let sweep = format!(
        "bench sweep iscsi://{}/{TARGET}/0 --block 4K --time 20ms --ramp-up 0 --repeat 1 -k outstanding=1,2",
        bench.portal
    );
    let told = bench.process.done(&sweep);
    assert!(
        told.contains("left volume tank/vm-sweep-8k and lu"),
        "{told}"
    );
    assert_eq!(everything(&bench), before);
}
