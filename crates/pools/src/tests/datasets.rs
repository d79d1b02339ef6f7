//! Tests of changes of datasets: all steps or none.

use super::super::Pools;
use super::super::dataset::Listing;
use super::super::served_datasets::Served;
use super::{create_volume, pattern, pools, request, with_volume, write};
use block::{BlockDevice as _, BlockErrorKind, Lane, Usage};
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{DatasetView, Selection};
use model::pool::vdev_request::VdevKind;
use model::{Error, ErrorKind};

fn set(names: &[&str], properties: &[(&str, &str)]) -> DatasetChange {
    let properties = properties
        .iter()
        .map(|(of, to)| (of.to_string(), to.to_string()));
    DatasetChange::Set {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        properties: properties.collect(),
        shrink: true,
    }
}

fn found(pools: &Pools, name: &str) -> DatasetView {
    let all = pools.datasets().into_iter();
    let mut named = all.filter(|of| of.name == name);
    named.next().expect("a dataset")
}

#[test]
fn a_pool_that_does_not_answer_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    create_volume(&pools, "tank/a", 32 << 20);
    assert_eq!(
        pools
            .listings(Some("tank"), &Selection::default())
            .expect("answers")
            .len(),
        1
    );
    for (_, pool) in pools.all() {
        pool.host.abandon();
    }
    let error = pools
        .listings(Some("tank"), &Selection::default())
        .expect_err("it is over");
    assert_ne!(error.kind, ErrorKind::NotFound, "{error}");
    let error = pools
        .listings(Some("pond"), &Selection::default())
        .expect_err("no such pool");
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}

#[test]
fn all_datasets_are_set_or_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    create_volume(&pools, "tank/a", 32 << 20);
    let compression = |name: &str| {
        let dataset = found(&pools, name);
        let mut properties = dataset.properties.into_iter();
        let property = properties.find(|of| of.name == "compression");
        property.expect("a property").value
    };
    let change = set(&["tank/a", "tank/b"], &[("compression", "zstd")]);
    pools.change(&change).expect_err("no tank/b");
    assert_eq!(compression("tank/a"), "on");
    create_volume(&pools, "tank/b", 32 << 20);
    pools.change(&change).expect("both");
    assert_eq!(
        [compression("tank/a"), compression("tank/b")],
        ["zstd", "zstd"]
    );
}

#[test]
fn what_fits_for_each_and_not_for_all_is_set_for_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    for name in ["tank/a", "tank/b"] {
        create_volume(&pools, name, 64 << 20);
    }
    let change = set(&["tank/a", "tank/b"], &[("refreservation", "64M")]);
    let error = pools.change(&change).expect_err("there is room for one");
    assert!(error.message.contains("would reserve 1"), "{error}");
    let reserved = |name: &str| {
        let properties = found(&pools, name).properties.into_iter();
        let mut named = properties.filter(|of| of.name == "refreservation");
        named.next().expect("a property").value
    };
    assert_eq!([reserved("tank/a"), reserved("tank/b")], ["none", "none"]);
    let change = set(&["tank/a"], &[("refreservation", "64M")]);
    pools.change(&change).expect("one fits");
}

#[test]
fn a_volume_gets_the_block_size_that_suits_its_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Raidz1, 3);
    pools.create(&request).expect("a pool");
    let create = |name: &str, block_size| DatasetChange::Create {
        name: name.to_owned(),
        size: Some(32 << 20),
        block_size,
        sparse: true,
        parents: false,
        properties: [].into(),
    };
    let told = pools.change(&create("tank/a", None)).expect("made").notices;
    assert_eq!(told, [""; 0]);
    assert_eq!(found(&pools, "tank/a").block_size, Some(64 << 10));
    let told = pools.change(&create("tank/b", Some(4096))).expect("made");
    assert!(told.notices[0].contains("75 %"), "{told:?}");
    assert!(told.notices[0].contains("volblocksize=16K"), "{told:?}");
}

