//! Format features in labels: what an older program says of a newer pool, and what an upgrade enables.

use pages::Pages;
use serde_json::{Value, json};

use super::world::{self, DISK, World};
use crate::format::Label;
use crate::format::label::{COPIES, LABEL_SIZE};
use crate::pool::OpenErrorKind;
use crate::pool::features::{Feature, FeatureState};
use crate::pool::state::Limits;
use crate::vdev::{Kind, layout};

const BLOCK: usize = 4096;

fn written() -> World {
    let mut world = World::new(Kind::Mirror, 2, Limits::default());
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
