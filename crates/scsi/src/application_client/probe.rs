//! Discovery of a logical unit: the commands to send, their order, and the sum of the answers.
//!
//! [`Probe::next`] gives a command, and its answer goes to [`Probe::answer`], until there is no
//! command left. Every new nexus meets unit attentions, and a device may be becoming ready. Both
//! cost a repetition, not the probe. If a device does not know VPD pages, READ CAPACITY (16) or
//! mode pages, the portrait keeps values that are safe to rely on.

use super::cdb::{self, Cdb};
use super::identification::{Identification, Inquiry};
use super::shape::{self, BlockLimits, Capacity};
use super::target_port_groups::{self, TargetPortGroup};

/// Number of repetitions before a command is given up.
const MAX_TRIES: u8 = 12;
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const BUSY: u8 = 0x08;

/// Knowledge about a logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Portrait {
    /// The standard INQUIRY data.
    pub inquiry: Inquiry,
    /// Name of the unit, and the port that answered.
    pub identification: Identification,
    /// Unit serial number (page 80h).
    pub serial: Option<String>,
    /// Size of the unit.
    pub capacity: Option<Capacity>,
    /// Limits of one command.
    pub limits: BlockLimits,
    /// MEDIUM ROTATION RATE: 0 not reported, 1 a medium that does not rotate.
    pub rotation_rate: u16,
    /// Whether WRITE SAME (16) may unmap.
    pub write_same_unmaps: bool,
    /// Whether acknowledged writes may be in a volatile cache.
    pub write_cache: bool,
    /// Whether FUA is obeyed (DPOFUA).
    pub force_unit_access: bool,
    /// Whether writing is forbidden (WP).
    pub write_protected: bool,
    /// States of the unit's target port groups, empty without ALUA.
    pub groups: Vec<TargetPortGroup>,
}

/// Reasons why a probe of a unit failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// Missing unit, or a unit that is no disk. The number is its peripheral device type.
    NoDisk(u8),
    /// The unit answers a command that every unit must know with this status and sense data.
    Refused {
        /// The command's operation code.
        opcode: u8,
        /// Status of the answer.
        status: u8,
        /// Sense data of the answer.
        sense: Vec<u8>,
    },
    /// An answer is malformed.
    Malformed(&'static str),
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoDisk(0x1f) => f.write_str("the target has no such logical unit"),
            Self::NoDisk(kind) => write!(
                f,
                "the logical unit is not a disk (peripheral device type {kind:#04x})"
            ),
            Self::Refused {
                opcode,
                status,
                sense,
            } => {
                write!(
                    f,
                    "the target refuses command {opcode:#04x} with status {status:#04x}"
                )?;
                let key = sense.first().map(|code| code & 0x7f);
                match (key, sense.as_slice()) {
                    (Some(0x70 | 0x71), [_, _, key, _, _, _, _, _, _, _, _, _, asc, ascq, ..]) => {
                        write!(f, ", sense {:x}/{asc:02x}/{ascq:02x}", key & 0xf)
                    }
                    (Some(0x72 | 0x73), [_, key, asc, ascq, ..]) => {
                        write!(f, ", sense {:x}/{asc:02x}/{ascq:02x}", key & 0xf)
                    }
                    _ => Ok(()),
                }
            }
            Self::Malformed(what) => write!(f, "the target's answer is malformed: {what}"),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Commands of a probe, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Inquiry,
    SupportedPages,
    Page(u8),
    Ready,
    Capacity16,
    Capacity10,
    Caching,
    Groups,
    Done,
}

/// Probe of a logical unit, which leads to a [`Portrait`].
#[derive(Debug)]
pub struct Probe {
    portrait: Portrait,
    /// Pages that the unit lists.
    pages: Vec<u8>,
    question: Question,
    tries: u8,
}

/// Next action of the caller after an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum ProbeProgress {
    /// Ask [`Probe::next`] and send the command. With `later` the unit is busy: wait a moment
    /// first.
    Go {
        /// Whether to wait a moment.
        later: bool,
    },
    /// All is known.
    Known(Box<Portrait>),
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            portrait: Portrait {
                write_cache: true,
                ..Portrait::default()
            },
            pages: Vec::new(),
            question: Question::Inquiry,
            tries: 0,
        }
    }
}

impl Probe {
    /// Returns the command to send, and the length of the data to be expected.
    pub fn next(&self) -> (Cdb, u32) {
        let short = u32::from(cdb::SHORT_ALLOCATION);
        match self.question {
            Question::Inquiry => (cdb::inquiry(), short),
            Question::SupportedPages => (cdb::vital_product_data(0), short),
            Question::Page(page) => (cdb::vital_product_data(page), short),
            Question::Ready | Question::Done => (cdb::test_unit_ready(), 0),
            Question::Capacity16 => (cdb::read_capacity_16(), 32),
            Question::Capacity10 => (cdb::read_capacity_10(), 8),
            Question::Caching => (cdb::mode_sense_caching(), short),
            Question::Groups => (cdb::report_target_port_groups(4096), 4096),
        }
    }

