//! PDUs of iSCSI: typed headers over 48 bytes, in both directions (RFC 7143 §11).
//!
//! Each type is a plain `Copy` structure with the RFC's field names, `parse` to read it from a
//! header and `encode` to write it. Nothing here allocates, copies payload or panics on any input.
//! Lengths (`data_segment_length`, `total_ahs_length`) belong to the structures: the caller that
//! encodes a header states what follows it. Reserved bits are ignored on receipt and zero when
//! sent. Tags and the LUN are kept as the big-endian numbers they are on the wire.

pub mod async_message;
pub mod bhs;
pub mod data;
pub mod login;
pub mod logout;
pub mod nop;
pub mod r2t;
pub mod reject;
pub mod scsi_command;
pub mod scsi_response;
pub mod snack;
pub mod task_management;
pub mod text;

#[cfg(test)]
mod tests;

pub use async_message::{AsyncEvent, AsyncMessage};
pub use bhs::{
    BHS_LENGTH, Bhs, MAX_DATA_SEGMENT_LENGTH, Opcode, PduError, RESERVED_TAG, RawBhs, padded,
};
pub use data::{DataIn, DataOut};
pub use login::{Isid, LoginRequest, LoginResponse, LoginStage, LoginStatus};
pub use logout::{LogoutReason, LogoutRequest, LogoutResponse, LogoutResult};
pub use nop::{NopIn, NopOut};
pub use r2t::ReadyToTransfer;
pub use reject::{Reject, RejectReason};
pub use scsi_command::{Ahs, AhsIter, ScsiCommand, TaskAttribute};
pub use scsi_response::{ScsiResponse, ServiceResponse};
pub use snack::{SnackRequest, SnackType};
pub use task_management::{
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
};
pub use text::{TextRequest, TextResponse};
