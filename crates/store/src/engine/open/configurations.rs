//! Decides which of the configurations in labels counts.
//!
//! A configuration is written into the labels of the first round on all leaves in use. When these
//! are durable, it is written into those of the second round (`engine/devices/label_writes.rs`).
//! Nothing is promised before both are durable.
//!
//! A leaf may have a configuration only in labels of the first round, beside another one in labels
//! of the second. Then the configuration was never relied on: the power failed while it was
//! written. It may be on that leaf alone. The leaf may have been away or unreadable when the pool
//! was opened without it and went on. The configuration must not come back then, whatever its
//! generation. So it is given up wherever it is found.
//!
//! If a label of the second round has a configuration, every leaf in use had it before that. So an
//! opening with any of these leaves sees it. If a leaf's labels of the second round cannot be read,
//! this is unknown, and the newest counts.

use pages::Pages;

use super::error::{OpenError, OpenErrorKind};
use super::leaf_labels::LeafLabels;
use crate::checksum;
use crate::engine::devices::label_rounds::ROUNDS;
use crate::format::label::NoLabel;
use crate::format::{Label, SECTOR_SIZE};

/// Labels of all devices.
#[derive(Debug)]
pub(super) struct Labels(Vec<OfDevice>);

/// Labels of one device.
type OfDevice = [Copy; 4];

/// Contents of a label's place.
#[derive(Debug)]
enum Copy {
    Says(FoundConfiguration),
    /// Zeros: no label was ever written there, or it was wiped.
    SaysNothing,
    /// Bytes that cannot be read, are torn, or are no label.
    IsUnknown,
}

#[derive(Debug)]
struct FoundConfiguration {
    label: Label,
    /// Number of the configuration; equal configurations of one pool have the same number.
    configuration: usize,
}

/// Weight of a label; the greatest counts. A given-up label weighs least, and of one generation a
/// surely settled label weighs most.
type Weight = (bool, u64, bool);

/// Returns the guid of a leaf in a pool that got the guid `pool`.
pub(super) fn derived(pool: u64, leaf: u64) -> u64 {
    // The lower half is as good a hash as the whole.
    checksum::keyed(pool, &leaf.to_le_bytes()) as u64
}

/// Reports whether two labels of one device are the old and the new identity of an interrupted
/// change.
fn is_successor(old: &Label, new: &Label) -> bool {
    old.pool != new.pool && new.leaf == derived(new.pool, old.leaf)
}

/// Reports whether a copy was read and has zeros where a label begins.
fn is_blank(copy: &Pages) -> bool {
    let mut head = [1; SECTOR_SIZE];
    let is_read = copy.len() >= head.len();
    if is_read {
        copy.slice(0..SECTOR_SIZE).copy_to(&mut head);
    }
    is_read && head == [0; SECTOR_SIZE]
}

impl Copy {
    fn found(&self) -> Option<&FoundConfiguration> {
        match self {
            Self::Says(found) => Some(found),
            Self::SaysNothing | Self::IsUnknown => None,
        }
    }
}

impl Labels {
    /// Decodes the labels on devices, as far as they can be read.
    ///
    /// # Errors
    /// One is of a later version.
    pub(super) fn decode(devices: &[LeafLabels]) -> Result<Self, OpenError> {
        let mut different: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut number = |label: Label| {
            let is_same = |of: &(u64, Vec<u8>)| of.0 == label.pool && of.1 == label.config;
            let configuration = different.iter().position(is_same).unwrap_or_else(|| {
                different.push((label.pool, label.config.clone()));
                different.len() - 1
            });
            FoundConfiguration {
                label,
                configuration,
            }
        };
        let mut labels = Vec::new();
        for device in devices {
            let mut own = [const { Copy::IsUnknown }; 4];
            for (place, copy) in own.iter_mut().zip(&device.copies) {
                *place = match Label::read(copy) {
                    Ok(label) => Copy::Says(number(label)),
                    Err(NoLabel::Absent) if is_blank(copy) => Copy::SaysNothing,
                    Err(NoLabel::Absent | NoLabel::Damaged) => Copy::IsUnknown,
                    Err(NoLabel::Later(version)) => {
                        return Err(OpenError::later("a label", version));
                    }
                };
            }
            labels.push(own);
        }
        Ok(Self(labels))
    }