    /// Takes the answer to the last command.
    ///
    /// # Errors
    /// [`ProbeError`] if there is no unit to get to know, or if the unit refuses a command that
    /// every unit must answer.
    pub fn answer(
        &mut self,
        status: u8,
        sense: &[u8],
        data: &[u8],
    ) -> Result<ProbeProgress, ProbeError> {
        if status != GOOD {
            return self.refused(status, sense);
        }
        self.tries = 0;
        self.question = match self.question {
            Question::Inquiry => {
                let inquiry = Inquiry::parse(data)
                    .ok_or(ProbeError::Malformed("the INQUIRY data is too short"))?;
                if !inquiry.connected || inquiry.device_type != 0 {
                    let kind = if inquiry.connected {
                        inquiry.device_type
                    } else {
                        0x1f
                    };
                    return Err(ProbeError::NoDisk(kind));
                }
                self.portrait.inquiry = inquiry;
                Question::SupportedPages
            }
            Question::SupportedPages => {
                let count = usize::from(data.get(3).copied().unwrap_or(0));
                self.pages = data.iter().skip(4).take(count).copied().collect();
                self.after_page(0)
            }
            Question::Page(page) => {
                self.take_page(page, data);
                self.after_page(page)
            }
            Question::Ready => Question::Capacity16,
            Question::Capacity16 => {
                let capacity = Capacity::parse_16(data);
                self.portrait.capacity =
                    Some(capacity.ok_or(ProbeError::Malformed("READ CAPACITY (16)"))?);
                Question::Caching
            }
            Question::Capacity10 => {
                let capacity = Capacity::parse_10(data);
                self.portrait.capacity =
                    Some(capacity.ok_or(ProbeError::Malformed("READ CAPACITY (10)"))?);
                Question::Caching
            }
            Question::Caching => {
                self.portrait.write_cache = shape::write_cache_enabled(data);
                let parameter = data.get(2).copied().unwrap_or(0);
                self.portrait.force_unit_access = parameter & 0x10 != 0;
                self.portrait.write_protected = parameter & 0x80 != 0;
                self.after_caching()
            }
            Question::Groups => {
                self.portrait.groups = target_port_groups::parse(data);
                Question::Done
            }
            Question::Done => Question::Done,
        };
        Ok(self.progress())
    }

    fn progress(&mut self) -> ProbeProgress {
        if self.question == Question::Done {
            return ProbeProgress::Known(Box::new(std::mem::take(&mut self.portrait)));
        }
        ProbeProgress::Go { later: false }
    }

    fn refused(&mut self, status: u8, sense: &[u8]) -> Result<ProbeProgress, ProbeError> {
        let key = match sense.first().map(|code| code & 0x7f) {
            Some(0x70 | 0x71) => sense.get(2),
            Some(0x72 | 0x73) => sense.get(1),
            _ => None,
        };
        let key = key.map_or(0, |key| key & 0xf);
        self.tries += 1;
        // UNIT ATTENTION and ABORTED COMMAND are over once reported. NOT READY may end soon.
        let over = status == CHECK_CONDITION && matches!(key, 0x6 | 0xb);
        let soon = status == BUSY || status == 0x28 || (status == CHECK_CONDITION && key == 0x2);
        if (over || soon) && self.tries < MAX_TRIES {
            return Ok(ProbeProgress::Go { later: soon });
        }
        self.tries = 0;
        self.question = match self.question {
            // Standby units answer nothing about their medium. Another path will.
            Question::Ready | Question::Capacity10 if key == 0x2 => self.after_caching(),
            Question::Capacity16 if key == 0x2 => self.after_caching(),
            Question::Capacity16 => Question::Capacity10,
            Question::SupportedPages => Question::Ready,
            Question::Page(page) => self.after_page(page),
            Question::Caching => self.after_caching(),
            Question::Groups => Question::Done,
            Question::Inquiry | Question::Ready | Question::Capacity10 | Question::Done => {
                let opcode = self.next().0[0];
                return Err(ProbeError::Refused {
                    opcode,
                    status,
                    sense: sense.to_vec(),
                });
            }
        };
        Ok(self.progress())
    }

    /// Returns the question for the next page worth reading after `page`.
    fn after_page(&self, page: u8) -> Question {
        let wanted = [0x80, 0x83, 0xb0, 0xb1, 0xb2].into_iter();
        let mut left = wanted.filter(|next| *next > page && self.pages.contains(next));
        left.next().map_or(Question::Ready, Question::Page)
    }

    fn after_caching(&self) -> Question {
        if self.portrait.inquiry.tpgs == 0 {
            Question::Done
        } else {
            Question::Groups
        }
    }

