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
                "a unit here reports a vendor, product and revision of its own; rules of initiators that match the old ones need the new ones"
            }
            Self::Device => "a unit here reports what its device is",
            Self::Limits => "a unit here reports limits of its own, and initiators ask for them",
            Self::Cache => {
                "a write cache here does not outlive a power cut, so these devices have none"
            }
            Self::Inner => "it tells the other program how to work inside",
            Self::Absent => "there is nothing like it here",
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
