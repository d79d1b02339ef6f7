//! Task Management Function Request and Response (RFC 7143 §11.5, §11.6; RFC 7144 for the newer
//! functions).

use super::bhs::{
    Opcode, PduError, RawBhs, be32, be64, codes, data_segment_length, expect, put32, put64, start,
};

codes! {
    /// Function of a request (RFC 7143 §11.5.1, RFC 7144 §6.1).
    TaskManagementFunction {
        /// Abort the task named by the referenced task tag.
        AbortTask = 1,
        /// Abort all tasks of this session on the logical unit.
        AbortTaskSet = 2,
        /// Clear ACA.
        ClearAca = 3,
        /// Abort all tasks of all sessions on the logical unit.
        ClearTaskSet = 4,
        /// Reset the logical unit.
        LogicalUnitReset = 5,
        /// Reset the target, but keep sessions.
        TargetWarmReset = 6,
        /// Reset the target and end every session.
        TargetColdReset = 7,
        /// Move a task to this connection (error recovery level 2).
        TaskReassign = 8,
        /// Ask whether the task exists (RFC 7144).
        QueryTask = 9,
        /// Ask whether the session has tasks on the logical unit (RFC 7144).
        QueryTaskSet = 10,
        /// Forget the session on the logical unit (RFC 7144).
        ITNexusReset = 11,
        /// Ask whether a unit attention is pending (RFC 7144).
        QueryAsynchronousEvent = 12,
    }
}

codes! {
    /// Result of a function (RFC 7143 §11.6.1, RFC 7144 §6.2).
    TaskManagementResult {
        /// Function complete.
        Complete = 0,
        /// Task does not exist.
        TaskDoesNotExist = 1,
        /// LUN does not exist.
        LunDoesNotExist = 2,
        /// Task is still allegiant to its connection.
        TaskStillAllegiant = 3,
        /// Task allegiance reassignment is not supported.
        ReassignmentNotSupported = 4,
        /// Function is not supported.
        NotSupported = 5,
        /// Function authorization failed.
        AuthorizationFailed = 6,
        /// Function succeeded (RFC 7144).
        Succeeded = 7,
        /// Function rejected.
        Rejected = 255,
    }
}

/// Task Management Function Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementRequest {
    /// I: outside the command window.
    pub immediate: bool,
    /// Function of the request.
    pub function: TaskManagementFunction,
    /// Length of the additional header segments in words, 0 by the RFC.
    pub total_ahs_length: u8,
    /// Length of the data segment, 0 by the RFC.
    pub data_segment_length: u32,
    /// Logical unit.
    pub lun: u64,
    /// Initiator Task Tag of the request itself.
    pub itt: u32,
    /// Initiator Task Tag of the referenced task, or [`RESERVED_TAG`](super::RESERVED_TAG) if there
    /// is none.
    pub referenced_task_tag: u32,
    /// Position in the session's order of commands.
    pub cmd_sn: u32,
    /// Acknowledges every status before it.
    pub exp_stat_sn: u32,
    /// CmdSN of the referenced task (ABORT TASK).
    pub ref_cmd_sn: u32,
    /// Next DataSN expected (TASK REASSIGN).
    pub exp_data_sn: u32,
}

impl TaskManagementRequest {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::TaskManagementRequest)?;
        Ok(Self {
            immediate: raw[0] & 0x40 != 0,
            function: TaskManagementFunction::from_code(raw[1] & 0x7f),
            total_ahs_length: raw[4],
            data_segment_length: data_segment_length(raw),
            lun: be64(raw, 8),
            itt: be32(raw, 16),
            referenced_task_tag: be32(raw, 20),
            cmd_sn: be32(raw, 24),
            exp_stat_sn: be32(raw, 28),
            ref_cmd_sn: be32(raw, 32),
            exp_data_sn: be32(raw, 36),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(
            raw,
            Opcode::TaskManagementRequest,
            self.immediate,
            0x80 | self.function.code(),
        );
        raw[4] = self.total_ahs_length;
        super::bhs::put_data_segment_length(raw, self.data_segment_length);
        put64(raw, 8, self.lun);
        put32(raw, 16, self.itt);
        put32(raw, 20, self.referenced_task_tag);
        put32(raw, 24, self.cmd_sn);
        put32(raw, 28, self.exp_stat_sn);
        put32(raw, 32, self.ref_cmd_sn);
        put32(raw, 36, self.exp_data_sn);
    }
}

/// Task Management Function Response. It carries no data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementResponse {
    /// Result of the function.
    pub response: TaskManagementResult,
    /// Additional response information (RFC 7144 §6.2): the answer of QUERY ASYNCHRONOUS EVENT.
    pub additional_response_information: [u8; 3],
    /// Initiator Task Tag of the request.
    pub itt: u32,
    /// Number of this status.
    pub stat_sn: u32,
    /// Next CmdSN expected.
    pub exp_cmd_sn: u32,
    /// Last CmdSN accepted.
    pub max_cmd_sn: u32,
}

impl TaskManagementResponse {
    /// Reads a header.
    ///
    /// # Errors
    /// The header has another opcode.
    pub fn parse(raw: &RawBhs) -> Result<Self, PduError> {
        expect(raw, Opcode::TaskManagementResponse)?;
        Ok(Self {
            response: TaskManagementResult::from_code(raw[2]),
            additional_response_information: [raw[8], raw[9], raw[10]],
            itt: be32(raw, 16),
            stat_sn: be32(raw, 24),
            exp_cmd_sn: be32(raw, 28),
            max_cmd_sn: be32(raw, 32),
        })
    }

    /// Writes the header.
    pub fn encode(&self, raw: &mut RawBhs) {
        start(raw, Opcode::TaskManagementResponse, false, 0x80);
        raw[2] = self.response.code();
        raw[8..11].copy_from_slice(&self.additional_response_information);
        put32(raw, 16, self.itt);
        put32(raw, 24, self.stat_sn);
        put32(raw, 28, self.exp_cmd_sn);
        put32(raw, 32, self.max_cmd_sn);
    }
}
