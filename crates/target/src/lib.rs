//! The target at work: portals, event loops, sessions and the logical units behind them.
//!
//! # Threads
//! One event loop for each core, and a thread that accepts connections. What may block runs on
//! threads of [`block`], and a pool's engine on its own ([`pools`]). A session belongs to one loop
//! with all its connections; a logical unit is served by all loops.
//!
//! # Where things are
//! | what | where |
//! |---|---|
//! | **connections and sessions** | |
//! | a connection is accepted | `connection/listener.rs`, `session/arrival.rs`, `connection/socket_options.rs`; which loop gets it: `connection/dealer.rs` |
//! | LOGIN meets the configuration | `session/login.rs` (the state machine is `iscsi::target::login`) |
//! | which sessions there are, who may join or replace one | `session/registry.rs` |
//! | a connection is given to its session | `session/arrival.rs` |
//! | a login takes a connection's place | `session/reinstatement.rs` |
//! | a session on its loop, and the units that it sees | `session/served_session.rs`, `session/view.rs` |
//! | a connection or a session ends | `session/ending.rs` |
//! | logins and ends of sessions become events | `session/told.rs` |
//! | writes of a lost session that are still under way | `session/ending.rs`, [`unit::command::fence`] |
//! | time limits, pings, memory pressure | `session/upkeep.rs` |
//! | **commands** | |
//! | the turns of a loop | `event_loop.rs`; what loops tell each other: `message.rs`, what they share: `shared.rs` |
//! | bytes become commands, answers leave | `session/session_traffic.rs`, `session/connection.rs`, `payload.rs` |
//! | input is left to gather; memory is fetched ahead | `session/gathering.rs`, `session/foresight.rs` |
//! | a command finds its unit and starts | `router.rs` |
//! | a command runs, and ends others | [`unit::command`] |
//! | task management, aborts across loops | `task_management.rs` |
//! | **units and configuration** | |
//! | a logical unit and what it keeps | the crate [`unit`] |
//! | a unit is another machine's disk | `gateway.rs` |
//! | thin units' space is watched | `space_monitor.rs` |
//! | the configuration as it is served | `directory.rs` |
//! | a configuration is put in force | `service/change.rs`, `opening.rs` |
//! | a refused configuration leaves no files behind | `made_files.rs` |
//! | a unit or a target port group goes out of service | [`unit::retirement`], [`unit::transition`] |
//! | what could not be served at first | `service/second_try.rs` |
//! | work that is done again and again | `recurring.rs` |
//! | sessions in words, for the control plane | `describe.rs` |
//! | all of it without threads, for the simulator | `simulation.rs` |

mod connection;
mod describe;
pub mod directory;
mod event_loop;
mod gateway;
mod made_files;
mod message;
mod opening;
mod payload;
mod recurring;
mod router;
mod service;
mod session;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulation;
mod space_monitor;
mod stand_in;
mod task_management;

pub use connection::listener::try_listening;
pub use opening::DeviceLayer;
pub use service::{Service, ServiceOptions};
pub use shared::DaemonLimits;
