//! Events that show in the facts: logical units that fail and return, and paths to other machines'
//! disks that are lost and come back.

use std::collections::BTreeMap;

use crate::facts::Facts;
use model::event::{Occurrence, Severity, Topic};

/// State of objects at the last look.
#[derive(Debug, Default)]
pub struct Changes {
    /// Faults of units, by name.
    faults: BTreeMap<String, Option<String>>,
    /// Reasons of dead paths, by device, target, portal and LUN.
    paths: BTreeMap<(String, String), Option<String>>,
}

impl Changes {
    /// Returns the events since the last look. At the first look, these are what is not well.
    pub fn since(&mut self, facts: &Facts) -> Vec<Occurrence> {
        let mut told = Vec::new();
        let mut faults = BTreeMap::new();
        for unit in facts.units.iter() {
            let before = self.faults.remove(&unit.name).flatten();
            let next = || unit.remedy.clone();
            match (&before, &unit.fault) {
                (None, Some(fault)) => {
                    let text = format!("the unit is not served: {fault}");
                    let one = Occurrence::new(Severity::Error, Topic::Unit, &unit.name, text);
                    told.push(Occurrence {
                        next: next(),
                        ..one
                    });
                }
                (Some(_), None) => {
                    let text = "the unit is served again";
                    told.push(Occurrence::new(
                        Severity::Info,
                        Topic::Unit,
                        &unit.name,
                        text,
                    ));
                }
                _ => {}
            }
            faults.insert(unit.name.clone(), unit.fault.clone());
        }
        self.faults = faults;
        self.paths(facts, &mut told);
        told
    }

    fn paths(&mut self, facts: &Facts, told: &mut Vec<Occurrence>) {
        let mut paths = BTreeMap::new();
        for device in facts.devices.iter() {
            let name = &device.nmp.name;
            for way in &device.ways {
                let lun = way.lun.map_or("-".to_owned(), |lun| lun.to_string());
                let path = format!("{} at {}, LUN {lun}", way.target, way.portal);
                let source = way.source.clone().unwrap_or_default();
                let key = (name.clone(), format!("{path} {source}"));
                let before = self.paths.remove(&key).flatten();
                // A path that flaps is told once and then counted.
                let tell = |severity, text: String| {
                    Occurrence::new(severity, Topic::Path, name, text).from_source(&key.1)
                };
                match (&before, &way.reason) {
                    (None, Some(reason)) => {
                        let text = format!("the path to {path} is dead: {reason}");
                        let next = format!("sandstone initiator path list -d {name}");
                        told.push(tell(Severity::Warning, text).next(next));
                    }
                    (Some(_), None) => {
                        told.push(tell(Severity::Info, format!("the path to {path} is back")));
                    }
                    _ => {}
                }
                paths.insert(key, way.reason.clone());
            }
        }
        self.paths = paths;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use model::data_plane::UnitStatus;

    #[test]
    fn a_unit_that_fails_and_returns_is_told_once_each() {
        let facts = |fault: Option<&str>| Facts {
            units: Arc::new(vec![UnitStatus {
                name: "vm1".to_owned(),
                fault: fault.map(str::to_owned),
                ..UnitStatus::default()
            }]),
            ..Facts::default()
        };
        let mut changes = Changes::default();
        let told: Vec<String> = [None, Some("gone"), Some("gone"), None, None]
            .into_iter()
            .flat_map(|fault| changes.since(&facts(fault)))
            .map(|it| it.text)
            .collect();
        assert_eq!(
            told,
            ["the unit is not served: gone", "the unit is served again"]
        );
        let first = Changes::default().since(&facts(Some("gone")));
        assert_eq!(first[0].severity, Severity::Error);
    }
}
