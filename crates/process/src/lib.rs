//! The process as seen by its machine: log lines, the signals that end it, the service manager, and
//! the clock.

pub mod clock;
pub mod log;
pub mod notify;
pub mod signals;
pub mod watchdog;
