//! Sense data read on the client's side: the meaning of a failed command, and the right reaction.
//!
//! [`SenseCode::decode`] reads both encodings (SPC-4 4.5.2 and 4.5.3). [`SenseCode::reaction`]
//! alone maps key and additional sense code (SPC-4 tables 54 and 56) to a [`Reaction`]. So
//! multipathing, scanning and error messages agree.

use std::fmt;

use super::target_port_groups::AccessState;

/// Sense key, additional sense code, and the fields that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenseCode {
    /// Sense key, as on the wire. Targets may send keys that [`SenseKey`](crate::SenseKey) lacks,
    /// because it has only those of the device server.
    pub key: u8,
    /// ADDITIONAL SENSE CODE.
    pub asc: u8,
    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub ascq: u8,
    /// INFORMATION field if it is valid: mostly a logical block address.
    pub information: Option<u64>,
    /// Whether the data reports an earlier command (response codes 71h and 73h, SPC-4 4.5.5).
    pub deferred: bool,
}

/// Reactions of the client to a command that ended with sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The command succeeded (NO SENSE, RECOVERED ERROR, COMPLETED).
    Succeeded,
    /// An event came before the command, which was not performed: repeat the command.
    UnitAttention,
    /// The target aborted the command. A repetition may succeed.
    Aborted,
    /// The unit will serve the command later without help (becoming ready, an operation in
    /// progress).
    Later,
    /// The port refuses the command because of this asymmetric access state (02/04/0A to 0C):
    /// use another path.
    AccessState(AccessState),
    /// Access states changed (2A/06, 2A/07): ask for them (REPORT TARGET PORT GROUPS), and repeat.
    AccessStateChanged,
    /// Reservations or registrations were changed by another host (2A/03 to 2A/05): check whether
    /// this path still has its own, and repeat.
    ReservationsChanged,
    /// The capacity changed (2A/09): ask for it, and repeat.
    CapacityChanged,
    /// The list of logical units changed (3F/0E): scan, and repeat.
    LunsChanged,
    /// INQUIRY data or the identity of the unit changed (3F/03, 3F/05): identify it, and repeat.
    IdentityChanged,
    /// No logical unit is behind this path (25/00).
    UnitGone,
    /// The unit is not ready and does not say that it will become ready.
    NotReady,
    /// The thin pool is full (27/07). A repetition does not help.
    NoSpace,
    /// Writing is forbidden.
    WriteProtected,
    /// Blocks cannot be read or written.
    MediumError,
    /// The device failed. Another path may lead around the failure.
    HardwareError,
    /// The command is wrong or not supported.
    IllegalRequest,
    /// The data differs from the stored data.
    Miscompare,
    /// Any other error. A repetition does not help.
    Other,
}

impl std::fmt::Display for Reaction {
    /// Writes the sense that leads to the reaction, in the standard's words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Succeeded => "no error",
            Self::UnitAttention => "UNIT ATTENTION",
            Self::Aborted => "ABORTED COMMAND",
            Self::Later => "NOT READY, becoming ready",
            Self::AccessState(state) => match state {
                AccessState::Standby => "NOT READY, target port in standby state",
                AccessState::Transitioning => "NOT READY, asymmetric access state transition",
                _ => "NOT READY, target port in unavailable state",
            },
            Self::AccessStateChanged => "UNIT ATTENTION, asymmetric access state changed",
            Self::ReservationsChanged => "UNIT ATTENTION, reservations preempted or released",
            Self::CapacityChanged => "UNIT ATTENTION, capacity data has changed",
            Self::LunsChanged => "UNIT ATTENTION, reported LUNs data has changed",
            Self::IdentityChanged => "UNIT ATTENTION, inquiry data has changed",
            Self::UnitGone => "ILLEGAL REQUEST, logical unit not supported",
            Self::NotReady => "NOT READY",
            Self::NoSpace => "DATA PROTECT, space allocation failed write protect",
            Self::WriteProtected => "DATA PROTECT, write protected",
            Self::MediumError => "MEDIUM ERROR",
            Self::HardwareError => "HARDWARE ERROR",
            Self::IllegalRequest => "ILLEGAL REQUEST",
            Self::Miscompare => "MISCOMPARE",
            Self::Other => "an error that a retry cannot mend",
        })
    }
}

