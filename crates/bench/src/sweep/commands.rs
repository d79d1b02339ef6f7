//! Commands that give an initiator a setting: on ESXi, on Linux, and in Sandstone. Names and values
//! are those of the options of `iscsi://` URLs ([`model::initiator::options`]).
//!
//! Devices, vendors and products are those that were measured ([`Names`]). Words in capitals stand
//! for names that only the user knows: `vmhbaN` the adapter, `vmkN` a vmkernel port, `DEVICE` a
//! disk as in `/sys/block`.

use super::knob::{Commands, Names};
use model::quantity::parse_size;
use multipath::Psp;

/// Names of a session's options in ESXi and in open-iscsi, if they can be set there. (open-iscsi
/// asks for MaxOutstandingR2T=1 whatever is configured.)
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

/// Returns the commands for this unit; a system without the setting has no command.
pub fn of_initiator(option: &str, value: &str, of: &Names<'_>) -> Commands {
    let (esxi, linux) = match option {
        "queue_depth" => queue_depth(value),
        "psp" => path_selection(value, of),
        "iops" | "bytes" | "use_ano" => round_robin(option, value, of),
        "sessions" => sessions(value, of),
        "quick_ack" => quick_ack(value),
        "window" => (None, bytes(value).map(window)),
        _ => session_key(option, value),
    };
    Commands {
        esxi,
        linux,
        sandstone: on_sandstone(option, value, of),
    }
}

/// Returns the command for Sandstone's own initiator.
fn on_sandstone(option: &str, value: &str, of: &Names<'_>) -> Option<String> {
    let device = of.device;
    let set = format!("sandstone initiator device set -d {device}");
    let psp_set = format!("sandstone initiator psp set -d {device}");
    let rule = |rest: &str| {
        let claimrule = "sandstone initiator claimrule add";
        format!(
            "{claimrule} {} {rest}   # for all devices of this kind",
            claim(of)
        )
    };
    Some(match option {
        "queue_depth" => format!("{set} --queue-depth {value}"),
        "max_io" => format!("{set} --max-io {value}"),
        "psp" => {
            let psp = Psp::from_name(value)?.name();
            format!("{set} -P {psp}\n{}", rule(&format!("-P {psp}")))
        }
        "iops" => format!(
            "{set} -P VMW_PSP_RR\n{psp_set} -t iops -I {value}\n{}",
            rule(&format!("-P VMW_PSP_RR -O iops={value}"))
        ),
        "bytes" => {
            let bytes = bytes(value)?;
            format!(
                "{set} -P VMW_PSP_RR\n{psp_set} -t bytes -B {bytes}\n{}",
                rule(&format!("-P VMW_PSP_RR -O bytes={bytes}"))
            )
        }
        "use_ano" => format!("{psp_set} -U {}", yes_no(is_yes(value))),
        "sessions" => format!(
            "{}\n{set} -P VMW_PSP_RR   # VMW_PSP_MRU and VMW_PSP_FIXED use one path at a time",
            modify(option, value, of)
        ),
        "first_burst" | "max_burst" | "max_recv_segment" | "max_outstanding_r2t" => {
            modify(option, value, of)
        }
        "command_timeout" => modify(option, value, of),
        "window" => modify("tcp_window", value, of),
        "immediate_data" | "initial_r2t" | "quick_ack" => modify(option, yes_no(is_yes(value)), of),
        "header_digest" | "data_digest" => {
            modify(option, yes_no(value.eq_ignore_ascii_case("crc32c")), of)
        }
        _ => return None,
    })
}

fn modify(option: &str, value: &str, of: &Names<'_>) -> String {
    let option = option.replace('_', "-");
    format!(
        "sandstone initiator modify {} --{option} {value}",
        of.target
    )
}

fn is_yes(value: &str) -> bool {
    matches!(value, "yes" | "1" | "true" | "on")
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// Returns the criteria of a claim rule for the unit.
fn claim(of: &Names<'_>) -> String {
    format!(
        "-s {} -V {} -M {}",
        of.satp,
        quoted(of.vendor),
        quoted(of.model)
    )
}

/// Quotes one word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Commands on ESXi and on Linux.
type Both = (Option<String>, Option<String>);

fn queue_depth(value: &str) -> Both {
    let esxi = format!(
        "esxcli system module parameters set -m iscsi_vmk -p iscsivmk_LunQDepth={value}\n\
         esxcli system shutdown reboot -r \"queue depth\"   # in maintenance mode; takes effect after the reboot"
    );
    let linux = format!(
        "# /etc/iscsi/iscsid.conf, for new sessions\n\
         node.session.queue_depth = {value}\n\
         # for an existing disk\n\
         echo {value} > /sys/block/DEVICE/device/queue_depth"
    );
    (Some(esxi), Some(linux))
}

fn path_selection(value: &str, of: &Names<'_>) -> Both {
    let device = of.device;
    let esxi = |psp: &str| {
        Some(format!(
            "esxcli storage nmp device set -d {device} -P {psp}\n\
             esxcli storage nmp satp rule add {} -P {psp}   # for all, after a reboot",
            claim(of)
        ))
    };
    let linux = |settings: &str| Some(multipath(settings, of));
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
            Some(format!(
                "esxcli storage nmp device set -d {device} -P VMW_PSP_RR\n\
                 esxcli storage nmp psp roundrobin deviceconfig set -d {device} -t latency"
            )),
            linux("path_grouping_policy group_by_prio\npath_selector \"service-time 0\""),
        ),
    }
}

