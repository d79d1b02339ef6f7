//! What to type to have a setting of an initiator: on ESXi, on Linux, and here. Names and values are those of the
//! options of `iscsi://` URLs ([`crate::initiator::options`]).
//!
//! Words in capitals stand for what only the user knows: `NAA` the device as `esxcli storage nmp device list` names
//! it, `vmhbaN` the adapter, `vmkN` a vmkernel port, `DEVICE` a disk as in `/sys/block`.

use super::knob::Commands;
use crate::config::quantity::parse_size;
use crate::multipath::Psp;

/// Array as its INQUIRY names it; here Sandstone's own.
const VENDOR: &str = "SNDSTONE";
const PRODUCT: &str = "VOLUME";

/// How an option of a session is called by ESXi and by open-iscsi, where it can be set. (open-iscsi asks for
/// MaxOutstandingR2T=1 whatever is configured.)
const SESSION_KEYS: [(&str, Option<&str>, Option<&str>); 8] = [
    ("max_outstanding_r2t", Some("MaxOutstandingR2T"), None),
    (
        "first_burst",
        Some("FirstBurstLength"),
        Some("node.session.iscsi.FirstBurstLength"),
    ),
    (
        "max_burst",
        Some("MaxBurstLength"),
        Some("node.session.iscsi.MaxBurstLength"),
    ),
    (
        "max_recv_segment",
        Some("MaxRecvDataSegment"),
        Some("node.conn[0].iscsi.MaxRecvDataSegmentLength"),
    ),
    (
        "initial_r2t",
        Some("InitialR2T"),
        Some("node.session.iscsi.InitialR2T"),
    ),
    (
        "immediate_data",
        Some("ImmediateData"),
        Some("node.session.iscsi.ImmediateData"),
    ),
    (
        "header_digest",
        Some("HeaderDigest"),
        Some("node.conn[0].iscsi.HeaderDigest"),
    ),
    (
        "data_digest",
        Some("DataDigest"),
        Some("node.conn[0].iscsi.DataDigest"),
    ),
];

/// What to type; nothing where only this program has the setting, and then its URL says it.
pub fn of_initiator(option: &str, value: &str) -> Commands {
    let (esxi, linux) = match option {
        "queue_depth" => queue_depth(value),
        "psp" => path_selection(value),
        "iops" | "bytes" | "use_ano" => round_robin(option, value),
        "sessions" => sessions(value),
        "quick_ack" => quick_ack(value),
        "window" => (None, bytes(value).map(window)),
        _ => session_key(option, value),
    };
    Commands {
        esxi,
        linux,
        sandstone: Some(format!("iscsi://HOST/TARGET/LUN?{option}={value}")),
    }
}

/// What to type on both systems.
type Both = (Option<String>, Option<String>);

fn queue_depth(value: &str) -> Both {
    let esxi = format!(
        "esxcli system module parameters set -m iscsi_vmk -p iscsivmk_LunQDepth={value}\n\
         esxcli system shutdown reboot -r \"queue depth\"   # in maintenance mode; in force after it"
    );
    let linux = format!(
        "# /etc/iscsi/iscsid.conf, for new sessions\n\
         node.session.queue_depth = {value}\n\
         # for a disk that is there\n\
         echo {value} > /sys/block/DEVICE/device/queue_depth"
    );
    (Some(esxi), Some(linux))
}

fn path_selection(value: &str) -> Both {
    let esxi = |psp: &str| {
        Some(format!(
            "esxcli storage nmp device set -d NAA -P {psp}\n\
             esxcli storage nmp satp rule add -s VMW_SATP_ALUA -V {VENDOR} -M {PRODUCT} -P {psp}   # for all, after a reboot"
        ))
    };
    let linux = |settings: &str| Some(multipath(settings));
    let Some(psp) = Psp::from_name(value) else {
        return (None, None);
    };
    match psp {
        Psp::RoundRobin => (
            esxi("VMW_PSP_RR"),
            linux("path_grouping_policy group_by_prio\npath_selector \"round-robin 0\""),
        ),
        Psp::Mru => (
            esxi("VMW_PSP_MRU"),
            linux("path_grouping_policy failover\nfailback manual"),
        ),
        Psp::Fixed => (
            esxi("VMW_PSP_FIXED"),
            linux("path_grouping_policy failover\nfailback immediate"),
        ),
        Psp::LeastQueue => (
            None,
            linux("path_grouping_policy group_by_prio\npath_selector \"queue-length 0\""),
        ),
        Psp::LowestLatency => (
            Some(
                "esxcli storage nmp device set -d NAA -P VMW_PSP_RR
\
                 esxcli storage nmp psp roundrobin deviceconfig set -d NAA -t latency"
                    .to_owned(),
            ),
            linux("path_grouping_policy group_by_prio\npath_selector \"service-time 0\""),
        ),
    }
}

fn round_robin(option: &str, value: &str) -> Both {
    let device = "esxcli storage nmp psp roundrobin deviceconfig set -d NAA";
    let rule = |options: &str| {
        format!(
            "esxcli storage nmp satp rule add -s VMW_SATP_ALUA -V {VENDOR} -M {PRODUCT} -P VMW_PSP_RR -O {options}   # for all, after a reboot"
        )
    };
    match option {
        "iops" => (
            Some(format!(
                "{device} -t iops -I {value}\n{}",
                rule(&format!("iops={value}"))
            )),
            Some(multipath(&format!(
                "path_selector \"round-robin 0\"\nrr_min_io_rq {value}"
            ))),
        ),
        "bytes" => {
            let bytes = bytes(value).map(|bytes| bytes.to_string());
            let esxi = bytes.map(|bytes| {
                format!(
                    "{device} -t bytes -B {bytes}\n{}",
                    rule(&format!("bytes={bytes}"))
                )
            });
            (esxi, None)
        }
        _ => {
            let flag = u8::from(matches!(value, "yes" | "1" | "true" | "on"));
            (Some(format!("{device} -U {flag}")), None)
        }
    }
}

