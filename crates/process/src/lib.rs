//! The process as seen by its machine: log lines, the signals that end it, and the service manager.

pub mod log;
pub mod notify;
pub mod signals;
pub mod watchdog;
