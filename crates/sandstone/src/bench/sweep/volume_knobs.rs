//! The knobs of a volume of Sandstone's own pools, by the names that its properties have. They are turned at the
//! daemon that serves the measured unit, and put back at the end.

use super::knob::{Commands, Knob, Names, Setup};

/// A knob that is a property of the volume.
struct VolumeKnob {
    name: &'static str,
    about: &'static str,
    property: &'static str,
    /// What the user says, and what the property then is.
    values: &'static [(&'static str, &'static str)],
    /// How many of these are worth trying where none are named.
    tried: usize,
}

/// All of them. What is chosen when a volume is made is none: see [`MADE_WITH`].
pub fn volume_knobs() -> impl Iterator<Item = Box<dyn Knob>> {
    KNOWN.iter().map(|knob| Box::new(knob) as Box<dyn Knob>)
}

/// The property that a volume is made with, and keeps.
pub const MADE_WITH: &str = "volblocksize";

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
        about: "what new blocks of the volume are checked by",
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
        about: "how new blocks of the volume are compressed; --fill has all of them so",
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
        about: "what of the volume is kept in memory",
        property: "primarycache",
        values: &[("all", "all"), ("metadata", "metadata"), ("none", "none")],
        tried: 3,
    },
    VolumeKnob {
        name: "thin",
        about: "whether no space is kept for the volume (refreservation)",
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
        Commands {
            sandstone: set
                .map(|set| format!("sandstone volume set {}={set} POOL/VOLUME", self.property)),
            ..Commands::default()
        }
    }
}
