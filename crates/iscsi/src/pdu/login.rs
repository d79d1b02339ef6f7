//! Login Request and Login Response headers (RFC 7143 §11.12, §11.13). [`crate::target::login`] and
//! [`crate::initiator::login`] decide about logins.

use std::fmt;

use super::bhs::{
    Opcode, PduError, RawBhs, be16, be32, bit, data_segment_length, expect,
    put_data_segment_length, put16, put32, start,
};

/// Stage of the login phase (RFC 7143 §11.12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LoginStage {
    /// SecurityNegotiation.
    SecurityNegotiation = 0,
    /// LoginOperationalNegotiation.
    OperationalNegotiation = 1,
    /// FullFeaturePhase.
    FullFeature = 3,
}

impl LoginStage {
    /// Returns the stage in the low two bits of `code`. Stage 2 does not exist.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code & 3 {
            0 => Self::SecurityNegotiation,
            1 => Self::OperationalNegotiation,
            3 => Self::FullFeature,
            _ => return None,
        })
    }
}

/// Initiator session identifier, which names one of an initiator's sessions (RFC 7143 §11.12.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isid(pub [u8; 6]);

impl fmt::Display for Isid {
    /// Writes twelve hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Login Request. `csg` and `nsg` are kept as numbers, because a Login Response, and not a parser,
/// must answer value 2, which does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRequest {
    /// I: set by the RFC, and kept because some initiators forget it.
    pub immediate: bool,
    /// T: ready to leave the current stage.
    pub transit: bool,
    /// C: the text continues in the next request.
    pub continues: bool,
    /// Current stage, two bits.
    pub csg: u8,
    /// Next stage, two bits, meaningful with T.
    pub nsg: u8,
    /// Highest version that the initiator speaks.
    pub version_max: u8,
    /// Lowest version that the initiator speaks.
    pub version_min: u8,
    /// Length of the additional header segments in words, 0 by the RFC.
    pub total_ahs_length: u8,
    /// Length of the text in bytes.
    pub data_segment_length: u32,
    /// Initiator session identifier.
    pub isid: Isid,
    /// Target session identifying handle, or 0 to ask for a new session.
    pub tsih: u16,
    /// Initiator Task Tag, constant during the whole login.
    pub itt: u32,
    /// Connection identifier.
    pub cid: u16,
    /// Initial CmdSN of the session, or of the login on a further connection.
    pub cmd_sn: u32,
    /// Next StatSN expected, valid from the second request on.
    pub exp_stat_sn: u32,
}

impl LoginRequest {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::LoginRequest)?;
        Ok(Self {
            immediate: raw[0] & 0x40 != 0,
            transit: raw[1] & 0x80 != 0,
            continues: raw[1] & 0x40 != 0,
            csg: raw[1] >> 2 & 3,
            nsg: raw[1] & 3,
            version_max: raw[2],
            version_min: raw[3],
            total_ahs_length: raw[4],
            data_segment_length: data_segment_length(raw),
            isid: isid(raw),
            tsih: be16(raw, 14),
            itt: be32(raw, 16),
            cid: be16(raw, 20),
            cmd_sn: be32(raw, 24),
            exp_stat_sn: be32(raw, 28),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        let flags = stage_flags(self.transit, self.continues, self.csg, self.nsg);
        start(raw, Opcode::LoginRequest, self.immediate, flags);
        raw[2] = self.version_max;
        raw[3] = self.version_min;
        raw[4] = self.total_ahs_length;
        put_data_segment_length(raw, self.data_segment_length);
        raw[8..14].copy_from_slice(&self.isid.0);
        put16(raw, 14, self.tsih);
        put32(raw, 16, self.itt);
        put16(raw, 20, self.cid);
        put32(raw, 24, self.cmd_sn);
        put32(raw, 28, self.exp_stat_sn);
    }
}

/// Login Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginResponse {
    /// T: the target agrees to leave the current stage.
    pub transit: bool,
    /// C: the text continues in the next response.
    pub continues: bool,
    /// Current stage, two bits.
    pub csg: u8,
    /// Next stage, two bits, meaningful with T.
    pub nsg: u8,
    /// Highest version that the target speaks.
    pub version_max: u8,
    /// Version that the target chose.
    pub version_active: u8,
    /// Length of the text in bytes.
    pub data_segment_length: u32,
    /// ISID, copied from the request.
    pub isid: Isid,
    /// Target session identifying handle, given in the last response of a leading login.
    pub tsih: u16,
    /// Initiator Task Tag, copied from the request.
    pub itt: u32,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Status of the login.
    pub status: LoginStatus,
}

