//! Tests of the device server as an initiator sees it: one test per command and condition, each
//! asserting the exact status and sense.

#[path = "../harness/mod.rs"]
mod harness;

mod any_cdb;
mod gates;
mod inquiry;
mod mandatory_parts;
mod mode;
mod model;
mod read_write;
mod reservations_6;
mod sanitize;
mod sense;
mod thin_provisioning;
mod unknown_commands;
mod unmap_and_write_same;
mod verify_and_compare;