/// Sense keys (SPC-4 table 54) that decide a reaction.
mod key {
    pub(super) const NO_SENSE: u8 = 0x0;
    pub(super) const RECOVERED_ERROR: u8 = 0x1;
    pub(super) const NOT_READY: u8 = 0x2;
    pub(super) const MEDIUM_ERROR: u8 = 0x3;
    pub(super) const HARDWARE_ERROR: u8 = 0x4;
    pub(super) const ILLEGAL_REQUEST: u8 = 0x5;
    pub(super) const UNIT_ATTENTION: u8 = 0x6;
    pub(super) const DATA_PROTECT: u8 = 0x7;
    pub(super) const ABORTED_COMMAND: u8 = 0xb;
    pub(super) const MISCOMPARE: u8 = 0xe;
    pub(super) const COMPLETED: u8 = 0xf;
}

/// Type of the descriptor with the INFORMATION field (SPC-4 4.5.2.2).
const INFORMATION_DESCRIPTOR: u8 = 0x00;

impl SenseCode {
    /// Reads fixed (70h, 71h) and descriptor (72h, 73h) format data, even if it is cut short.
    ///
    /// Returns `None` if the data has neither format or no sense key. Treat a CHECK CONDITION with
    /// that data as [`Reaction::Aborted`], because nothing says that the command was performed.
    pub fn decode(sense: &[u8]) -> Option<Self> {
        let response_code = sense.first()? & 0x7f;
        let deferred = response_code & 1 == 1;
        let byte = |at: usize| sense.get(at).copied().unwrap_or(0);
        match response_code {
            0x70 | 0x71 => {
                // Bytes beyond ADDITIONAL SENSE LENGTH are undefined, and count as zero.
                let len = 8 + usize::from(byte(7));
                let within = |at: usize| if at < len { byte(at) } else { 0 };
                let valid = sense[0] & 0x80 != 0 && sense.len() >= 7;
                Some(Self {
                    key: sense.get(2)? & 0x0f,
                    asc: within(12),
                    ascq: within(13),
                    information: valid.then(|| be(&sense[3..7])),
                    deferred,
                })
            }
            0x72 | 0x73 => Some(Self {
                key: sense.get(1)? & 0x0f,
                asc: byte(2),
                ascq: byte(3),
                information: information_descriptor(sense),
                deferred,
            }),
            _ => None,
        }
    }

    /// Reports whether data is lost that was reported as written. The sense data is about an
    /// earlier command (SPC-4 4.5.5), or a flush failed.
    pub fn tells_of_lost_writes(&self, is_flush: bool) -> bool {
        let failed = matches!(
            self.key,
            key::NOT_READY | key::MEDIUM_ERROR | key::HARDWARE_ERROR | key::DATA_PROTECT
        );
        match self.reaction() {
            // The flush was not performed, and nothing was said about data.
            Reaction::Later | Reaction::AccessState(_) | Reaction::UnitGone => false,
            _ => failed && (self.deferred || is_flush),
        }
    }

    /// Reports whether the device server may have aborted other commands of the I_T nexus without
    /// an answer (SAM-5 5.3.1): after a reset, or for another nexus while TAS is 0.
    pub fn tells_of_aborted_commands(&self) -> bool {
        self.key == key::UNIT_ATTENTION
            && matches!(
                (self.asc, self.ascq),
                // Power on, resets, and loss of the nexus. COMMANDS CLEARED. Preemptions, which may
                // have been PREEMPT AND ABORT.
                (0x29, _) | (0x2f, 0x00..=0x02) | (0x2a, 0x03 | 0x05)
            )
    }