#[test]
fn what_would_be_destroyed_is_told_and_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    create_volume(&pools, "tank/a", 32 << 20);
    let mut lane = Lane::standing().expect("a lane");
    let volume = pools.open_volume("tank/a", 512).expect("opens");
    write(&volume, &mut lane, 0, &pattern(1 << 20, 3), true);
    let snapshot = DatasetChange::Snapshot {
        names: vec!["tank/a@1".to_owned()],
        recursive: false,
        properties: [].into(),
    };
    pools.change(&snapshot).expect("a snapshot");
    let clone = DatasetChange::Clone {
        snapshot: "tank/a@1".to_owned(),
        name: "tank/c".to_owned(),
        parents: false,
        properties: [].into(),
    };
    pools.change(&clone).expect("a clone");
    let destroy = |clones| DatasetChange::Destroy {
        names: vec!["tank/a".to_owned()],
        recursive: true,
        clones,
    };
    let served = Served::by("vm1", "tank/c");
    let error = pools
        .preview(&destroy(false), &served)
        .expect_err("a clone");
    assert!(error.message.contains("tank/c"), "{error}");
    let told = pools
        .preview(&destroy(true), &served)
        .expect("told")
        .destroyed;
    let told = told.iter().map(|of| (of.name.as_str(), of.units.len()));
    let expected = [("tank/a", 0), ("tank/a@1", 0), ("tank/c", 1)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(pools.datasets().len(), 4);
}

#[test]
fn a_value_that_is_refused_leaves_the_size_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    create_volume(&pools, "tank/a", 32 << 20);
    let change = set(&["tank/a"], &[("volsize", "16M"), ("compression", "bogus")]);
    pools.change(&change).expect_err("no such compression");
    assert_eq!(found(&pools, "tank/a").size, Some(32 << 20));
    let change = set(&["tank/a"], &[("volsize", "16M"), ("compression", "zstd")]);
    pools.change(&change).expect("set");
    assert_eq!(found(&pools, "tank/a").size, Some(16 << 20));
}

/// The fault of the issue: a user who listed two columns was sent thirty properties of each
/// dataset, snapshots included.
#[test]
fn a_listing_tells_what_is_asked_for_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    create_volume(&pools, "tank/a", 32 << 20);
    let snapshot = DatasetChange::Snapshot {
        names: vec!["tank/a@one".to_owned()],
        recursive: false,
        properties: [("org.test:by".to_owned(), "me".to_owned())].into(),
    };
    pools.change(&snapshot).expect("a snapshot");
    let listed = |kinds: Option<&[&str]>, properties: Option<&[&str]>| -> Vec<DatasetView> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let selection = Selection {
            kinds: kinds.map(owned),
            properties: properties.map(owned),
            ..Selection::default()
        };
        let listings = pools.listings(Some("tank"), &selection).expect("answers");
        let views = |of: Listing| of.into_views(selection.clone());
        listings.into_iter().flat_map(views).collect()
    };
    let names = |all: &[DatasetView]| all.iter().map(|of| of.name.clone()).collect::<Vec<_>>();
    let all = listed(None, None);
    assert_eq!(names(&all), ["tank", "tank/a", "tank/a@one"]);
    let some = listed(
        Some(&["volume"]),
        Some(&["used", "compression", "org.test:by"]),
    );
    assert_eq!(names(&some), ["tank/a"]);
    // The requested properties are as in the full listing. Nobody has set the third one.
    let mut of_volume = all[1].properties.clone();
    of_volume.retain(|property| ["used", "compression"].contains(&property.name.as_str()));
    assert_eq!(of_volume.len(), 2);
    assert_eq!(some[0].properties, of_volume);
    assert_eq!((some[0].size, some[0].used), (all[1].size, all[1].used));
    let set = listed(Some(&["snapshot"]), Some(&["org.test:by"]));
    assert_eq!(set[0].properties.len(), 1);
    assert!(
        listed(None, Some(&[]))
            .iter()
            .all(|of| of.properties.is_empty())
    );
}

