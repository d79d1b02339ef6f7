//! The knobs of a volume in Sandstone's own pools, under the names of its properties. They are
//! changed at the daemon that serves the measured unit, and restored at the end. For a property
//! that is fixed at creation, new volumes are created.

use super::knob::{Commands, Knob, Names, Setup};

/// Knob that is a property of the volume.
struct VolumeKnob {
    name: &'static str,
    about: &'static str,
    property: &'static str,
    /// Values as the user names them, each with the value of the property.
    values: &'static [(&'static str, &'static str)],
    /// Number of these values that are tried if the user names none.
    tried: usize,
}

/// Lists all knobs of volumes.
pub fn volume_knobs() -> impl Iterator<Item = Box<dyn Knob>> {
    KNOWN.iter().map(|knob| Box::new(knob) as Box<dyn Knob>)
}

/// Property that is fixed when a volume is created.
pub const MADE_WITH: &str = "volblocksize";
/// Properties that a volume created for a sweep copies from the measured one, if set there.
pub const PROPERTIES: [&str; 4] = ["sync", "checksum", "compression", "primarycache"];

const KNOWN: &[VolumeKnob] = &[
    VolumeKnob {
        name: "sync",
        about: "when the volume makes writes durable (sync)",
        property: "sync",
        values: &[
            ("standard", "standard"),
            ("always", "always"),
            ("disabled", "disabled"),
        ],
        tried: 3,
    },
    VolumeKnob {
        name: "checksum",
        about: "checksum of new blocks of the volume",
        property: "checksum",
        values: &[
            ("on", "on"),
            ("off", "off"),
            ("blake3", "blake3"),
            ("xxh3", "xxh3"),
        ],
        tried: 3,
    },
    VolumeKnob {
        name: "compression",
        about: "compression of new blocks of the volume; --fill makes all blocks new",
        property: "compression",
        values: &[
            ("lz4", "lz4"),
            ("off", "off"),
            ("zstd", "zstd"),
            ("on", "on"),
            ("zstd-1", "zstd-1"),
            ("zstd-9", "zstd-9"),
            ("zstd-19", "zstd-19"),
        ],
        tried: 3,
    },
    VolumeKnob {
        name: "primarycache",
        about: "parts of the volume that are cached in memory",
        property: "primarycache",
        values: &[("all", "all"), ("metadata", "metadata"), ("none", "none")],
        tried: 3,
    },
    VolumeKnob {
        name: MADE_WITH,
        about: "block size of the volume; for each value a volume is made, filled, and removed at the end",
        property: MADE_WITH,
        values: &[
            ("8K", "8K"),
            ("16K", "16K"),
            ("32K", "32K"),
            ("64K", "64K"),
            ("128K", "128K"),
            ("4K", "4K"),
        ],
        tried: 5,
    },
    VolumeKnob {
        name: "thin",
        about: "whether the volume has no reserved space (refreservation)",
        property: "refreservation",
        values: &[("yes", "none"), ("no", "auto")],
        tried: 2,
    },
];

impl VolumeKnob {
    fn property_value(&self, value: &str) -> Option<&'static str> {
        let known = self.values.iter().find(|(said, _)| *said == value);
        known.map(|(_, property)| *property)
    }
}

impl Knob for &'static VolumeKnob {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn values(&self) -> Vec<String> {
        let tried = self.values[..self.tried].iter();
        tried.map(|(said, _)| (*said).to_owned()).collect()
    }

    fn apply(&self, value: &str, setup: &mut Setup) -> Result<(), String> {
        let Some(set) = self.property_value(value) else {
            let said: Vec<&str> = self.values.iter().map(|(said, _)| *said).collect();
            return Err(format!("choose from {}", said.join(", ")));
        };
        let property = self.property.to_owned();
        setup.volume.insert(property, set.to_owned());
        Ok(())
    }

    fn commands(&self, value: &str, _: &Names<'_>) -> Commands {
        let set = self.property_value(value);
        let typed = set.map(|set| match self.property {
            MADE_WITH => format!("sandstone volume create -V 10G -b {set} POOL/VOLUME"),
            property => format!("sandstone volume set {property}={set} POOL/VOLUME"),
        });
        Commands {
            sandstone: typed,
            ..Commands::default()
        }
    }
}
