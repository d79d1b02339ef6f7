//! The logical unit of a run, its sessions, and the requested settings that were in force. A
//! negotiated value may differ from the offered one, and a path that is down carries nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::results::Run;
use model::initiator::view::{InitiatorDevice, InitiatorSession, SessionState};
use model::quantity::parse_size;
use multipath::Psp;

/// Identity of a logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Name: `naa.…`, `eui.…`, `t10.…` or `mpx.…`.
    pub name: String,
    /// T10 vendor.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision.
    pub revision: String,
    /// Unit serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Storage array type that claims the unit.
    pub satp: String,
}

impl Unit {
    /// Reads the identity from the adapter's view.
    pub fn of(device: &InitiatorDevice) -> Self {
        Self {
            name: device.nmp.name.clone(),
            vendor: device.vendor.clone(),
            product: device.model.clone(),
            revision: device.revision.clone(),
            serial: device.serial.clone(),
            satp: device.nmp.satp.name().to_owned(),
        }
    }
}

/// State in which a unit was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Path selection in force.
    pub psp: String,
    /// Most I/Os at the device at once (DQLEN).
    pub queue_depth: u32,
    /// Most bytes of one command.
    pub max_io: u32,
    /// Every session that was wanted.
    pub sessions: Vec<Session>,
}

/// Session that was wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The portal.
    pub portal: String,
    /// Address to which a redirection led.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected_to: Option<String>,
    /// Local address of the connection; `None` without a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Whether the session was up.
    pub up: bool,
    /// Reason why the session was not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Negotiated keys, by their names in RFC 7143.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, String>,
}

impl Session {
    fn of(session: &InitiatorSession) -> Self {
        let up = matches!(session.state, SessionState::LoggedIn | SessionState::Silent);
        let why = || match (&session.last_error, session.state) {
            (Some(error), _) => error.clone(),
            (None, SessionState::Connecting) => "it has not answered yet".to_owned(),
            (None, state) => state.name().to_owned(),
        };
        Self {
            portal: session.portal.clone(),
            redirected_to: session.redirected_to.clone(),
            source: session.source.clone(),
            up,
            reason: (!up).then(why),
            keys: session.parameters.iter().cloned().collect(),
        }
    }
}

impl Reached {
    /// Reads the state from the adapter's view.
    pub fn of(device: &InitiatorDevice, sessions: &[InitiatorSession]) -> Self {
        Self {
            psp: device.nmp.psp.name().to_owned(),
            queue_depth: device.nmp.queue.dqlen,
            max_io: device.max_io,
            sessions: sessions.iter().map(Session::of).collect(),
        }
    }

    /// Lists each session that is not up, with its portal and the reason.
    pub fn missing(&self) -> Vec<String> {
        let down = self.sessions.iter().filter(|session| !session.up);
        down.map(|session| {
            let reason = session.reason.as_deref().unwrap_or("the reason is unknown");
            format!("no session through {}: {reason}", session.portal)
        })
        .collect()
    }

    /// Returns the values of a key in the sessions, each once.
    fn key(&self, name: &str) -> BTreeSet<&str> {
        let values = self
            .sessions
            .iter()
            .filter_map(|session| session.keys.get(name));
        values.map(String::as_str).collect()
    }

    /// Lists the settings among `asked` that are not in force, with the values that are.
    pub fn not_as_asked<'a>(&self, asked: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        let mut remarks = Vec::new();
        for (name, asked) in asked {
            if let Some((_, key)) = NEGOTIATED.iter().find(|(option, _)| *option == name) {
                let wanted = in_words_of_the_key(name, asked);
                let values = self.key(key);
                if values.iter().any(|value| *value != wanted) {
                    let values: Vec<&str> = values.into_iter().collect();
                    remarks.push(format!(
                        "{name}={asked} was negotiated to {key}={}",
                        values.join(" and ")
                    ));
                }
            }
            if name == "psp" && Psp::from_name(asked).is_some_and(|psp| psp.name() != self.psp) {
                remarks.push(format!(
                    "psp={asked} was asked for, but {} was in force",
                    self.psp
                ));
            }
            if name == "queue_depth" && asked.parse() != Ok(self.queue_depth) {
                let depth = self.queue_depth;
                remarks.push(format!(
                    "queue_depth={asked} was asked for, but {depth} was in force"
                ));
            }
        }
        remarks
    }
}

