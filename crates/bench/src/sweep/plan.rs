//! The settings that are tried, and their order. Each round has every setting once, in an order of
//! its own. A change meanwhile (a cache that fills, a neighbour that wakes) hits all settings
//! alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::random::Random;

/// Most settings of one sweep; nobody waits for the end of more.
pub const MAX_SETTINGS: usize = 1000;

/// Values of knobs, by name.
pub type Settings = BTreeMap<String, String>;

/// Combination of the values of several knobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// One knob is turned at a time, with all others at their first value. This shows the effect of
    /// each knob alone.
    #[default]
    OneAtATime,
    /// Every value of one knob is combined with every value of the others.
    Cross,
}

/// Value of another knob, without which a knob has no effect.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Name of the other knob.
    pub knob: &'static str,
    /// Value that satisfies the need.
    pub value: &'static str,
    /// Function that reports whether another value satisfies the need too.
    pub is_met_by: fn(&str) -> bool,
}

/// Lists all settings. The first has every knob at its first value, and the others are compared
/// with it. Values that appear twice are tried once. If there are more than [`MAX_SETTINGS`], the
/// list ends after one more. If one knob is turned at a time, a knob with a need is turned together
/// with the needed one. In the cross product it is turned only where its need is met.
pub fn settings(
    knobs: &[(String, Vec<String>)],
    design: Design,
    need: impl Fn(&str) -> Option<Need>,
) -> Vec<Settings> {
    let needs = knobs
        .iter()
        .filter_map(|(name, values)| Some((name, values.first()?, need(name)?)));
    let needs: Vec<(&String, &String, Need)> = needs.collect();
    let lacks = |need: &Need, settings: &Settings| {
        let other = settings.get(need.knob);
        other.is_some_and(|value| !(need.is_met_by)(value))
    };
    let mut all = combined(knobs, design, |name, settings| {
        let own = needs.iter().find(|(knob, ..)| *knob == name);
        if let Some((.., need)) = own.filter(|(.., need)| lacks(need, settings)) {
            settings.insert(need.knob.to_owned(), need.value.to_owned());
        }
    });
    if design == Design::Cross {
        all.retain(|settings| {
            let in_vain = |(name, first, need): &(&String, &String, Need)| {
                settings.get(*name) != Some(*first) && lacks(need, settings)
            };
            !needs.iter().any(in_vain)
        });
    }
    all
}

fn combined(
    knobs: &[(String, Vec<String>)],
    design: Design,
    provide: impl Fn(&String, &mut Settings),
) -> Vec<Settings> {
    let first = knobs
        .iter()
        .filter_map(|(name, values)| Some((name.clone(), values.first()?.clone())));
    let mut all: Vec<Settings> = vec![first.collect()];
    let mut seen: BTreeSet<Settings> = all.iter().cloned().collect();
    for (name, values) in knobs {
        let base = match design {
            Design::OneAtATime => all[..1].to_vec(),
            Design::Cross => all.clone(),
        };
        for value in values {
            for settings in &base {
                if all.len() > MAX_SETTINGS {
                    return all;
                }
                let mut turned = settings.clone();
                turned.insert(name.clone(), value.clone());
                if design == Design::OneAtATime && *value != values[0] {
                    provide(name, &mut turned);
                }
                if seen.insert(turned.clone()) {
                    all.push(turned);
                }
            }
        }
    }
    all
}

/// Lists `(round, index of the setting)` in the order of the runs.
pub fn schedule(settings: usize, rounds: u32, seed: u64) -> Vec<(u32, usize)> {
    let mut random = Random::stream(seed, u64::MAX);
    let rounds = (0..rounds).flat_map(|round| {
        let mut order: Vec<usize> = (0..settings).collect();
        random.shuffle(&mut order);
        order
            .into_iter()
            .map(move |setting| (round, setting))
            .collect::<Vec<_>>()
    });
    rounds.collect()
}

/// Formats the settings as one text.
pub fn words(settings: &Settings) -> String {
    let pairs: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs() -> Vec<(String, Vec<String>)> {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        vec![
            ("a".into(), values(&["1", "2", "3"])),
            ("b".into(), values(&["x", "y"])),
            ("c".into(), values(&["0", "0", "9"])),
        ]
    }

    fn all(design: Design) -> Vec<String> {
        settings(&knobs(), design, |_| None)
            .iter()
            .map(words)
            .collect()
    }

    #[test]
    fn one_at_a_time_turns_each_knob_alone() {
        let expected = [
            "a=1 b=x c=0",
            "a=2 b=x c=0",
            "a=3 b=x c=0",
            "a=1 b=y c=0",
            "a=1 b=x c=9",
        ];
        assert_eq!(all(Design::OneAtATime), expected);
    }

    #[test]
    fn the_cross_product_has_every_combination_once() {
        let all = all(Design::Cross);
        assert_eq!((all.len(), all[0].as_str()), (12, "a=1 b=x c=0"));
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 12);
    }

    #[test]
    fn a_knob_that_needs_another_is_turned_with_it_or_not_in_vain() {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let need = |name: &str| {
            (name == "iops").then_some(Need {
                knob: "psp",
                value: "rr",
                is_met_by: |value| value == "rr",
            })
        };
        let iops = ("iops".to_owned(), values(&["1000", "1"]));
        let psp = ("psp".to_owned(), values(&["fixed", "rr"]));
        for knobs in [[iops.clone(), psp.clone()], [psp, iops.clone()]] {
            let tried = |design| -> BTreeSet<String> {
                settings(&knobs, design, need).iter().map(words).collect()
            };
            let all = ["iops=1 psp=rr", "iops=1000 psp=fixed", "iops=1000 psp=rr"];
            let all: BTreeSet<String> = all.map(str::to_owned).into();
            assert_eq!(tried(Design::OneAtATime), all);
            assert_eq!(tried(Design::Cross), all);
        }
        let alone = settings(&[iops], Design::OneAtATime, need);
        assert_eq!(words(&alone[1]), "iops=1", "the setup says the rest");
    }

    #[test]
    fn every_round_has_every_setting_once_in_another_order() {
        let schedule = schedule(20, 3, 1);
        let rounds: Vec<Vec<usize>> = (0..3)
            .map(|round| {
                schedule
                    .iter()
                    .filter(|(r, _)| *r == round)
                    .map(|(_, s)| *s)
                    .collect()
            })
            .collect();
        assert_ne!(rounds[0], rounds[1]);
        for mut round in rounds {
            round.sort_unstable();
            assert_eq!(round, (0..20).collect::<Vec<_>>());
        }
        assert!(
            schedule.windows(2).all(|pair| pair[0].0 <= pair[1].0),
            "in turns, not one after the other"
        );
    }

    #[test]
    fn a_huge_cross_product_is_cut() {
        let values: Vec<String> = (0..100).map(|number: u32| number.to_string()).collect();
        let knobs: Vec<_> = ["a", "b", "c"]
            .map(|name| (name.to_owned(), values.clone()))
            .to_vec();
        assert_eq!(
            settings(&knobs, Design::Cross, |_| None).len(),
            MAX_SETTINGS + 1
        );
    }
}
