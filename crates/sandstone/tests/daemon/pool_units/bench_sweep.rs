//! A sweep over the properties of the volume beneath the measured unit.

use super::Bench;
use crate::served::TARGET;

/// A property of a volume, and where its value comes from.
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
    assert!(told.contains("lies on no volume"), "{told}");
    let told = bench
        .process
        .refused(&format!("{sweep} -k volblocksize=8K,16K"));
    assert!(told.contains("volume create -V SIZE -b"), "{told}");
    let other = crate::process::Process::start();
    let told = other.refused(&format!("{sweep} -k sync"));
    assert!(told.contains("serves no unit naa."), "{told}");
}
