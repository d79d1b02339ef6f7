//! A disk's answer: what it calls failed, how it is, and its counts of errors.
//!
//! The fields are those of smartctl's JSON, for ATA, NVMe and SCSI disks alike.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Bits of smartctl's status: the disk fails, or an attribute of wear is below its threshold.
const FAILING: u64 = 1 << 3;
const BELOW_THRESHOLD: u64 = 1 << 4;

/// Attributes of ATA disks that count errors, by number.
const ATA_COUNTS: [(u64, &str); 5] = [
    (5, "reallocated sectors"),
    (187, "uncorrectable errors reported"),
    (197, "sectors pending reallocation"),
    (198, "uncorrectable sectors offline"),
    (199, "errors of the cable"),
];

/// Bits of an NVMe disk's critical warning.
const NVME_WARNINGS: [(u64, &str); 6] = [
    (1 << 0, "its spare blocks are below their threshold"),
    (1 << 1, "its temperature is beyond its limit"),
    (1 << 2, "its reliability is degraded"),
    (1 << 3, "it has become read-only"),
    (1 << 4, "the backup of its volatile memory failed"),
    (1 << 5, "its persistent memory has become unreliable"),
];

/// Report of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Whether the disk says that it is well. `None` means that it does not say.
    pub(crate) passed: Option<bool>,
    /// Things that the disk itself calls failed.
    pub(crate) failing: Vec<String>,
    pub(crate) temperature_c: Option<i64>,
    pub(crate) power_on_hours: Option<u64>,
    /// Used part of the life that the disk is rated for, in per cent.
    pub(crate) used_percent: Option<u64>,
    /// Counts of errors, by what they count.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// Part of smartctl's answer that is read. Unknown fields are left out, and missing ones are
/// unknown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    smartctl: Smartctl,
    smart_status: Option<SmartStatus>,
    temperature: Option<Temperature>,
    power_on_time: Option<PowerOnTime>,
    nvme_smart_health_information_log: Option<NvmeLog>,
    ata_smart_attributes: Option<AtaAttributes>,
    scsi_grown_defect_list: Option<u64>,
    scsi_percentage_used_endurance_indicator: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Smartctl {
    exit_status: u64,
    messages: Vec<Message>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    string: String,
}

