//! Sense data: the reason of a failure, given once as [`Sense`] and encoded in one place (SPC-4
//! 4.5).
//!
//! Commands build a [`Sense`]. Only [`Sense::encode`] knows the fixed and the descriptor format. So
//! every command obeys the D_SENSE bit of the control mode page without any code for it.

use crate::BlockError;

/// Sense key (SPC-4 table 54).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing to report.
    NoSense = 0x0,
    /// The logical unit cannot be accessed now.
    NotReady = 0x2,
    /// The medium is flawed.
    MediumError = 0x3,
    /// The device failed.
    HardwareError = 0x4,
    /// The command or its parameters are wrong.
    IllegalRequest = 0x5,
    /// An event occurred since the last command.
    UnitAttention = 0x6,
    /// Writing is forbidden.
    DataProtect = 0x7,
    /// A third-party copy was aborted.
    CopyAborted = 0xa,
    /// The device server aborted the command. A retry may succeed.
    AbortedCommand = 0xb,
    /// The source data did not match the medium.
    Miscompare = 0xe,
}

/// Additional sense code and its qualifier (SPC-4 annex D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asc(pub u8, pub u8);

#[allow(
    missing_docs,
    reason = "each constant is the standard's own text for its code"
)]
impl Asc {
    pub const NO_ADDITIONAL_SENSE_INFORMATION: Self = Self(0x00, 0x00);
    pub const OPERATION_IN_PROGRESS: Self = Self(0x00, 0x16);
    pub const NOT_READY_CAUSE_NOT_REPORTABLE: Self = Self(0x04, 0x00);
    pub const IN_PROCESS_OF_BECOMING_READY: Self = Self(0x04, 0x01);
    pub const INITIALIZING_COMMAND_REQUIRED: Self = Self(0x04, 0x02);
    pub const ASYMMETRIC_ACCESS_STATE_TRANSITION: Self = Self(0x04, 0x0a);
    pub const TARGET_PORT_IN_STANDBY_STATE: Self = Self(0x04, 0x0b);
    pub const TARGET_PORT_IN_UNAVAILABLE_STATE: Self = Self(0x04, 0x0c);
    pub const OFFLINE: Self = Self(0x04, 0x12);
    pub const SANITIZE_IN_PROGRESS: Self = Self(0x04, 0x1b);
    pub const UNREACHABLE_COPY_TARGET: Self = Self(0x08, 0x04);
    pub const WRITE_ERROR: Self = Self(0x0c, 0x00);
    pub const UNEXPECTED_UNSOLICITED_DATA: Self = Self(0x0c, 0x0c);
    pub const THIRD_PARTY_DEVICE_FAILURE: Self = Self(0x0d, 0x01);
    pub const COPY_TARGET_DEVICE_NOT_REACHABLE: Self = Self(0x0d, 0x02);
    pub const INCORRECT_COPY_TARGET_DEVICE_TYPE: Self = Self(0x0d, 0x03);
    pub const COPY_TARGET_DEVICE_DATA_UNDERRUN: Self = Self(0x0d, 0x04);
    pub const COPY_TARGET_DEVICE_DATA_OVERRUN: Self = Self(0x0d, 0x05);
    pub const INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT: Self = Self(0x0e, 0x03);
    pub const UNRECOVERED_READ_ERROR: Self = Self(0x11, 0x00);
    pub const PARAMETER_LIST_LENGTH_ERROR: Self = Self(0x1a, 0x00);
    pub const MISCOMPARE_DURING_VERIFY_OPERATION: Self = Self(0x1d, 0x00);
    pub const INVALID_COMMAND_OPERATION_CODE: Self = Self(0x20, 0x00);
    pub const LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE: Self = Self(0x21, 0x00);
    pub const INVALID_TOKEN_OPERATION_CAUSE_NOT_REPORTABLE: Self = Self(0x23, 0x00);
    pub const UNSUPPORTED_TOKEN_TYPE: Self = Self(0x23, 0x01);
    pub const REMOTE_TOKEN_USAGE_NOT_SUPPORTED: Self = Self(0x23, 0x02);
    pub const REMOTE_ROD_TOKEN_CREATION_NOT_SUPPORTED: Self = Self(0x23, 0x03);
    pub const TOKEN_UNKNOWN: Self = Self(0x23, 0x04);
    pub const TOKEN_CORRUPT: Self = Self(0x23, 0x05);
    pub const TOKEN_REVOKED: Self = Self(0x23, 0x06);
    pub const TOKEN_EXPIRED: Self = Self(0x23, 0x07);
    pub const TOKEN_CANCELLED: Self = Self(0x23, 0x08);
    pub const TOKEN_DELETED: Self = Self(0x23, 0x09);
    pub const INVALID_TOKEN_LENGTH: Self = Self(0x23, 0x0a);
    pub const INVALID_FIELD_IN_CDB: Self = Self(0x24, 0x00);
    pub const LOGICAL_UNIT_NOT_SUPPORTED: Self = Self(0x25, 0x00);
    pub const INVALID_FIELD_IN_PARAMETER_LIST: Self = Self(0x26, 0x00);
    pub const PARAMETER_NOT_SUPPORTED: Self = Self(0x26, 0x01);
    pub const INVALID_RELEASE_OF_PERSISTENT_RESERVATION: Self = Self(0x26, 0x04);
    pub const TOO_MANY_TARGET_DESCRIPTORS: Self = Self(0x26, 0x06);
    pub const UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE: Self = Self(0x26, 0x07);
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: Self = Self(0x26, 0x08);
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE: Self = Self(0x26, 0x09);
    pub const UNEXPECTED_INEXACT_SEGMENT: Self = Self(0x26, 0x0a);
    pub const INLINE_DATA_LENGTH_EXCEEDED: Self = Self(0x26, 0x0b);
    pub const INVALID_OPERATION_FOR_COPY_SOURCE_OR_DESTINATION: Self = Self(0x26, 0x0c);
    pub const INVALID_MESSAGE_ERROR: Self = Self(0x49, 0x00);
    pub const WRITE_PROTECTED: Self = Self(0x27, 0x00);
    pub const LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED: Self = Self(0x27, 0x02);
    pub const SPACE_ALLOCATION_FAILED_WRITE_PROTECT: Self = Self(0x27, 0x07);
    pub const POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED: Self = Self(0x29, 0x00);
    pub const POWER_ON_OCCURRED: Self = Self(0x29, 0x01);
    pub const SCSI_BUS_RESET_OCCURRED: Self = Self(0x29, 0x02);
    pub const BUS_DEVICE_RESET_FUNCTION_OCCURRED: Self = Self(0x29, 0x03);
    pub const I_T_NEXUS_LOSS_OCCURRED: Self = Self(0x29, 0x07);
    pub const MODE_PARAMETERS_CHANGED: Self = Self(0x2a, 0x01);
    pub const LOG_PARAMETERS_CHANGED: Self = Self(0x2a, 0x02);
    pub const RESERVATIONS_PREEMPTED: Self = Self(0x2a, 0x03);
    pub const RESERVATIONS_RELEASED: Self = Self(0x2a, 0x04);
    pub const REGISTRATIONS_PREEMPTED: Self = Self(0x2a, 0x05);
    pub const ASYMMETRIC_ACCESS_STATE_CHANGED: Self = Self(0x2a, 0x06);
    pub const IMPLICIT_ASYMMETRIC_ACCESS_STATE_TRANSITION_FAILED: Self = Self(0x2a, 0x07);
    pub const CAPACITY_DATA_HAS_CHANGED: Self = Self(0x2a, 0x09);
    pub const COMMAND_SEQUENCE_ERROR: Self = Self(0x2c, 0x00);
    pub const COMMANDS_CLEARED_BY_ANOTHER_INITIATOR: Self = Self(0x2f, 0x00);
    pub const THIN_PROVISIONING_SOFT_THRESHOLD_REACHED: Self = Self(0x38, 0x07);
    pub const SAVING_PARAMETERS_NOT_SUPPORTED: Self = Self(0x39, 0x00);
    pub const SANITIZE_COMMAND_FAILED: Self = Self(0x31, 0x03);
    pub const MEDIUM_NOT_PRESENT: Self = Self(0x3a, 0x00);
    pub const INQUIRY_DATA_HAS_CHANGED: Self = Self(0x3f, 0x03);
    pub const REPORTED_LUNS_DATA_HAS_CHANGED: Self = Self(0x3f, 0x0e);
    pub const INTERNAL_TARGET_FAILURE: Self = Self(0x44, 0x00);
    pub const MEDIUM_REMOVAL_PREVENTED: Self = Self(0x53, 0x02);
    pub const INSUFFICIENT_RESOURCES: Self = Self(0x55, 0x03);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Self = Self(0x55, 0x04);
    pub const SET_TARGET_PORT_GROUPS_COMMAND_FAILED: Self = Self(0x67, 0x0a);
}

