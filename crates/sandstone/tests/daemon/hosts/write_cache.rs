//! A sweep changes the write cache of another machine's unit and then restores it.

use initiator::write_cache::WriteCache;

use super::{back, run};
use crate::served::TARGET;

#[test]
fn a_sweep_turns_the_write_cache_and_puts_it_back() {
    let back = back();
    let url = format!("iscsi://{}/{TARGET}/0", back.portal);
    let cache = WriteCache::of(&url).unwrap();
    assert!(!cache.is_on().unwrap(), "as the unit was configured");
    cache.turn(true).unwrap();
    assert!(cache.is_on().unwrap());
    cache.turn(true).unwrap();
    let saved = back.folder().join("sweep.json");
    let sweep = format!(
        "bench sweep {url} --destroy-data --block 4K --reads 0 --time 50ms --ramp-up 0 \
         -k write_cache --repeat 3 -H -o setting,figure --save {}",
        saved.display()
    );
    let said = run(back.folder(), &sweep).good();
    assert!(said.contains("write_cache=on\tiops\n"), "{said}");
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let runs = saved["runs"].as_array().unwrap();
    let with = |value: &str| {
        let is_so = |run: &&serde_json::Value| run["settings"]["write_cache"] == value;
        runs.iter().filter(is_so).count()
    };
    assert_eq!((with("off"), with("on")), (3, 3));
    assert!(cache.is_on().unwrap(), "as it was before the sweep");
    cache.turn(false).unwrap();
    run(back.folder(), &sweep).good();
    assert!(!cache.is_on().unwrap(), "as it was before the sweep");
}

#[test]
fn a_write_cache_that_cannot_be_reached_is_told_before_anything_is_run() {
    let back = back();
    let url = format!("iscsi://{}/{TARGET}/0", back.portal);
    let sweep = format!("bench sweep {url} --block 4K -k write_cache=maybe");
    let said = run(back.folder(), &sweep).bad();
    assert!(said.contains("choose on or off"), "{said}");
    let sweep = "bench sweep memory:16M --block 4K -k write_cache";
    let said = run(back.folder(), sweep).bad();
    assert!(said.contains("there is no knob write_cache"), "{said}");
    let absent = format!("iscsi://{}/{TARGET}/9", back.portal);
    let answer = WriteCache::of(&absent).unwrap().is_on();
    let said = answer.unwrap_err().to_string();
    assert!(said.contains("MODE SENSE of the write cache"), "{said}");
}