#[derive(Debug, Deserialize)]
struct SmartStatus {
    passed: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Temperature {
    current: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PowerOnTime {
    hours: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NvmeLog {
    critical_warning: u64,
    available_spare: Option<u64>,
    available_spare_threshold: Option<u64>,
    percentage_used: Option<u64>,
    media_errors: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtaAttributes {
    table: Vec<AtaAttribute>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AtaAttribute {
    id: u64,
    name: String,
    when_failed: String,
    raw: Raw,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    value: u64,
}

impl Report {
    /// Reads an answer.
    ///
    /// # Errors
    /// The answer is not what smartctl writes, or says that the disk could not be asked: in words
    /// for people.
    pub(crate) fn read(answer: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(answer)
            .map_err(|error| format!("the answer of smartctl is no JSON: {error}"))?;
        if value.get("smartctl").is_none() {
            return Err("the answer is not one of smartctl".to_owned());
        }
        let answer: Answer = serde_json::from_value(value)
            .map_err(|error| format!("the answer of smartctl is not understood: {error}"))?;
        let report = Self::of(&answer);
        if report == Self::default() {
            return Err(answer.reason());
        }
        Ok(report)
    }

    fn of(answer: &Answer) -> Self {
        let mut report = Self {
            passed: answer.smart_status.as_ref().map(|status| status.passed),
            temperature_c: answer.temperature.as_ref().and_then(|of| of.current),
            power_on_hours: answer.power_on_time.as_ref().and_then(|of| of.hours),
            used_percent: answer.scsi_percentage_used_endurance_indicator,
            ..Self::default()
        };
        if let Some(defects) = answer.scsi_grown_defect_list {
            report.count("grown defects", defects);
        }
        if let Some(log) = &answer.nvme_smart_health_information_log {
            report.nvme(log);
        }
        if let Some(attributes) = &answer.ata_smart_attributes {
            report.ata(attributes);
        }
        let status = answer.smartctl.exit_status;
        let is_failed = report.passed == Some(false) || status & FAILING != 0;
        if report.failing.is_empty() && is_failed {
            report.fails("it says that it fails");
        }
        if report.failing.is_empty() && status & BELOW_THRESHOLD != 0 {
            report.fails("an attribute of it is below its threshold");
        }
        report
    }

    fn fails(&mut self, why: impl Into<String>) {
        self.failing.push(why.into());
    }

    fn count(&mut self, what: &str, count: u64) {
        self.counts.insert(what.to_owned(), count);
    }

    fn nvme(&mut self, log: &NvmeLog) {
        self.used_percent = log.percentage_used;
        if let Some(errors) = log.media_errors {
            self.count("media errors", errors);
        }
        for (bit, words) in NVME_WARNINGS {
            if log.critical_warning & bit != 0 {
                self.fails(words);
            }
        }
        let spare = log.available_spare.zip(log.available_spare_threshold);
        if spare.is_some_and(|(left, least)| left < least) && self.failing.is_empty() {
            self.fails(NVME_WARNINGS[0].1);
        }
    }

    fn ata(&mut self, attributes: &AtaAttributes) {
        for attribute in &attributes.table {
            if attribute.when_failed == "now" {
                self.fails(format!("{} is below its threshold", attribute.name));
            }
            let mut known = ATA_COUNTS.iter();
            if let Some((_, what)) = known.find(|(id, _)| *id == attribute.id) {
                // Some disks keep other figures in the upper half.
                self.count(what, attribute.raw.value & u64::from(u32::MAX));
            }
        }
    }
}

impl Answer {
    /// Returns the reason why nothing is known, as smartctl says it.
    fn reason(&self) -> String {
        let mut messages = self.smartctl.messages.iter();
        match messages.next() {
            Some(message) => message.string.trim().to_owned(),
            None => "the disk tells nothing of its health".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Report {
        Report::read(json.as_bytes()).expect("a report")
    }

    fn counts(report: &Report) -> Vec<(&str, u64)> {
        let counts = report.counts.iter();
        counts
            .map(|(what, count)| (what.as_str(), *count))
            .collect()
    }

    #[test]
    fn an_ata_disk_that_is_well() {
        let report = read(include_str!("../tests/answers/ata-well.json"));
        assert_eq!(report.passed, Some(true));
        assert_eq!(report.failing, Vec::<String>::new());
        assert_eq!(report.temperature_c, Some(34));
        assert_eq!(report.power_on_hours, Some(21_304));
        let expected = [
            ("errors of the cable", 0),
            ("reallocated sectors", 8),
            ("sectors pending reallocation", 0),
            ("uncorrectable errors reported", 0),
            ("uncorrectable sectors offline", 0),
        ];
        assert_eq!(counts(&report), expected);
    }

    #[test]
    fn an_ata_disk_that_fails_says_which_attribute() {
        let report = read(include_str!("../tests/answers/ata-failing.json"));
        assert_eq!(report.passed, Some(false));
        assert_eq!(
            report.failing,
            ["Reallocated_Sector_Ct is below its threshold"]
        );
    }

    #[test]
    fn an_nvme_disk_names_its_warnings() {
        let report = read(include_str!("../tests/answers/nvme-warning.json"));
        assert_eq!(
            report.failing,
            [
                "its spare blocks are below their threshold",
                "its reliability is degraded"
            ]
        );
        assert_eq!(report.used_percent, Some(103));
        assert_eq!(counts(&report), [("media errors", 12)]);
        // The spare is judged even if the disk gives no warning.
        let quiet = read(
            r#"{"smartctl":{},"nvme_smart_health_information_log":
               {"available_spare":4,"available_spare_threshold":5}}"#,
        );
        assert_eq!(quiet.failing, [NVME_WARNINGS[0].1]);
    }

    #[test]
    fn a_scsi_disk_counts_its_defects() {
        let report = read(include_str!("../tests/answers/scsi-well.json"));
        assert_eq!(report.passed, Some(true));
        assert_eq!(counts(&report), [("grown defects", 3)]);
    }

    #[test]
    fn the_status_alone_tells_of_a_failure() {
        for (status, words) in [
            (8, "it says that it fails"),
            (16, "an attribute of it is below its threshold"),
        ] {
            let report = read(&format!("{{\"smartctl\":{{\"exit_status\":{status}}}}}"));
            assert_eq!(report.failing, [words]);
        }
        // Old errors in a log are no failure: bit 6.
        let old = r#"{"smartctl":{"exit_status":64},"smart_status":{"passed":true}}"#;
        assert_eq!(read(old).failing, Vec::<String>::new());
    }

    #[test]
    fn an_answer_without_a_report_says_why() {
        for (answer, expected) in [
            (
                &include_bytes!("../tests/answers/standby.json")[..],
                "Device is in STANDBY mode, exit(0)",
            ),
            (
                b"{\"smartctl\":{\"exit_status\":0}}",
                "the disk tells nothing of its health",
            ),
            (b"{}", "the answer is not one of smartctl"),
        ] {
            assert_eq!(Report::read(answer).expect_err("no report"), expected);
        }
        for broken in [&b""[..], b"smartctl 7.3", b"{\"smartctl\":7}"] {
            let error = Report::read(broken).expect_err("no report");
            assert!(error.starts_with("the answer of smartctl is"), "{error}");
        }
    }
}
