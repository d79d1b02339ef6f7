//! A logical unit at work, whatever protocol asks.
//!
//! A unit joins the device server ([`scsi::logical_unit::LogicalUnit`]) and the block device
//! beneath it. Reservations, write protection, range locks and statistics are kept here, so that
//! they hold for all protocols alike. The crate knows no wire protocol.
//!
//! - [`unit`]: the unit itself, and what it tells the device server of its device;
//! - [`nexus`]: the ways to a unit;
//! - [`execution`]: operations of protocols that have no CDBs, from the gates to their end;
//! - [`command`]: SCSI commands between their start and their end;
//! - [`loops`]: the event loops that serve units, and the tokens of waiting operations;
//! - [`drain`]: orders to these loops to wait for what is under way; [`quiet_signal`]: its end;
//! - [`shape`]: the configuration of the device server, from the configured unit and its device;
//! - [`state_file`]: the stored state (reservations, saved mode pages) as a file;
//! - `alone`: a unit around a device that no configuration names;
//! - [`unit_device`]: a unit as a block device, for work of the daemon itself;
//! - [`timing`]: the time that commands take, by stage;
//! - [`transition`]: a target port group goes out of service; [`retirement`]: a unit does;
//! - `space`: the space of thin units, and the wishes of their devices;
//! - [`hindrances`]: everything that stops I/O of a unit, in words; want of space: `shortage`.

mod alone;
mod backend_facts;
pub mod command;
pub mod drain;
pub mod execution;
pub mod hindrances;
pub mod loops;
pub mod nexus;
pub mod quiet_signal;
pub mod retirement;
pub mod shape;
mod space_shortage;
pub mod state_file;
pub mod timing;
pub mod transition;
pub mod unit;
pub mod unit_device;