/// Session options that are negotiated, each with its key.
const NEGOTIATED: [(&str, &str); 8] = [
    ("header_digest", "HeaderDigest"),
    ("data_digest", "DataDigest"),
    ("initial_r2t", "InitialR2T"),
    ("immediate_data", "ImmediateData"),
    ("first_burst", "FirstBurstLength"),
    ("max_burst", "MaxBurstLength"),
    ("max_recv_segment", "MaxRecvDataSegmentLength"),
    ("max_outstanding_r2t", "MaxOutstandingR2T"),
];

/// Lists the settings of a run that were not in force, with the values that were.
pub fn not_in_force(run: &Run) -> Vec<String> {
    let settings = run.settings.iter();
    let asked = settings.map(|(name, value)| (name.as_str(), value.as_str()));
    let reached = run.reached.as_ref();
    reached.map_or_else(Vec::new, |reached| reached.not_as_asked(asked))
}

/// Translates a value of an option into the words of its key.
fn in_words_of_the_key(option: &str, value: &str) -> String {
    let lower = value.to_ascii_lowercase();
    match (option, lower.as_str()) {
        ("header_digest" | "data_digest", "crc32c") => "CRC32C".to_owned(),
        ("header_digest" | "data_digest", _) => "None".to_owned(),
        ("initial_r2t" | "immediate_data", "yes" | "1" | "true" | "on") => "Yes".to_owned(),
        ("initial_r2t" | "immediate_data", _) => "No".to_owned(),
        // 16M is one byte more than the key takes.
        _ => parse_size(value).map_or(lower, |size| size.min(0xff_ffff).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;
    use crate::profile;
    use crate::results::Measurement;

    fn run(settings: &[(&str, &str)], keys: &[(&str, &str)]) -> Run {
        let own = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        Run {
            round: 0,
            settings: own(settings),
            workload: profile::find("oltp").expect("built in").workloads[0].clone(),
            parameters: Parameters::default(),
            reached: Some(Reached {
                psp: "VMW_PSP_RR".to_owned(),
                queue_depth: 64,
                max_io: 1 << 20,
                sessions: vec![Session {
                    up: true,
                    keys: own(keys),
                    ..Session::default()
                }],
            }),
            measurement: Measurement::default(),
        }
    }

    #[test]
    fn what_was_negotiated_to_another_value_is_said() {
        let asked = [
            ("data_digest", "none"),
            ("first_burst", "256K"),
            ("initial_r2t", "no"),
            ("max_burst", "16M"),
            ("max_outstanding_r2t", "8"),
            ("psp", "rr"),
            ("queue_depth", "128"),
        ];
        let keys = [
            ("DataDigest", "None"),
            ("FirstBurstLength", "65536"),
            ("InitialR2T", "Yes"),
            ("MaxBurstLength", "16777215"),
            ("MaxOutstandingR2T", "1"),
        ];
        let expected = [
            "first_burst=256K was negotiated to FirstBurstLength=65536",
            "initial_r2t=no was negotiated to InitialR2T=Yes",
            "max_outstanding_r2t=8 was negotiated to MaxOutstandingR2T=1",
            "queue_depth=128 was asked for, but 64 was in force",
        ];
        assert_eq!(not_in_force(&run(&asked, &keys)), expected);
        let mut unknown = run(&asked, &keys);
        unknown.reached = None;
        assert!(not_in_force(&unknown).is_empty());
    }
}
