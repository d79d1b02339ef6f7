//! The knobs of an initiator: everything that users turn in ESXi or iscsid.conf, by the names that the
//! options of an `iscsi://` URL have.

use super::knob::{Commands, Knob, Setup};
use crate::initiator::options::OPTIONS;
use crate::initiator::url::check_option;
use crate::multipath::Psp;

/// A knob that is an option of the target's URL.
struct SessionKnob {
    name: &'static str,
    about: &'static str,
    values: &'static [&'static str],
    esxi: fn(&str) -> Option<String>,
    linux: fn(&str) -> Option<String>,
}

/// What one of the options is worth trying with, and what to type elsewhere.
struct Known {
    name: &'static str,
    values: &'static [&'static str],
    esxi: fn(&str) -> Option<String>,
    linux: fn(&str) -> Option<String>,
}

/// All knobs of an initiator.
pub fn session_knobs() -> impl Iterator<Item = Box<dyn Knob>> {
    KNOWN.iter().map(|known| {
        let option = OPTIONS.iter().find(|option| option.name == known.name);
        let knob = SessionKnob {
            name: known.name,
            about: option.map_or("", |option| option.help),
            values: known.values,
            esxi: known.esxi,
            linux: known.linux,
        };
        Box::new(knob) as Box<dyn Knob>
    })
}

impl Knob for SessionKnob {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
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
        Ok(())
    }

    fn commands(&self, value: &str) -> Commands {
        Commands {
            esxi: (self.esxi)(value),
            linux: (self.linux)(value),
            sandstone: Some(format!("iscsi://…?{}={value}", self.name)),
        }
    }
}

/// A parameter of ESXi's software adapter.
fn adapter_parameter(key: &str, value: &str) -> Option<String> {
    Some(format!(
        "esxcli iscsi adapter param set -A vmhba64 -k {key} -v {value}"
    ))
}

/// A setting of an open-iscsi node.
fn node_setting(name: &str, value: &str) -> Option<String> {
    Some(format!(
        "iscsiadm -m node -T TARGET -o update -n {name} -v {value}"
    ))
}

fn is_yes(value: &str) -> bool {
    matches!(value, "yes" | "1" | "true" | "on")
}

fn yes_or_no(value: &str) -> &'static str {
    if is_yes(value) { "Yes" } else { "No" }
}

fn true_or_false(value: &str) -> &'static str {
    if is_yes(value) { "true" } else { "false" }
}

fn in_bytes(value: &str) -> String {
    let bytes = crate::config::quantity::parse_size(value);
    bytes.map_or_else(|_| value.to_owned(), |bytes| bytes.to_string())
}

fn nothing(_: &str) -> Option<String> {
    None
}

