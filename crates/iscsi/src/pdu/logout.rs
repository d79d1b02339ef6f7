//! Logout Request and Response (RFC 7143 §11.14, §11.15).

use super::bhs::{Opcode, PduError, RawBhs, be16, be32, codes, expect, put16, put32, start};

codes! {
    /// Object and reason of a logout (RFC 7143 §11.14.1).
    LogoutReason {
        /// Close the session.
        CloseSession = 0,
        /// Close the connection named by the CID.
        CloseConnection = 1,
        /// Remove the connection for recovery (error recovery level 2).
        RemoveForRecovery = 2,
    }
}

codes! {
    /// Result of a logout (RFC 7143 §11.15.1).
    LogoutResult {
        /// The session or connection was closed.
        Closed = 0,
        /// The CID was not found.
        CidNotFound = 1,
        /// Connection recovery is not supported.
        RecoveryNotSupported = 2,
        /// The cleanup failed.
        CleanupFailed = 3,
    }
}

/// Logout Request. It carries no data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// I: outside the command window.
    pub immediate: bool,
    /// Object and reason of the logout.
    pub reason: LogoutReason,
    /// Initiator Task Tag.
    pub itt: u32,
    /// Connection to close, reserved when the session is closed.
    pub cid: u16,
    /// Position in the session's order of commands.
    pub cmd_sn: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
}

impl LogoutRequest {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::LogoutRequest)?;
        Ok(Self {
            immediate: raw[0] & 0x40 != 0,
            reason: LogoutReason::from_code(raw[1] & 0x7f),
            itt: be32(raw, 16),
            cid: be16(raw, 20),
            cmd_sn: be32(raw, 24),
            exp_stat_sn: be32(raw, 28),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(
            raw,
            Opcode::LogoutRequest,
            self.immediate,
            0x80 | self.reason.code(),
        );
        put32(raw, 16, self.itt);
        put16(raw, 20, self.cid);
        put32(raw, 24, self.cmd_sn);
        put32(raw, 28, self.exp_stat_sn);
    }
}

/// Logout Response. It carries no data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutResponse {
    /// Result of the logout.
    pub response: LogoutResult,
    /// Initiator Task Tag.
    pub itt: u32,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
    /// Seconds to wait before connecting again.
    pub time2wait_s: u16,
    /// Seconds after `time2wait_s` during which tasks are kept.
    pub time2retain_s: u16,
}

impl LogoutResponse {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::LogoutResponse)?;
        Ok(Self {
            response: LogoutResult::from_code(raw[2]),
            itt: be32(raw, 16),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
            time2wait_s: be16(raw, 40),
            time2retain_s: be16(raw, 42),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::LogoutResponse, false, 0x80);
        raw[2] = self.response.code();
        put32(raw, 16, self.itt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
        put16(raw, 40, self.time2wait_s);
        put16(raw, 42, self.time2retain_s);
    }
}
