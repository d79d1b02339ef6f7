//! The knobs of an initiator: the settings that users change in ESXi or iscsid.conf, under the
//! names of the options of an `iscsi://` URL.

use super::commands::of_initiator;
use super::knob::{Commands, Knob, Names, Setup};
use super::plan::Need;
use super::volume_knobs::volume_knobs;
use model::initiator::options::OPTIONS;
use model::initiator::url::check_option;
use multipath::Psp;

/// Knob that is an option of the target's URL.
struct SessionKnob {
    name: &'static str,
    values: &'static [&'static str],
}

/// Lists all knobs of an initiator, and of the units that it sees.
pub fn session_knobs() -> impl Iterator<Item = Box<dyn Knob>> {
    let sessions = KNOWN
        .iter()
        .map(|(name, values)| Box::new(SessionKnob { name, values }) as Box<dyn Knob>);
    let others = [
        Box::new(DelayedAckKnob) as Box<dyn Knob>,
        Box::new(WriteCacheKnob),
    ];
    sessions.chain(others).chain(volume_knobs())
}

/// Knob for `quick_ack`, under the name that ESXi's adapters have for its opposite.
struct DelayedAckKnob;

impl DelayedAckKnob {
    fn quick_ack(value: &str) -> Result<&'static str, String> {
        match value {
            "on" => Ok("no"),
            "off" => Ok("yes"),
            _ => Err("choose on or off".to_owned()),
        }
    }
}

impl Knob for DelayedAckKnob {
    fn name(&self) -> &str {
        "delayed_ack"
    }

    fn about(&self) -> &str {
        "DelayedAck of ESXi's adapter: the opposite of quick_ack"
    }

    fn values(&self) -> Vec<String> {
        ["on", "off"].map(str::to_owned).into()
    }

    fn apply(&self, value: &str, setup: &mut Setup) -> Result<(), String> {
        let quick_ack = Self::quick_ack(value)?.to_owned();
        setup
            .target_options
            .insert("quick_ack".to_owned(), quick_ack);
        Ok(())
    }

    fn commands(&self, value: &str, of: &Names<'_>) -> Commands {
        Self::quick_ack(value).map_or_else(
            |_| Commands::default(),
            |quick_ack| of_initiator("quick_ack", quick_ack, of),
        )
    }
}

/// Knob for the write cache of the logical unit itself.
struct WriteCacheKnob;

impl Knob for WriteCacheKnob {
    fn name(&self) -> &str {
        "write_cache"
    }

    fn about(&self) -> &str {
        "the unit's volatile write cache (WCE of its Caching mode page); put back at the end"
    }

    fn values(&self) -> Vec<String> {
        ["off", "on"].map(str::to_owned).into()
    }

    fn apply(&self, value: &str, setup: &mut Setup) -> Result<(), String> {
        setup.write_cache = match value {
            "on" => Some(true),
            "off" => Some(false),
            _ => return Err("choose on or off".to_owned()),
        };
        Ok(())
    }

    fn commands(&self, value: &str, _: &Names<'_>) -> Commands {
        let (wce, yes) = match value {
            "on" => (1, "yes"),
            _ => (0, "no"),
        };
        Commands {
            esxi: None,
            linux: Some(format!("sdparm --set WCE={wce} --save /dev/DEVICE")),
            sandstone: Some(format!("sandstone lu modify NAME --write-cache {yes}")),
        }
    }
}

impl Knob for SessionKnob {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        let option = OPTIONS.iter().find(|option| option.name == self.name);
        option.map_or("", |option| option.help)
    }

    fn values(&self) -> Vec<String> {
        self.values
            .iter()
            .map(|value| (*value).to_owned())
            .collect()
    }

    fn apply(&self, value: &str, setup: &mut Setup) -> Result<(), String> {
        check_option(self.name, value)?;
        setup
            .target_options
            .insert(self.name.to_owned(), value.to_owned());
        if let Some(need) = self.need().filter(|_| LIMITS.contains(&self.name)) {
            // The value overrides the URL. If the option is a knob too, that knob comes later and
            // has the last word.
            let options = &mut setup.target_options;
            let other = options.entry(need.knob.to_owned());
            other.or_insert_with(|| need.value.to_owned());
        }
        Ok(())
    }

    fn commands(&self, value: &str, of: &Names<'_>) -> Commands {
        of_initiator(self.name, value, of)
    }

    fn need(&self) -> Option<Need> {
        let is_met_by: fn(&str) -> bool = match self.name {
            name if LIMITS.contains(&name) => {
                |value| Psp::from_name(value) == Some(Psp::RoundRobin)
            }
            // If psp is no knob, the value in force decides:
            // [`use_all_sessions`](super::in_vain::use_all_sessions).
            "sessions" => |value| Psp::from_name(value).is_some_and(Psp::uses_all_paths),
            _ => return None,
        };
        Some(Need {
            knob: "psp",
            value: "rr",
            is_met_by,
        })
    }
}

/// Settings of round robin, which no other path selection uses.
const LIMITS: [&str; 3] = ["iops", "bytes", "use_ano"];

/// Options and the values worth trying; the others are compared with the first.
const KNOWN: &[(&str, &[&str])] = &[
    ("queue_depth", &["128", "64", "192"]),
    (
        "psp",
        &["fixed", "mru", "rr", "least_queue", "lowest_latency"],
    ),
    ("iops", &["1000", "100", "10", "1"]),
    ("bytes", &["10485760", "1048576", "8800"]),
    ("use_ano", &["no", "yes"]),
    ("sessions", &["1", "2", "5"]),
    ("max_outstanding_r2t", &["1", "8"]),
    ("immediate_data", &["yes", "no"]),
    ("initial_r2t", &["no", "yes"]),
    ("first_burst", &["256K", "64K"]),
    ("max_burst", &["1M", "256K"]),
    ("max_recv_segment", &["256K", "128K", "64K"]),
    ("header_digest", &["none", "crc32c"]),
    ("data_digest", &["none", "crc32c"]),
    ("quick_ack", &["no", "yes"]),
    ("window", &["1M", "4M", "256K"]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::parameters::Parameters;
    use crate::profile;

    #[test]
    fn every_knob_is_an_option_and_takes_its_own_values() {
        for knob in session_knobs() {
            assert!(!knob.about().is_empty(), "{}", knob.name());
            assert!(knob.values().len() > 1, "{}", knob.name());
            for value in knob.values() {
                let mut setup = Setup {
                    profile: profile::find("crystal").expect("built in"),
                    parameters: Parameters::default(),
                    target_options: BTreeMap::new(),
                    write_cache: None,
                    volume: BTreeMap::new(),
                };
                let before = setup.clone();
                knob.apply(&value, &mut setup).expect("its own value");
                assert_ne!(setup, before, "{} {value} changes nothing", knob.name());
                assert!(
                    knob.apply("nonsense", &mut setup).is_err(),
                    "{}",
                    knob.name()
                );
            }
        }
    }
}
