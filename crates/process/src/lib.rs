//! The process as its machine sees it: lines of its log, the signals that end it, and the service
//! manager.

pub mod log;
pub mod notify;
pub mod signals;