    /// Returns every label that can be read.
    pub(super) fn all(&self) -> impl Iterator<Item = &Label> {
        let found = self.0.iter().flatten().filter_map(Copy::found);
        found.map(|found| &found.label)
    }

    fn weight(&self, found: &FoundConfiguration) -> Weight {
        let is_it = |copy: &Copy| {
            copy.found()
                .is_some_and(|of| of.configuration == found.configuration)
        };
        let has_it = |device: &OfDevice, round: usize| {
            ROUNDS[round].iter().any(|copy| is_it(&device[*copy]))
        };
        let is_settled = self.0.iter().any(|device| has_it(device, 1));
        let refutes = |device: &OfDevice| {
            let second = || ROUNDS[1].iter().map(|copy| &device[*copy]);
            let says_else = second().any(|copy| copy.found().is_some());
            let is_new = second().all(|copy| matches!(copy, Copy::SaysNothing));
            has_it(device, 0) && (says_else || is_new)
        };
        let is_given_up = !is_settled && self.0.iter().any(refutes);
        (!is_given_up, found.label.generation, is_settled)
    }

    fn heaviest<'a>(
        &self,
        labels: impl Iterator<Item = &'a FoundConfiguration>,
    ) -> Option<&'a Label> {
        let heaviest = labels.max_by_key(|found| self.weight(found));
        heaviest.map(|found| &found.label)
    }

    /// Returns the label with the configuration that counts, of the pool `guid` or of any.
    pub(super) fn newest(&self, guid: Option<u64>) -> Option<&Label> {
        let all = self.0.iter().flatten().filter_map(Copy::found);
        self.heaviest(all.filter(|found| guid.is_none_or(|guid| found.label.pool == guid)))
    }

    /// Returns the label of each device that counts in the pool; `None` if it is of another pool,
    /// or has none.
    pub(super) fn of_pool(&self, guid: u64) -> Vec<Option<&Label>> {
        let devices = self
            .0
            .iter()
            .map(|device| device.iter().filter_map(Copy::found));
        let own = devices.map(|own| own.filter(|found| found.label.pool == guid));
        own.map(|own| self.heaviest(own)).collect()
    }

    /// Returns the old and the new guid of each device's pool, if its labels have both
    /// (`reguid.rs`).
    pub(super) fn identities(&self) -> impl Iterator<Item = Option<(u64, u64)>> {
        self.0.iter().map(|device| {
            let labels = || device.iter().filter_map(Copy::found).map(|of| &of.label);
            let pairs = labels().flat_map(|old| labels().map(move |new| (old, new)));
            let mut torn = pairs.filter(|(old, new)| is_successor(old, new));
            torn.next().map(|(old, new)| (old.pool, new.pool))
        })
    }

    /// Refuses the devices of this pool, or of any, if one has an old and a new identity.
    pub(super) fn require_one_identity(&self, guid: Option<u64>) -> Result<(), OpenError> {
        let is_ours = |(old, new): &(u64, u64)| guid.is_none_or(|of| [*old, *new].contains(&of));
        let Some((old, new)) = self.identities().flatten().find(is_ours) else {
            return Ok(());
        };
        let context =
            format!("a change of the pool's number from {old:016x} to {new:016x} was interrupted");
        Err(OpenError::new(OpenErrorKind::Reguid, context))
    }

    /// Reports whether a label of a leaf has another configuration than `newest`, or cannot be
    /// read.
    pub(super) fn say_else(&self, newest: &Label, leaves: &[Option<u64>]) -> bool {
        let is_else = |copy: &Copy| {
            copy.found()
                .is_none_or(|found| found.label.config != newest.config)
        };
        let of_leaves = self.0.iter().zip(leaves);
        let of_leaves = of_leaves.filter(|(_, leaf)| leaf.is_some());
        of_leaves.flat_map(|(device, _)| device).any(is_else)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: u64 = 7;

    /// Makes devices with labels of configurations, each of a generation. Generation 0 means that
    /// the label cannot be read or, if the text is empty, was never written.
    fn labels(devices: &[[(u64, &str); 4]]) -> Labels {
        let device = |(leaf, copies): (usize, &[(u64, &str); 4])| LeafLabels {
            size: 0,
            copies: copies.map(|(generation, config)| match generation {
                0 if config.is_empty() => Pages::zeroes(1 << 18),
                0 => Pages::new(),
                generation => {
                    let label = Label {
                        pool: POOL,
                        leaf: leaf as u64,
                        generation,
                        config: config.into(),
                    };
                    Pages::from_bytes(&label.encode())
                }
            }),
        };
        let devices: Vec<LeafLabels> = devices.iter().enumerate().map(device).collect();
        Labels::decode(&devices).expect("labels")
    }

    fn newest(devices: &[[(u64, &str); 4]]) -> String {
        let labels = labels(devices);
        let newest = labels.newest(Some(POOL)).expect("a label");
        String::from_utf8(newest.config.clone()).expect("text")
    }

    const OLD: (u64, &str) = (4, "old");
    const LEFT: (u64, &str) = (5, "left");
    const LATER: (u64, &str) = (6, "later");
    const NEW: (u64, &str) = (5, "new");
    const UNREADABLE: (u64, &str) = (0, "it is somewhere else");
    const EMPTY: (u64, &str) = (0, "");

    #[test]
    fn what_did_not_come_to_the_second_round_counts_for_nothing() {
        for left in [LEFT, LATER] {
            let alone = [left, OLD, left, OLD];
            assert_eq!(newest(&[alone, [OLD; 4]]), "old");
            assert_eq!(newest(&[[left, OLD, OLD, OLD], [OLD; 4]]), "old");
            for devices in [[alone, [NEW; 4]], [[NEW; 4], alone]] {
                assert_eq!(newest(&devices), "new");
            }
            // A disk that was new has no other label.
            assert_eq!(newest(&[[left, EMPTY, left, EMPTY], [NEW; 4]]), "new");
            // The configuration written after that may have come no further, either.
            assert_eq!(newest(&[alone, [NEW, OLD, NEW, OLD]]), "old");
        }
    }

    #[test]
    fn what_is_in_the_second_round_anywhere_counts() {
        assert_eq!(newest(&[[NEW, OLD, NEW, OLD], [NEW, NEW, NEW, OLD]]), "new");
        assert_eq!(
            newest(&[[OLD; 4], [UNREADABLE, UNREADABLE, UNREADABLE, NEW]]),
            "new"
        );
    }

    /// The contents of unreadable labels are unknown, so the newest counts.
    #[test]
    fn what_cannot_be_read_gives_nothing_up() {
        assert_eq!(
            newest(&[[NEW, UNREADABLE, NEW, UNREADABLE], [OLD; 4]]),
            "new"
        );
        assert_eq!(newest(&[[NEW, UNREADABLE, UNREADABLE, UNREADABLE]]), "new");
        assert_eq!(newest(&[[NEW, EMPTY, NEW, UNREADABLE], [OLD; 4]]), "new");
        assert_eq!(newest(&[[NEW, UNREADABLE, NEW, OLD], [OLD; 4]]), "old");
    }

    /// A pool of which nothing else is left is still found.
    #[test]
    fn what_was_given_up_is_better_than_nothing() {
        assert_eq!(newest(&[[NEW, EMPTY, NEW, EMPTY]]), "new");
    }

    #[test]
    fn the_label_of_a_device_is_that_which_counts() {
        let labels = labels(&[[LATER, OLD, LATER, OLD], [NEW; 4], [UNREADABLE; 4]]);
        let own = labels.of_pool(POOL);
        let generations: Vec<Option<u64>> = own
            .iter()
            .map(|own| own.map(|own| own.generation))
            .collect();
        assert_eq!(generations, [Some(4), Some(5), None]);
        let newest = labels.newest(None).expect("a label");
        assert!(labels.say_else(newest, &[Some(0), Some(1), None]));
        assert!(!labels.say_else(newest, &[None, Some(1), None]));
    }
}
