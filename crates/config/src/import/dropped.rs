//! Attributes without a counterpart here, reported once for all objects that have them.

use std::collections::BTreeMap;

use super::Imported;

/// Reason why an attribute is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Identity,
    Device,
    Limits,
    Cache,
    Inner,
    Absent,
}

impl Reason {
    fn text(self) -> &'static str {
        match self {
            Self::Identity => {
                "Sandstone reports its own vendor, product and revision; change the rules of initiators that \
                 match the old values"
            }
            Self::Device => "Sandstone takes this from the device beneath the logical unit",
            Self::Limits => "Sandstone reports its own limits, and initiators ask for them",
            Self::Cache => {
                "a write cache of Sandstone does not survive a power cut, so these devices have no write \
                 cache"
            }
            Self::Inner => "it controls only the inner workings of the other program",
            Self::Absent => "Sandstone has no counterpart",
        }
    }
}

/// Attributes with their values, and the objects that have them.
#[derive(Default)]
pub(super) struct Dropped(BTreeMap<Reason, BTreeMap<(String, String), Vec<String>>>);

impl Dropped {
    pub(super) fn add(&mut self, reason: Reason, attribute: &str, value: &str, object: &str) {
        let attributes = self.0.entry(reason).or_default();
        let key = (attribute.to_owned(), value.to_owned());
        attributes.entry(key).or_default().push(object.to_owned());
    }

    /// Adds a note for each reason; the summary lists the attributes.
    pub(super) fn tell(self, imported: &mut Imported) {
        for (reason, attributes) in self.0 {
            let one = |((attribute, value), objects): (&(String, String), &Vec<String>)| {
                let value = if value.contains(char::is_whitespace) {
                    format!("{value:?}")
                } else {
                    value.clone()
                };
                format!("{attribute} {value} ({})", objects.join(", "))
            };
            let list: Vec<String> = attributes.iter().map(one).collect();
            imported.note(format!("left out {}: {}", list.join(", "), reason.text()));
            for (attribute, _) in attributes.into_keys() {
                if !imported.left_out.contains(&attribute) {
                    imported.left_out.push(attribute);
                }
            }
        }
    }
}