/// Encodings of sense data, of which an initiator gets one (D_SENSE, SPC-4 7.5.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SenseFormat {
    /// Response code 70h.
    #[default]
    Fixed,
    /// Response code 72h.
    Descriptor,
}

/// Wrong field of the CDB or of the parameter list (SPC-4 4.5.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// Whether the field is in the CDB (else in the parameter list).
    pub in_cdb: bool,
    /// First byte of the field.
    pub byte: u16,
    /// Most significant bit of the field, if it is narrower than a byte.
    pub bit: Option<u8>,
}

/// Sense data before encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// The additional sense code and qualifier.
    pub asc: Asc,
    /// The INFORMATION field: a logical block address, or for MISCOMPARE the byte offset.
    pub information: Option<u64>,
    /// The COMMAND-SPECIFIC INFORMATION field.
    pub command_specific: Option<u64>,
    /// The offending field (ILLEGAL REQUEST).
    pub field: Option<FieldPointer>,
    /// Progress of a long operation in 65 536ths (NO SENSE and NOT READY).
    pub progress: Option<u16>,
}

impl Sense {
    /// Makes sense data with a key and a code and nothing else.
    pub const fn new(key: SenseKey, asc: Asc) -> Self {
        Self {
            key,
            asc,
            information: None,
            command_specific: None,
            field: None,
            progress: None,
        }
    }

