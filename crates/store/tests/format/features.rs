//! Images of each combination of format features, on a single disk, a mirror and a raidz. Each
//! always opens, by the engine and by the reader that was written from the document. They lie in
//! one file. `cargo test -p store --test format -- --ignored make_images_of_features` makes it,
//! with equal bytes each time.

use serde_json::{Value, json};
use store::engine::PoolConfig;
use store::engine::features::{Feature, FeatureState, Need};
use store::format::label::LABEL_SIZE;
use store::vdev::layout::label_offset;
use store::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec};

use super::disks::{self, Disk};
use super::engine::{FIRST_GUID, MEMORY, World, new_config};
use super::reader::{self, labels};
use super::same;
use super::story::{Step, What, expected_of};

const IMAGES: &[u8] = include_bytes!("features.images.zst");

/// Size of the smallest disk whose vdev has inner labels.
const LEAF: u64 = 34 << 20;

const SHAPES: [(TopLevelKind, u64); 3] = [
    (TopLevelKind::Leaf, 1),
    (TopLevelKind::Mirror, 2),
    (TopLevelKind::Raidz { parity: 1 }, 3),
];

const ONCE: &[(&str, &str)] = &[];
const TWICE: &[(&str, &str)] = &[("copies", "2")];

/// Returns the story of an image. Steps behind the last checkpoint are in the log.
const fn story(properties: &'static [(&'static str, &'static str)]) -> [Step; 7] {
    [
        Step::Volume {
            name: "a",
            size: 128 << 10,
            block_size: 4096,
            properties,
        },
        write(0, What::Text),
        Step::Checkpoint,
        Step::Snapshot { names: &["a@x"] },
        write(1, What::Noise),
        Step::Checkpoint,
        write(7, What::Text),
    ]
}

/// Step that happens when the image was opened.
const LATER: Step = write(20, What::Noise);

const fn write(block: u64, what: What) -> Step {
    Step::Write {
        name: "a",
        block,
        count: 2,
        what,
    }
}

/// A combination of features.
#[derive(Clone, Copy, Debug)]
struct Set(usize);

impl Set {
    fn all() -> impl Iterator<Item = (Self, (TopLevelKind, u64))> {
        let sets = (0..1 << Feature::ALL.len()).map(Self);
        sets.flat_map(|set| SHAPES.map(|shape| (set, shape)))
    }

    fn has(self, feature: Feature) -> bool {
        let place = Feature::ALL.iter().position(|of| *of == feature);
        place.is_some_and(|place| self.0 >> place & 1 == 1)
    }

    fn story(self) -> [Step; 7] {
        match self.has(Feature::TwoCopies) {
            true => story(TWICE),
            false => story(ONCE),
        }
    }

    /// Returns the configuration of a pool that has these features active, and enables no other.
    fn config(self, (kind, count): (TopLevelKind, u64)) -> PoolConfig {
        let leaves = (FIRST_GUID..).take(count as usize);
        let leaves = leaves.map(|guid| LeafSpec::new(guid, LEAF));
        let top = TopLevelSpec::new(kind, Class::Normal, leaves);
        let top = match self.has(Feature::InnerLabels) {
            true => top.with_inner_labels(),
            false => top,
        };
        let encoded = new_config(vec![top]).encode();
        let mut config: Value = serde_json::from_slice(&encoded).expect("JSON");
        let names = |need: Need| {
            let own = Feature::ALL.into_iter();
            let own = own.filter(|of| self.has(*of) && of.need() == need);
            own.map(Feature::name).collect::<Vec<_>>()
        };
        config["features"] = json!({"read": names(Need::Read), "write": names(Need::Write)});
        if self.has(Feature::Reguid) {
            config["key_guid"] = json!("00c0ffee00c0ffee");
        }
        if self.has(Feature::Multihost) {
            config["properties"] = json!({"multihost": "on"});
        }
        PoolConfig::decode(&serde_json::to_vec(&config).expect("JSON")).expect("a configuration")
    }

    fn make(self, shape: (TopLevelKind, u64)) -> Vec<Disk> {
        let mut world = World::of_config(self.config(shape), LEAF, MEMORY);
        for (number, step) in self.story().iter().enumerate() {
            world.follow(number, step);
        }
        world.into_disks()
    }
}

/// Returns each image, with its features and its shape.
fn images() -> impl Iterator<Item = (Set, (TopLevelKind, u64), Vec<Disk>)> {
    let mut disks = disks::unpack_most(IMAGES, 1 << 28).into_iter();
    Set::all().map(move |(set, shape)| {
        let own = disks.by_ref().take(shape.1 as usize).collect();
        (set, shape, own)
    })
}

#[test]
fn each_combination_of_features_is_read_scrubbed_written_exported_and_upgraded() {
    for (set, shape, disks) in images() {
        let told = format!("{set:?} on {shape:?}");
        eprintln!("{told}");
        let mut steps = set.story().to_vec();
        let found = reader::read(&disks);
        same(&found.datasets, &expected_of(&steps));
        assert_eq!(found.in_use, found.reached, "{told}");

        let mut world = World::open(disks);
        for feature in Feature::ALL {
            let is_active = world.pool.config().features.is_active(feature);
            assert_eq!(is_active, set.has(feature), "{told}: {feature:?}");
        }
        same(&world.contents(), &expected_of(&steps));
        // The remaining steps use one of the shapes for each set: the shapes take turns.
        if SHAPES[set.0 % SHAPES.len()] != shape {
            continue;
        }
        world.scrub();
        world.follow(steps.len(), &LATER);
        steps.push(LATER);
        world.pool.set_exported(true, "elsewhere");
        world.sync();

        let mut world = World::open(world.into_disks());
        assert!(world.pool.config().is_exported, "{told}");
        same(&world.contents(), &expected_of(&steps));
        world.pool.enable_features();
        world.sync();
        let disks = world.into_disks();
        same(&reader::read(&disks).datasets, &expected_of(&steps));
        let mut world = World::open(disks);
        for feature in Feature::ALL {
            let state = world.pool.config().features.state(feature);
            assert_ne!(state, FeatureState::Disabled, "{told}: {feature:?}");
        }
        same(&world.contents(), &expected_of(&steps));
    }
}

/// Sections 1 and 2: if no label at the ends is left, the inner labels replace them.
#[test]
fn the_reader_finds_a_pool_by_its_inner_labels_alone() {
    let all = images().filter(|(set, ..)| set.has(Feature::InnerLabels));
    // Other features make no difference here.
    let with_inner = all.skip(15 * SHAPES.len()).take(SHAPES.len());
    for (set, _, mut disks) in with_inner {
        for disk in &mut disks {
            for copy in 0..4 {
                let at = label_offset(copy, disk.size).expect("a leaf");
                disk.write(at, &vec![0xee; LABEL_SIZE]);
            }
        }
        let found = labels::find(&disks);
        assert_eq!(found.config["name"], "image");
        same(&reader::read(&disks).datasets, &expected_of(&set.story()));
    }
}

#[test]
#[ignore = "makes the images anew"]
fn make_images_of_features() {
    let disks: Vec<Disk> = Set::all()
        .flat_map(|(set, shape)| set.make(shape))
        .collect();
    let packed = disks::pack(&disks);
    assert!(disks::unpack_most(&packed, 1 << 28) == disks);
    let place = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/format/features.images.zst"
    );
    std::fs::write(place, packed).expect("the images are written");
}