fn round_robin(option: &str, value: &str, of: &Names<'_>) -> Both {
    let device = format!(
        "esxcli storage nmp psp roundrobin deviceconfig set -d {}",
        of.device
    );
    let rule = |options: &str| {
        format!(
            "esxcli storage nmp satp rule add {} -P VMW_PSP_RR -O {options}   # for all, after a reboot",
            claim(of)
        )
    };
    match option {
        "iops" => (
            Some(format!(
                "{device} -t iops -I {value}\n{}",
                rule(&format!("iops={value}"))
            )),
            Some(multipath(
                &format!("path_selector \"round-robin 0\"\nrr_min_io_rq {value}"),
                of,
            )),
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
            let flag = u8::from(is_yes(value));
            (Some(format!("{device} -U {flag}")), None)
        }
    }
}

/// Returns a device section of multipath.conf with these lines.
fn multipath(settings: &str, of: &Names<'_>) -> String {
    let in_quotes = |name: &str| name.replace('"', "\"\"");
    let (vendor, product) = (in_quotes(of.vendor), in_quotes(of.model));
    let lines: String = settings
        .lines()
        .map(|line| format!("        {line}\n"))
        .collect();
    format!(
        "# /etc/multipath.conf, then multipathd reconfigure\n\
         devices {{\n    device {{\n        vendor \"{vendor}\"\n        product \"{product}\"\n{lines}    }}\n}}"
    )
}

fn sessions(value: &str, of: &Names<'_>) -> Both {
    let esxi = format!(
        "esxcli iscsi networkportal add -A vmhbaN -n vmkN   # once for each of {value} vmkernel ports (port binding)\n\
         esxcli storage core adapter rescan -A vmhbaN\n\
         esxcli storage nmp device set -d {} -P VMW_PSP_RR   # VMW_PSP_MRU and VMW_PSP_FIXED use one path at a time",
        of.device
    );
    let linux =
        format!("# /etc/iscsi/iscsid.conf, for new sessions\nnode.session.nr_sessions = {value}");
    (Some(esxi), Some(linux))
}

fn quick_ack(value: &str) -> Both {
    let quick = is_yes(value);
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
        ("initial_r2t" | "immediate_data", word) => match is_yes(word) {
            true => ["true".to_owned(), "Yes".to_owned()],
            false => ["false".to_owned(), "No".to_owned()],
        },
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

    const ARRAY: Names<'static> = Names {
        device: "naa.6001405",
        vendor: "LIO-ORG",
        model: "block 1",
        satp: "VMW_SATP_DEFAULT_AA",
        target: "iqn.a:b",
    };

    #[test]
    fn the_settings_of_the_field_are_in_the_words_of_their_systems() {
        let of = |option, value| of_initiator(option, value, &ARRAY);
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
            "roundrobin deviceconfig set -d naa.6001405 -t iops -I 1",
        );
        has(
            of("iops", "1").esxi,
            "satp rule add -s VMW_SATP_DEFAULT_AA -V LIO-ORG -M 'block 1' -P VMW_PSP_RR -O iops=1",
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
    fn this_programs_own_initiator_is_told_by_its_verbs() {
        for (option, value, expected) in [
            (
                "queue_depth",
                "64",
                "device set -d naa.6001405 --queue-depth 64",
            ),
            ("psp", "rr", "device set -d naa.6001405 -P VMW_PSP_RR"),
            ("iops", "1", "psp set -d naa.6001405 -t iops -I 1"),
            (
                "iops",
                "1",
                "claimrule add -s VMW_SATP_DEFAULT_AA -V LIO-ORG -M 'block 1' -P VMW_PSP_RR -O iops=1",
            ),
            ("bytes", "8K", "psp set -d naa.6001405 -t bytes -B 8192"),
            ("sessions", "5", "modify iqn.a:b --sessions 5"),
            ("data_digest", "crc32c", "modify iqn.a:b --data-digest yes"),
            ("window", "4M", "modify iqn.a:b --tcp-window 4M"),
        ] {
            let typed = of_initiator(option, value, &ARRAY).sandstone;
            let typed = typed.expect("there is something to type");
            let expected = format!("sandstone initiator {expected}");
            assert!(typed.contains(&expected), "{expected}: {typed}");
        }
        let own = of_initiator("command_timeout", "9", &ARRAY);
        assert_eq!(
            (own.esxi, own.linux),
            (None, None),
            "what others do not have is not made up"
        );
    }
}