/// A device section of multipath.conf with these lines.
fn multipath(settings: &str) -> String {
    let lines: String = settings
        .lines()
        .map(|line| format!("        {line}\n"))
        .collect();
    format!(
        "# /etc/multipath.conf, then multipathd reconfigure\n\
         devices {{\n    device {{\n        vendor \"{VENDOR}\"\n        product \"{PRODUCT}\"\n{lines}    }}\n}}"
    )
}

fn sessions(value: &str) -> Both {
    let esxi = "esxcli iscsi networkportal add -A vmhbaN -n vmkN   # once for each of so many vmkernel ports (port binding)\n\
                esxcli storage core adapter rescan -A vmhbaN";
    let linux =
        format!("# /etc/iscsi/iscsid.conf, for new sessions\nnode.session.nr_sessions = {value}");
    (Some(esxi.to_owned()), Some(linux))
}

fn quick_ack(value: &str) -> Both {
    let quick = matches!(value, "yes" | "1" | "true" | "on");
    (
        Some(format!(
            "esxcli iscsi adapter param set -A vmhbaN -k DelayedAck -v {}",
            !quick
        )),
        Some(format!(
            "ip route change NETWORK dev INTERFACE quickack {}",
            u8::from(quick)
        )),
    )
}

fn window(bytes: u64) -> String {
    format!(
        "sysctl -w net.core.rmem_max={bytes} net.core.wmem_max={bytes}\n\
         sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {bytes}\" net.ipv4.tcp_wmem=\"4096 16384 {bytes}\""
    )
}

fn session_key(option: &str, value: &str) -> Both {
    let Some((_, esxi, linux)) = SESSION_KEYS.iter().find(|(name, ..)| *name == option) else {
        return (None, None);
    };
    let [on_esxi, on_linux] = match (option, value.to_ascii_lowercase().as_str()) {
        ("header_digest" | "data_digest", "crc32c") => ["required".to_owned(), "CRC32C".to_owned()],
        ("header_digest" | "data_digest", _) => ["prohibited".to_owned(), "None".to_owned()],
        ("initial_r2t" | "immediate_data", word) => {
            match matches!(word, "yes" | "1" | "true" | "on") {
                true => ["true".to_owned(), "Yes".to_owned()],
                false => ["false".to_owned(), "No".to_owned()],
            }
        }
        _ => {
            let number = bytes(value).map_or_else(|| value.to_owned(), |bytes| bytes.to_string());
            [number.clone(), number]
        }
    };
    (
        esxi.map(|key| format!("esxcli iscsi adapter param set -A vmhbaN -k {key} -v {on_esxi}")),
        linux.map(|key| format!("# /etc/iscsi/iscsid.conf, for new sessions\n{key} = {on_linux}")),
    )
}

fn bytes(value: &str) -> Option<u64> {
    parse_size(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_the_field_are_in_the_words_of_their_systems() {
        let of = |option, value| of_initiator(option, value);
        let has = |text: Option<String>, part: &str| {
            let text = text.expect("there is something to type");
            assert!(text.contains(part), "{part}: {text}");
        };
        has(
            of("queue_depth", "64").esxi,
            "-m iscsi_vmk -p iscsivmk_LunQDepth=64",
        );
        has(
            of("queue_depth", "64").linux,
            "node.session.queue_depth = 64",
        );
        has(
            of("iops", "1").esxi,
            "roundrobin deviceconfig set -d NAA -t iops -I 1",
        );
        has(
            of("iops", "1").esxi,
            "satp rule add -s VMW_SATP_ALUA -V SNDSTONE -M VOLUME -P VMW_PSP_RR -O iops=1",
        );
        has(of("iops", "1").linux, "rr_min_io_rq 1");
        has(of("bytes", "8K").esxi, "-t bytes -B 8192");
        has(of("psp", "rr").esxi, "-P VMW_PSP_RR");
        has(of("psp", "rr").linux, "path_selector \"round-robin 0\"");
        has(
            of("sessions", "5").esxi,
            "networkportal add -A vmhbaN -n vmkN",
        );
        has(of("sessions", "5").linux, "nr_sessions = 5");
        has(
            of("max_outstanding_r2t", "8").esxi,
            "-k MaxOutstandingR2T -v 8",
        );
        has(of("first_burst", "256K").linux, "FirstBurstLength = 262144");
        has(of("quick_ack", "yes").esxi, "-k DelayedAck -v false");
        has(
            of("data_digest", "crc32c").esxi,
            "-k DataDigest -v required",
        );
        has(of("data_digest", "none").linux, "DataDigest = None");
        has(of("window", "4M").linux, "rmem_max=4194304");
    }

    #[test]
    fn every_option_can_at_least_be_said_in_a_url() {
        for option in crate::initiator::options::OPTIONS {
            let url = of_initiator(option.name, "1")
                .sandstone
                .expect("a URL says it");
            assert!(url.ends_with(&format!("?{}=1", option.name)));
        }
        let secret = of_initiator("command_timeout", "9");
        assert_eq!(
            (secret.esxi, secret.linux),
            (None, None),
            "what others do not have is not made up"
        );
    }
}