impl LoginResponse {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::LoginResponse)?;
        Ok(Self {
            transit: raw[1] & 0x80 != 0,
            continues: raw[1] & 0x40 != 0,
            csg: raw[1] >> 2 & 3,
            nsg: raw[1] & 3,
            version_max: raw[2],
            version_active: raw[3],
            data_segment_length: data_segment_length(raw),
            isid: isid(raw),
            tsih: be16(raw, 14),
            itt: be32(raw, 16),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            status: LoginStatus(be16(raw, 36)),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        let flags = stage_flags(self.transit, self.continues, self.csg, self.nsg);
        start(raw, Opcode::LoginResponse, false, flags);
        raw[2] = self.version_max;
        raw[3] = self.version_active;
        put_data_segment_length(raw, self.data_segment_length);
        raw[8..14].copy_from_slice(&self.isid.0);
        put16(raw, 14, self.tsih);
        put32(raw, 16, self.itt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        put16(raw, 36, self.status.0);
    }
}

fn stage_flags(transit: bool, continues: bool, csg: u8, nsg: u8) -> u8 {
    bit(transit, 0x80) | bit(continues, 0x40) | (csg & 3) << 2 | nsg & 3
}

fn isid(raw: &RawBhs) -> Isid {
    Isid([raw[8], raw[9], raw[10], raw[11], raw[12], raw[13]])
}

/// Status-Class (high byte) and Status-Detail (low byte) of a Login Response (RFC 7143 §11.13.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginStatus(pub u16);

macro_rules! login_statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl LoginStatus {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Returns the meaning of the status, in the RFC's words.
            pub const fn text(self) -> &'static str {
                match self.0 { $($value => $text,)* _ => "unknown login status" }
            }
        }
    };
}

login_statuses! {
    /// The login proceeds.
    SUCCESS = 0x0000, "success";
    /// The target has moved for now. Its address is in TargetAddress.
    TARGET_MOVED_TEMPORARILY = 0x0101, "target moved temporarily";
    /// The target has moved for good. Its address is in TargetAddress.
    TARGET_MOVED_PERMANENTLY = 0x0102, "target moved permanently";
    /// The initiator's request is wrong.
    INITIATOR_ERROR = 0x0200, "initiator error";
    /// The initiator could not be authenticated.
    AUTHENTICATION_FAILURE = 0x0201, "authentication failure";
    /// The initiator may not use the target.
    AUTHORIZATION_FAILURE = 0x0202, "authorization failure";
    /// No target of this name is here.
    NOT_FOUND = 0x0203, "target not found";
    /// The target has been removed and no new address is known.
    TARGET_REMOVED = 0x0204, "target removed";
    /// No version is common to both sides.
    UNSUPPORTED_VERSION = 0x0205, "unsupported version";
    /// The session already has its maximum of connections.
    TOO_MANY_CONNECTIONS = 0x0206, "too many connections";
    /// InitiatorName or TargetName or another needed key is missing.
    MISSING_PARAMETER = 0x0207, "missing parameter";
    /// The target cannot take this connection into the session.
    CANNOT_INCLUDE_IN_SESSION = 0x0208, "cannot include in session";
    /// The target does not support this type of session.
    SESSION_TYPE_NOT_SUPPORTED = 0x0209, "session type not supported";
    /// The session to join does not exist.
    SESSION_DOES_NOT_EXIST = 0x020a, "session does not exist";
    /// The request is invalid during login.
    INVALID_DURING_LOGIN = 0x020b, "invalid request during login";
    /// The target failed.
    TARGET_ERROR = 0x0300, "target hardware or software error";
    /// The target is not operational now.
    SERVICE_UNAVAILABLE = 0x0301, "service unavailable";
    /// The target lacks resources now.
    OUT_OF_RESOURCES = 0x0302, "out of resources";
}

impl LoginStatus {
    /// Returns the Status-Class.
    pub const fn class(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Reports whether the class is 0.
    pub const fn is_success(self) -> bool {
        self.class() == 0
    }

    /// Reports whether the class is 1: the initiator is to go to another address.
    pub const fn is_redirect(self) -> bool {
        self.class() == 1
    }
}

impl fmt::Debug for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoginStatus({:#06x} {})", self.0, self.text())
    }
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#06x})", self.text(), self.0)
    }
}