#[test]
fn a_listing_begins_at_a_dataset_and_ends_at_a_depth() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = pools(folder.path());
    let request = request(folder.path(), VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    let made = DatasetChange::Create {
        name: "tank/vms".to_owned(),
        size: None,
        block_size: None,
        sparse: false,
        parents: false,
        properties: Default::default(),
    };
    pools.change(&made).expect("a folder");
    create_volume(&pools, "tank/vms/a", 32 << 20);
    create_volume(&pools, "tank/b", 32 << 20);
    let snapshot = DatasetChange::Snapshot {
        names: vec!["tank/vms/a@one".to_owned(), "tank/b@one".to_owned()],
        recursive: false,
        properties: Default::default(),
    };
    pools.change(&snapshot).expect("snapshots");
    let listed = |pool: Option<&str>, below: Option<&str>, depth: Option<u32>| {
        let selection = Selection {
            below: below.map(str::to_owned),
            depth,
            ..Selection::default()
        };
        let listings = pools.listings(pool, &selection)?;
        let views = |of: Listing| of.into_views(selection.clone());
        let views = listings.into_iter().flat_map(views);
        Ok::<_, Error>(views.map(|of| (of.name, of.used)).collect::<Vec<_>>())
    };
    let names = |pool, below, depth| {
        let all = listed(pool, below, depth).expect("a listing");
        all.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(None, Some("tank/vms"), None),
        ["tank/vms", "tank/vms/a", "tank/vms/a@one"]
    );
    assert_eq!(names(None, Some("tank/vms"), Some(0)), ["tank/vms"]);
    assert_eq!(
        names(None, Some("tank/b"), Some(1)),
        ["tank/b", "tank/b@one"]
    );
    assert_eq!(names(None, Some("tank/b@one"), None), ["tank/b@one"]);
    assert_eq!(
        names(Some("tank"), None, Some(1)),
        ["tank", "tank/b", "tank/vms"]
    );
    // The figures are those of the whole listing.
    let whole = listed(None, None, None).expect("a listing");
    for (name, used) in &whole {
        let alone = listed(None, Some(name), Some(0)).expect("a listing");
        assert_eq!(alone, [(name.clone(), *used)]);
    }
    let error = listed(None, Some("tank/c"), None).expect_err("no such dataset");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("tank/c"), "{error}");
    let error = listed(Some("pond"), Some("tank/b"), None).expect_err("two pools");
    assert_eq!(error.kind, ErrorKind::Invalid);
}

/// Answers that were asked for together are waited for later, in any order.
#[test]
fn a_condition_is_that_of_the_moment_when_it_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = (VdevKind::Disk, 1);
    let (pools, volume) = with_volume(folder.path(), place, 1 << 20, 4096);
    let first = volume.ask_condition();
    let change = set(&["tank/a"], &[("readonly", "on"), ("volsize", "2M")]);
    pools.change(&change).expect("set");
    let second = volume.ask_condition();
    assert!(!volume.is_read_only(), "nothing was waited for");
    let (second, first) = (second(), first());
    assert!(
        volume.is_read_only(),
        "an older answer replaced a newer one"
    );
    assert_eq!(volume.geometry().len, 1 << 20, "it is not refreshed");
    assert_eq!(volume.refresh().expect("it answers").len, 2 << 20);
    for condition in [first, second] {
        assert_eq!(condition.suspension, None);
        assert_eq!(condition.lost_writes, None);
        let usage = condition.usage.expect("it answers");
        // A checkpoint may change the space that is available.
        let capacity = |usage: Usage| usage.pool.map(|pool| pool.capacity);
        let now = volume.usage().expect("it answers");
        assert_eq!(capacity(usage), capacity(now));
        assert_eq!(usage.allocated, now.allocated);
    }
    let third = volume.ask_condition();
    pools.close();
    assert!(third().usage.is_ok(), "it was asked before the end");
    let gone = volume.ask_condition()();
    let error = gone.usage.expect_err("the pool is closed");
    assert_eq!(error.kind(), BlockErrorKind::Gone);
    assert_eq!((gone.suspension, gone.lost_writes), (None, None));
}
