//! Session parameters of other targets, under the names of RFC 7143 §13. They are taken over, or
//! named as left out.

use super::Imported;
use model::config::TargetParameters;

/// Parameters that the other programs write, but that change nothing here or have only one value
/// here.
const WITHOUT_EFFECT: [(&str, &[&str]); 15] = [
    ("AuthMethod", &["CHAP,None", "CHAP", "None"]),
    ("DataPDUInOrder", &["Yes"]),
    ("DataSequenceInOrder", &["Yes"]),
    ("DefaultTime2Retain", &["20", "0"]),
    ("DefaultTime2Wait", &["2"]),
    ("ErrorRecoveryLevel", &["0"]),
    ("IFMarkInt", &["Reject", "2048~65535"]),
    ("IFMarker", &["No"]),
    ("MaxXmitDataSegmentLength", &["262144", "1048576"]),
    ("OFMarkInt", &["Reject", "2048~65535"]),
    ("OFMarker", &["No"]),
    ("TargetAlias", &["LIO Target"]),
    ("NopInTimeout", &["30"]),
    ("RspTimeout", &["90"]),
    ("RDMAExtensions", &["Yes"]),
];

/// Parameters that are carried over if the value fits.
const CARRIED: [&str; 12] = [
    "DataDigest",
    "FirstBurstLength",
    "HeaderDigest",
    "ImmediateData",
    "InitialR2T",
    "MaxBurstLength",
    "MaxConnections",
    "MaxOutstandingR2T",
    "MaxRecvDataSegmentLength",
    "MaxSessions",
    "NopInInterval",
    "QueuedCommands",
];

/// Reports whether the other programs have a parameter of this name.
pub(super) fn is_known(key: &str) -> bool {
    CARRIED.contains(&key) || WITHOUT_EFFECT.iter().any(|(known, _)| *known == key)
}

/// Default FirstBurstLength of a target here. A smaller MaxBurstLength needs a smaller one.
const FIRST_BURST: u32 = 262_144;

/// Takes over session parameters, given as keys with values.
pub(super) fn taken_over<'a>(
    imported: &mut Imported,
    iqn: &str,
    given: impl Iterator<Item = (&'a str, &'a str)>,
) -> TargetParameters {
    let mut p = TargetParameters::default();
    let mut unknown = Vec::new();
    for (key, value) in given {
        let value = value.trim();
        let known = WITHOUT_EFFECT.iter().find(|(known, _)| *known == key);
        if !set(&mut p, key, value) && !known.is_some_and(|(_, values)| values.contains(&value)) {
            unknown.push(format!("{key} {value}"));
        }
    }
    if let Some(max) = p.max_burst_length
        && p.first_burst_length.unwrap_or(FIRST_BURST) > max
    {
        p.first_burst_length = Some(max);
    }
    if !unknown.is_empty() {
        imported.note(format!(
            "target {iqn} was imported without {}: Sandstone does not have the parameter, or the value is \
             out of range",
            unknown.join(", ")
        ));
    }
    p
}

/// Sets the parameter of a known key. Reports whether the key is known and the value fits.
fn set(p: &mut TargetParameters, key: &str, value: &str) -> bool {
    fn number<T: TryFrom<u64>>(
        field: &mut Option<T>,
        value: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> bool {
        let parsed = value.parse().ok().filter(|value| range.contains(value));
        let Some(parsed) = parsed.and_then(|value| T::try_from(value).ok()) else {
            return false;
        };
        *field = Some(parsed);
        true
    }
    fn yes(field: &mut Option<bool>, value: &str) -> bool {
        *field = match value {
            "Yes" => Some(true),
            "No" => Some(false),
            _ => return false,
        };
        true
    }
    /// Reads a digest list: the first digest is preferred, and a single digest is required.
    fn digest(field: &mut Option<bool>, value: &str) -> bool {
        match value {
            "CRC32C" => *field = Some(true),
            "None" => *field = Some(false),
            "CRC32C,None" | "None,CRC32C" => {}
            _ => return false,
        }
        true
    }
    const LENGTHS: std::ops::RangeInclusive<u64> = 512..=(1 << 24) - 1;
    match key {
        "QueuedCommands" | "default_cmdsn_depth" => number(&mut p.queue_depth, value, 1..=4096),
        "MaxConnections" => number(&mut p.max_connections, value, 1..=64),
        "MaxSessions" => value == "0" || number(&mut p.max_sessions, value, 1..=65535),
        "MaxOutstandingR2T" => number(&mut p.max_outstanding_r2t, value, 1..=65535),
        "FirstBurstLength" => number(&mut p.first_burst_length, value, LENGTHS),
        "MaxBurstLength" => number(&mut p.max_burst_length, value, LENGTHS),
        "MaxRecvDataSegmentLength" => number(&mut p.max_recv_data_segment_length, value, LENGTHS),
        "NopInInterval" => number(&mut p.nop_in_interval_s, value, 0..=3600),
        "ImmediateData" => yes(&mut p.immediate_data, value),
        "InitialR2T" => yes(&mut p.initial_r2t, value),
        "HeaderDigest" => digest(&mut p.require_header_digest, value),
        "DataDigest" => digest(&mut p.require_data_digest, value),
        _ => false,
    }
}