    /// Returns the reaction to a command that ended with this sense.
    pub fn reaction(&self) -> Reaction {
        if self.deferred {
            // The command itself was not performed (SPC-4 4.5.5). The error belongs to a write that
            // was reported as done, and no repetition of this command repairs that write.
            return match self.key {
                key::NO_SENSE | key::RECOVERED_ERROR => Reaction::UnitAttention,
                key::UNIT_ATTENTION => self.unit_attention(),
                _ => Reaction::MediumError,
            };
        }
        match self.key {
            key::NO_SENSE | key::RECOVERED_ERROR | key::COMPLETED => Reaction::Succeeded,
            key::NOT_READY => self.not_ready(),
            key::MEDIUM_ERROR => Reaction::MediumError,
            key::HARDWARE_ERROR => Reaction::HardwareError,
            key::ILLEGAL_REQUEST => match (self.asc, self.ascq) {
                (0x25, _) => Reaction::UnitGone,
                _ => Reaction::IllegalRequest,
            },
            key::UNIT_ATTENTION => self.unit_attention(),
            key::DATA_PROTECT => match (self.asc, self.ascq) {
                (0x27, 0x07) => Reaction::NoSpace,
                _ => Reaction::WriteProtected,
            },
            key::ABORTED_COMMAND => Reaction::Aborted,
            key::MISCOMPARE => Reaction::Miscompare,
            _ => Reaction::Other,
        }
    }

    fn not_ready(&self) -> Reaction {
        match (self.asc, self.ascq) {
            (0x04, 0x0a) => Reaction::AccessState(AccessState::Transitioning),
            (0x04, 0x0b) => Reaction::AccessState(AccessState::Standby),
            (0x04, 0x0c) => Reaction::AccessState(AccessState::Unavailable),
            // Becoming ready. Rebuild, recalculation, operation or self-test in progress. Space
            // allocation in progress (0x14). Microcode download (0x1c is ready after it).
            (0x04, 0x01 | 0x05 | 0x06 | 0x07 | 0x08 | 0x09 | 0x14 | 0x1a | 0x1c) => Reaction::Later,
            _ => Reaction::NotReady,
        }
    }

    fn unit_attention(&self) -> Reaction {
        match (self.asc, self.ascq) {
            (0x2a, 0x03..=0x05) => Reaction::ReservationsChanged,
            (0x2a, 0x06 | 0x07) => Reaction::AccessStateChanged,
            (0x2a, 0x09) => Reaction::CapacityChanged,
            (0x3f, 0x0e) => Reaction::LunsChanged,
            (0x3f, 0x03 | 0x05) => Reaction::IdentityChanged,
            _ => Reaction::UnitAttention,
        }
    }
}

/// Text that administrators know from logs: `6/2a/09`, all hexadecimal, with the name of the key.
impl fmt::Display for SenseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 16] = [
            "NO SENSE",
            "RECOVERED ERROR",
            "NOT READY",
            "MEDIUM ERROR",
            "HARDWARE ERROR",
            "ILLEGAL REQUEST",
            "UNIT ATTENTION",
            "DATA PROTECT",
            "BLANK CHECK",
            "VENDOR SPECIFIC",
            "COPY ABORTED",
            "ABORTED COMMAND",
            "RESERVED",
            "VOLUME OVERFLOW",
            "MISCOMPARE",
            "COMPLETED",
        ];
        let name = NAMES[usize::from(self.key & 0x0f)];
        write!(
            f,
            "{name} {:x}/{:02x}/{:02x}",
            self.key, self.asc, self.ascq
        )
    }
}

/// Returns the INFORMATION field of descriptor format data if a valid one is there whole.
fn information_descriptor(sense: &[u8]) -> Option<u64> {
    let len = usize::from(*sense.get(7)?);
    let mut rest = &sense[8..sense.len().min(8 + len)];
    while let [kind, additional, ..] = *rest {
        let whole = rest.get(..2 + usize::from(additional))?;
        if kind == INFORMATION_DESCRIPTOR && whole.len() >= 12 {
            return (whole[2] & 0x80 != 0).then(|| be(&whole[4..12]));
        }
        rest = &rest[whole.len()..];
    }
    None
}

/// Reads a big-endian number of at most eight bytes.
fn be(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