const KNOWN: &[Known] = &[
    Known {
        name: "queue_depth",
        values: &["128", "64", "192"],
        esxi: |value| {
            Some(format!(
                "esxcli system module parameters set -m iscsi_vmk -p iscsivmk_LunQDepth={value}   # and reboot"
            ))
        },
        linux: |value| node_setting("node.session.queue_depth", value),
    },
    Known {
        name: "psp",
        values: &["fixed", "mru", "rr", "least_queue", "lowest_latency"],
        esxi: |value| match Psp::from_name(value)? {
            Psp::LeastQueue | Psp::LowestLatency => None,
            psp => Some(format!(
                "esxcli storage nmp device set -d NAA -P {}",
                psp.name()
            )),
        },
        linux: |value| {
            let selector = match Psp::from_name(value)? {
                Psp::RoundRobin => "round-robin 0",
                Psp::LeastQueue => "queue-length 0",
                Psp::LowestLatency => "service-time 0",
                Psp::Fixed | Psp::Mru => {
                    return Some("multipath.conf: path_grouping_policy failover".to_owned());
                }
            };
            Some(format!(
                "multipath.conf: path_grouping_policy multibus, path_selector \"{selector}\""
            ))
        },
    },
    Known {
        name: "iops",
        values: &["1000", "100", "10", "1"],
        esxi: |value| {
            Some(format!(
                "esxcli storage nmp psp roundrobin deviceconfig set -d NAA -t iops -I {value}"
            ))
        },
        linux: |value| Some(format!("multipath.conf: rr_min_io_rq {value}")),
    },
    Known {
        name: "bytes",
        values: &["10485760", "1048576", "8800"],
        esxi: |value| {
            Some(format!(
                "esxcli storage nmp psp roundrobin deviceconfig set -d NAA -t bytes -B {}",
                in_bytes(value)
            ))
        },
        linux: nothing,
    },
    Known {
        name: "sessions",
        values: &["1", "2", "5"],
        esxi: |value| {
            Some(format!(
                "esxcli iscsi networkportal add -A vmhba64 -n vmkN   # for each of {value} VMkernel ports"
            ))
        },
        linux: |value| node_setting("node.session.nr_sessions", value),
    },
    Known {
        name: "max_outstanding_r2t",
        values: &["1", "8"],
        esxi: |value| adapter_parameter("MaxOutstandingR2T", value),
        linux: nothing,
    },
    Known {
        name: "immediate_data",
        values: &["yes", "no"],
        esxi: |value| adapter_parameter("ImmediateData", true_or_false(value)),
        linux: |value| node_setting("node.session.iscsi.ImmediateData", yes_or_no(value)),
    },
    Known {
        name: "initial_r2t",
        values: &["no", "yes"],
        esxi: |value| adapter_parameter("InitialR2T", true_or_false(value)),
        linux: |value| node_setting("node.session.iscsi.InitialR2T", yes_or_no(value)),
    },
    Known {
        name: "first_burst",
        values: &["256K", "64K"],
        esxi: |value| adapter_parameter("FirstBurstLength", &in_bytes(value)),
        linux: |value| node_setting("node.session.iscsi.FirstBurstLength", &in_bytes(value)),
    },
    Known {
        name: "max_burst",
        values: &["1M", "256K"],
        esxi: |value| adapter_parameter("MaxBurstLength", &in_bytes(value)),
        linux: |value| node_setting("node.session.iscsi.MaxBurstLength", &in_bytes(value)),
    },
    Known {
        name: "max_recv_segment",
        values: &["256K", "128K", "64K"],
        esxi: |value| adapter_parameter("MaxRecvDataSegment", &in_bytes(value)),
        linux: |value| {
            node_setting(
                "node.conn[0].iscsi.MaxRecvDataSegmentLength",
                &in_bytes(value),
            )
        },
    },
    Known {
        name: "header_digest",
        values: &["none", "crc32c"],
        esxi: |value| {
            adapter_parameter(
                "HeaderDigest",
                if value.eq_ignore_ascii_case("crc32c") {
                    "required"
                } else {
                    "prohibited"
                },
            )
        },
        linux: |value| {
            node_setting(
                "node.conn[0].iscsi.HeaderDigest",
                if value.eq_ignore_ascii_case("crc32c") {
                    "CRC32C"
                } else {
                    "None"
                },
            )
        },
    },
    Known {
        name: "data_digest",
        values: &["none", "crc32c"],
        esxi: |value| {
            adapter_parameter(
                "DataDigest",
                if value.eq_ignore_ascii_case("crc32c") {
                    "required"
                } else {
                    "prohibited"
                },
            )
        },
        linux: |value| {
            node_setting(
                "node.conn[0].iscsi.DataDigest",
                if value.eq_ignore_ascii_case("crc32c") {
                    "CRC32C"
                } else {
                    "None"
                },
            )
        },
    },
    Known {
        name: "quick_ack",
        values: &["no", "yes"],
        esxi: |value| adapter_parameter("DelayedAck", if is_yes(value) { "false" } else { "true" }),
        linux: |value| {
            Some(format!(
                "ip route change SUBNET dev INTERFACE quickack {}",
                u8::from(is_yes(value))
            ))
        },
    },
    Known {
        name: "window",
        values: &["1M", "4M", "256K"],
        esxi: nothing,
        linux: |value| {
            Some(format!(
                "sysctl -w net.core.rmem_max={0} net.core.wmem_max={0}",
                in_bytes(value)
            ))
        },
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::parameters::Parameters;
    use crate::bench::profile;

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
                };
                knob.apply(&value, &mut setup).expect("its own value");
                assert_eq!(setup.target_options[knob.name()], value);
                assert!(
                    knob.apply("nonsense", &mut setup).is_err(),
                    "{}",
                    knob.name()
                );
            }
        }
    }

    #[test]
    fn the_field_reports_commands_are_there() {
        let command = |name: &str, value: &str| {
            let knob = session_knobs().find(|knob| knob.name() == name);
            knob.expect(name).commands(value).esxi.expect("ESXi has it")
        };
        assert_eq!(
            command("iops", "1"),
            "esxcli storage nmp psp roundrobin deviceconfig set -d NAA -t iops -I 1"
        );
        assert_eq!(
            command("psp", "rr"),
            "esxcli storage nmp device set -d NAA -P VMW_PSP_RR"
        );
        assert!(command("queue_depth", "64").contains("iscsivmk_LunQDepth=64"));
    }
}