    fn take_page(&mut self, page: u8, data: &[u8]) {
        let portrait = &mut self.portrait;
        match page {
            0x80 if data.get(1) == Some(&0x80) => {
                let length = usize::from(data.get(3).copied().unwrap_or(0));
                let text = data.iter().skip(4).take(length);
                let text: String = text
                    .filter(|byte| (0x20..0x7f).contains(*byte))
                    .map(|byte| char::from(*byte))
                    .collect();
                portrait.serial = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            }
            0x83 => portrait.identification = Identification::parse(data),
            0xb0 => portrait.limits = BlockLimits::parse(data),
            0xb1 => portrait.rotation_rate = shape::rotation_rate(data),
            0xb2 => portrait.write_same_unmaps = shape::write_same_unmaps(data),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer_of_a_disk(cdb: &Cdb) -> (u8, Vec<u8>, Vec<u8>) {
        let good = |data: &[u8]| (GOOD, Vec::new(), data.to_vec());
        match (cdb[0], cdb[1], cdb[2]) {
            (0x12, 0, _) => {
                let mut data = [b' '; 36];
                (data[0], data[5]) = (0, 0x10);
                good(&data)
            }
            (0x12, 1, 0) => good(&[0, 0, 0, 4, 0x80, 0x83, 0xb1, 0xb2]),
            (0x12, 1, 0x80) => good(&[0, 0x80, 0, 4, b' ', b'a', b'b', b'c']),
            (0x12, 1, 0x83) => good(&[0, 0x83, 0, 12, 1, 3, 0, 8, 0x52, 1, 2, 3, 4, 5, 6, 7]),
            (0x12, 1, 0xb1) => good(&[0, 0xb1, 0, 2, 0x1c, 0x20]),
            (0x12, 1, 0xb2) => good(&[0, 0xb2, 0, 4, 0, 0xc0, 0, 0]),
            (0x00, ..) => good(&[]),
            (0x9e, ..) => good(&[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 2, 0, 0, 3, 0xc0, 0]),
            (0x1a, ..) => good(&[0, 0, 0, 0, 8, 18, 0]),
            (0xa3, ..) => good(&[0, 0, 0, 8, 0, 0xf, 0, 1, 0, 0, 0, 0]),
            other => panic!("{other:x?}"),
        }
    }

    fn run(
        mut answer: impl FnMut(&Cdb) -> (u8, Vec<u8>, Vec<u8>),
    ) -> Result<Box<Portrait>, ProbeError> {
        let mut probe = Probe::default();
        for _ in 0..500 {
            let (status, sense, data) = answer(&probe.next().0);
            if let ProbeProgress::Known(portrait) = probe.answer(status, &sense, &data)? {
                return Ok(portrait);
            }
        }
        panic!("the probe does not end");
    }

    #[test]
    fn a_disk_is_known_in_spite_of_unit_attentions() {
        let mut count = 0;
        let portrait = run(|cdb| {
            count += 1;
            if count % 2 == 1 {
                return (CHECK_CONDITION, vec![0x72, 6, 0x29, 0], Vec::new());
            }
            answer_of_a_disk(cdb)
        });
        let portrait = portrait.expect("a disk");
        assert_eq!(
            portrait.identification.name.as_deref(),
            Some("naa.5201020304050607")
        );
        assert_eq!(portrait.serial.as_deref(), Some("abc"));
        assert_eq!(portrait.capacity.map(|c| c.blocks), Some(8));
        assert!(portrait.write_same_unmaps && !portrait.write_cache);
        assert_eq!(portrait.rotation_rate, 7200);
        assert_eq!(portrait.groups.len(), 1);
    }

    #[test]
    fn a_unit_in_standby_is_known_without_its_size() {
        let portrait = run(|cdb| match cdb[0] {
            0x12 | 0xa3 => answer_of_a_disk(cdb),
            _ => (
                CHECK_CONDITION,
                vec![0x70, 0, 2, 0, 0, 0, 0, 10, 0, 0, 0, 0, 4, 0x0b],
                Vec::new(),
            ),
        });
        let portrait = portrait.expect("a disk");
        assert_eq!((portrait.capacity, portrait.groups.len()), (None, 1));
    }

    #[test]
    fn what_is_no_disk_is_said() {
        let error =
            run(|_| (GOOD, Vec::new(), [&[0x7f][..], &[0; 35]].concat())).expect_err("nothing");
        assert_eq!(error.to_string(), "the target has no such logical unit");
        let error = run(|_| (0x18, Vec::new(), Vec::new())).expect_err("reserved");
        assert_eq!(
            error.to_string(),
            "the target refuses command 0x12 with status 0x18"
        );
    }

    proptest! {
        #[test]
        fn every_probe_ends(answers in proptest::collection::vec((0u8..4, proptest::collection::vec(any::<u8>(), 0..64)), 1..40)) {
            let mut answers = answers.iter().cycle();
            let _ = run(|_| {
                let (status, bytes) = answers.next().expect("endless");
                (status * 2 % 3 * 4, bytes.clone(), bytes.clone())
            });
        }
    }
}
