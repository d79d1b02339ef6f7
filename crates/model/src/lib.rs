//! The shared vocabulary of all crates: names and sizes, the configuration, the views of the
//! daemon's state, and the error that a user sees. The API, the command line and the crates behind
//! them use these types. Nothing here does I/O.

pub mod access;
pub mod alert;
pub mod backend;
pub mod config;
pub mod data_plane;
pub mod date;
pub mod device_name;
pub mod disk;
pub mod error;
pub mod event;
pub mod figures;
pub mod health;
pub mod hindrance;
pub mod history;
pub mod initiator;
pub mod name;
pub mod pattern;
pub mod pool;
pub mod quantity;
pub mod volume_id;
pub mod way;

pub use config::Config;
pub use error::{Error, ErrorKind};