    /// Makes NO SENSE, 00/00.
    pub const fn none() -> Self {
        Self::new(SenseKey::NoSense, Asc::NO_ADDITIONAL_SENSE_INFORMATION)
    }

    /// Makes ILLEGAL REQUEST with this code.
    pub const fn illegal(asc: Asc) -> Self {
        Self::new(SenseKey::IllegalRequest, asc)
    }

    /// Makes ILLEGAL REQUEST, INVALID FIELD IN CDB, pointing at byte `byte`.
    pub const fn invalid_field_in_cdb(byte: u16) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_CDB);
        sense.field = Some(FieldPointer {
            in_cdb: true,
            byte,
            bit: None,
        });
        sense
    }

    /// Makes the sense of [`Self::invalid_field_in_cdb`], pointing at one bit (7 = most
    /// significant) or at the field that starts with it.
    pub const fn invalid_bit_in_cdb(byte: u16, bit: u8) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_CDB);
        sense.field = Some(FieldPointer {
            in_cdb: true,
            byte,
            bit: Some(bit),
        });
        sense
    }

    /// Makes ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST, pointing at byte `byte`.
    pub const fn invalid_field_in_parameter_list(byte: u16) -> Self {
        let mut sense = Self::illegal(Asc::INVALID_FIELD_IN_PARAMETER_LIST);
        sense.field = Some(FieldPointer {
            in_cdb: false,
            byte,
            bit: None,
        });
        sense
    }

    /// Makes ILLEGAL REQUEST, PARAMETER LIST LENGTH ERROR.
    pub const fn parameter_list_length_error() -> Self {
        Self::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR)
    }

    /// Makes ILLEGAL REQUEST, INVALID FIELD IN COMMAND INFORMATION UNIT: the initiator announces
    /// another transfer than its CDB describes. Nothing is transferred (FCP-4 9.4.2 b, which RFC
    /// 7143 leaves to the device server).
    pub const fn transfer_mismatch() -> Self {
        Self::illegal(Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
    }

    /// Makes MISCOMPARE DURING VERIFY OPERATION.
    pub const fn miscompare() -> Self {
        Self::new(
            SenseKey::Miscompare,
            Asc::MISCOMPARE_DURING_VERIFY_OPERATION,
        )
    }

    /// Makes ILLEGAL REQUEST, LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub const fn lba_out_of_range() -> Self {
        Self::illegal(Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE)
    }

    /// Makes NOT READY with this code.
    pub const fn not_ready(asc: Asc) -> Self {
        Self::new(SenseKey::NotReady, asc)
    }

    /// Adds the INFORMATION field.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// Adds the COMMAND-SPECIFIC INFORMATION field.
    #[must_use]
    pub const fn with_command_specific(mut self, value: u64) -> Self {
        self.command_specific = Some(value);
        self
    }

    /// Adds a progress indication in 65 536ths.
    #[must_use]
    pub const fn with_progress(mut self, progress: u16) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Returns the sense data of a failed block action. Only here a full pool, a vanished backend
    /// and a bad block get their different names.
    pub fn of_block_error(error: BlockError) -> Self {
        let (key, asc, lba) = match error {
            BlockError::Medium { lba } => (SenseKey::MediumError, Asc::UNRECOVERED_READ_ERROR, lba),
            BlockError::Write { lba } => (SenseKey::MediumError, Asc::WRITE_ERROR, lba),
            BlockError::OutOfRange => return Self::lba_out_of_range(),
            BlockError::NoSpace => (
                SenseKey::DataProtect,
                Asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
                None,
            ),
            BlockError::ReadOnly => (SenseKey::DataProtect, Asc::WRITE_PROTECTED, None),
            BlockError::Gone => (SenseKey::HardwareError, Asc::INTERNAL_TARGET_FAILURE, None),
            // This sense is part of another command's answer. Alone, the condition is BUSY.
            BlockError::Away => (
                SenseKey::NotReady,
                Asc::NOT_READY_CAUSE_NOT_REPORTABLE,
                None,
            ),
        };
        Self {
            information: lba,
            ..Self::new(key, asc)
        }
    }

    /// Returns the bytes that follow the status on the wire (SPC-4 4.5.2 and 4.5.3).
    pub fn encode(&self, format: SenseFormat) -> Vec<u8> {
        match format {
            SenseFormat::Fixed => self.encode_fixed(),
            SenseFormat::Descriptor => self.encode_descriptor(),
        }
    }

    /// Encodes fixed format, 18 bytes. A value that needs more than 32 bits is left out (VALID =
    /// 0), as SPC-4 4.5.3 asks.
    fn encode_fixed(&self) -> Vec<u8> {
        let mut out = vec![0; 18];
        out[0] = 0x70;
        out[2] = self.key as u8;
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            out[0] |= 0x80;
            out[3..7].copy_from_slice(&information.to_be_bytes());
        }
        out[7] = 10;
        if let Some(value) = self
            .command_specific
            .and_then(|value| u32::try_from(value).ok())
        {
            out[8..12].copy_from_slice(&value.to_be_bytes());
        }
        out[12] = self.asc.0;
        out[13] = self.asc.1;
        if let Some(specific) = self.sense_key_specific() {
            out[15..18].copy_from_slice(&specific);
        }
        out
    }

    /// Encodes descriptor format: the header, then information, command-specific and sense-key
    /// specific descriptors as needed.
    fn encode_descriptor(&self) -> Vec<u8> {
        let mut out = vec![0x72, self.key as u8, self.asc.0, self.asc.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            out.extend_from_slice(&[0x00, 0x0a, 0x80, 0x00]);
            out.extend_from_slice(&information.to_be_bytes());
        }
        if let Some(value) = self.command_specific {
            out.extend_from_slice(&[0x01, 0x0a, 0x00, 0x00]);
            out.extend_from_slice(&value.to_be_bytes());
        }
        if let Some([a, b, c]) = self.sense_key_specific() {
            out.extend_from_slice(&[0x02, 0x06, 0x00, 0x00, a, b, c, 0x00]);
        }
        // At most 12 + 12 + 8 bytes of descriptors.
        out[7] = (out.len() - 8) as u8;
        out
    }

    /// Returns the SENSE-KEY SPECIFIC field with SKSV set, if there is anything to report.
    fn sense_key_specific(&self) -> Option<[u8; 3]> {
        if let Some(field) = self.field {
            let [high, low] = field.byte.to_be_bytes();
            let in_cdb = if field.in_cdb { 0x40 } else { 0 };
            let bit = field.bit.map_or(0, |bit| 0x08 | (bit & 7));
            return Some([0x80 | in_cdb | bit, high, low]);
        }
        self.progress.map(|progress| {
            let [high, low] = progress.to_be_bytes();
            [0x80, high, low]
        })
    }
}
