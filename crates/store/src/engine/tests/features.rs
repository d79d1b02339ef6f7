//! Format features in labels: what an older program says of a newer pool, and what an upgrade
//! enables.

use std::sync::Arc;

use pages::Pages;
use serde_json::{Value, json};

use super::world::{self, DISK, World};
use crate::cache::Cache;
use crate::engine::features::{Feature, FeatureState};
use crate::engine::limits::Limits;
use crate::engine::{OpenErrorKind, Pool, PoolConfig};
use crate::format::Epoch;
use crate::format::Label;
use crate::format::label::{COPIES, LABEL_SIZE};
use crate::vdev::{self, Class, Dtl, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree, layout};

const BLOCK: usize = 4096;

fn written() -> World {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let volume = world.create_volume("v", 1 << 20, BLOCK as u32);
    world.write(volume, 0, &[7; BLOCK], true);
    world.checkpoint();
    world
}

/// Changes the configuration in all labels, as another program would have written it.
fn rewrite(world: &mut World, change: impl Fn(&mut Value)) {
    for disk in &mut world.disks {
        for copy in 0..COPIES {
            let at = layout::label_offset(copy, DISK).expect("a leaf");
            let mut label = Label::read(&world::read(disk, at, LABEL_SIZE)).expect("a label");
            let mut config = serde_json::from_slice(&label.config).expect("JSON");
            change(&mut config);
            label.config = serde_json::to_vec(&config).expect("JSON");
            world::write(disk, at, &Pages::from_bytes(&label.encode()));
        }
    }
}

#[test]
fn a_pool_with_a_feature_that_reading_needs_says_which_and_stays_as_it_is() {
    let mut world = written();
    rewrite(&mut world, |config| {
        config["features"]["read"] = json!(["signposts", "telepathy"]);
        // Such a feature may change anything else.
        config["thoughts"] = json!([1, 2, 3]);
        config["vdevs"] = json!("in the mind");
    });
    let before = world.disks.clone();
    let error = world.reopen().expect_err("it is not understood");
    assert_eq!(error.kind, OpenErrorKind::Version);
    assert!(error.context.contains("feature telepathy"), "{error}");
    assert!(error.context.contains("Nothing was changed"), "{error}");
    assert!(world.disks == before);
}

#[test]
fn a_pool_with_a_feature_that_only_writing_needs_can_be_examined_and_not_opened_for_writing() {
    let mut world = written();
    rewrite(&mut world, |config| {
        config["features"]["write"] = json!(["clairvoyance"]);
        config["visions"] = json!({"of": "the future"});
    });
    let before = world.disks.clone();
    let error = world.reopen().expect_err("it would be written");
    assert_eq!(error.kind, OpenErrorKind::ReadOnlyVersion);
    assert!(error.context.contains("feature clairvoyance"), "{error}");
    assert!(world.disks == before);
    let mut examined = world.examine().expect("it can be read");
    examined.only_read();
    world.crash_to(examined).expect("opens to be read");
}

#[test]
fn a_field_that_no_feature_explains_is_refused() {
    let mut world = written();
    rewrite(&mut world, |config| config["visions"] = json!(1));
    let error = world.examine().expect_err("nobody explains it");
    assert!(error.context.contains("visions"), "{error}");
}

#[test]
fn enabled_features_of_other_programs_outlive_a_change_of_the_labels() {
    let mut world = written();
    rewrite(&mut world, |config| {
        config["features"]["enabled"] = json!(["telepathy"]);
    });
    world.reopen().expect("nothing of it lies there");
    world.pool.set_paths([(100, "/there".to_owned())].into());
    world.checkpoint();
    let config = world.examine().expect("labels").config;
    let kept: Vec<&str> = config.features.unknown_enabled().collect();
    assert_eq!(kept, ["telepathy"]);
}

/// Paths are left out of labels if they do not fit. The configuration without paths has a bound,
/// which is checked before.
#[test]
fn a_configuration_that_labels_have_no_room_for_is_refused_and_never_written() {
    let mut world = written();
    let paths = (100..160).map(|leaf| (leaf, format!("/{}", "p".repeat(4000))));
    world.pool.set_paths(paths.collect());
    world.checkpoint();
    world.reopen().expect("opens");
    assert!(world.pool.config().paths.is_empty());

    let leaf = |number: u64| LeafSpec::new(1000 + number, DISK);
    let top = |number| TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf(number)]);
    let tops: Vec<TopLevelSpec> = (0..600).map(top).collect();
    let before = world.pool.config().clone();
    for (tops, caches) in [
        (tops.clone(), vec![]),
        (vec![], (0..600).map(leaf).collect()),
    ] {
        let error = world.pool.add_all(&tops, &caches).expect_err("too many");
        assert!(
            error.to_string().contains("more devices than its labels"),
            "{error}"
        );
    }
    assert!(world.pool.require_label_room(600).is_err());
    assert_eq!(world.pool.config(), &before);
    let config = PoolConfig::new("wide", 1, 2, "here", VdevTree { top_levels: tops });
    let (limits, cache) = (Limits::default(), Arc::new(Cache::new(1 << 20, 7)));
    let wide = Pool::create(config, 5, 0, limits, vdev::Limits::default(), cache);
    assert!(
        wide.expect_err("too many")
            .context
            .contains("more devices than its labels")
    );
}

/// Nobody can refuse a disk that fails: a pool stops before its labels are wrong.
#[test]
fn a_configuration_that_outgrows_its_label_stops_the_pool() {
    let mut world = written();
    let leaf = world.pool.config.spares.len() as u64;
    let ranges = (1..20_000).map(|at| (Epoch(at * 4), Epoch(at * 4 + 1)));
    let mut spare = LeafSpec::new(900 + leaf, DISK);
    spare.missing = Dtl::from_ranges(ranges);
    world.pool.add_spares([spare]);
    world.settle();
    let suspended = world.pool.status().suspended.expect("it stopped");
    assert!(suspended.contains("labels have no room"), "{suspended}");
}

#[test]
fn a_pool_from_before_there_were_features_opens_and_an_upgrade_enables_all() {
    let mut world = written();
    rewrite(&mut world, |config| {
        config
            .as_object_mut()
            .expect("an object")
            .remove("features");
    });
    world.reopen().expect("opens");
    for feature in Feature::ALL {
        let state = world.pool.config().features.state(feature);
        assert_eq!(state, FeatureState::Disabled, "{feature:?}");
    }
    world.pool.enable_features();
    world.checkpoint();
    world.reopen().expect("opens");
    for feature in Feature::ALL {
        let state = world.pool.config().features.state(feature);
        assert_ne!(state, FeatureState::Disabled, "{feature:?}");
    }
}
