//! The target at work: portals, event loops, sessions and the logical units behind them.
//!
//! # Threads
//! One event loop for each core, and a thread that accepts connections. What may block runs on threads of
//! [`block`], and a pool's engine on its own ([`pools`]). A session belongs to one loop with all its
//! connections; a logical unit is served by all loops.
//!
//! # Where things are
//! | what | where |
//! |---|---|
//! | **connections and sessions** | |
//! | a connection is accepted | `listener.rs`, `arrival.rs`, `socket_options.rs`; which loop gets it: `dealer.rs` |
//! | LOGIN meets the configuration | `login.rs` (the state machine is `iscsi::target::login`) |
//! | which sessions there are, who may join or replace one | `registry.rs` |
//! | a connection is given to its session | `arrival.rs` |
//! | a login takes a connection's place | `reinstatement.rs` |
//! | a session on its loop, and the units that it sees | `served_session.rs`, `view.rs` |
//! | a connection or a session ends | `ending.rs` |
//! | writes of a lost session that are still under way | `fence.rs`, `ending.rs` |
//! | time limits, pings, memory pressure | `upkeep.rs` |
//! | **commands** | |
//! | the turns of a loop | `event_loop.rs`; what loops tell each other: `message.rs`, what they share: `shared.rs` |
//! | bytes become commands, answers leave | `session_traffic.rs`, `connection.rs`, `payload.rs` |
//! | input is left to gather; memory is fetched ahead | `gathering.rs`, `foresight.rs` |
//! | a command finds its unit and starts | `router.rs` |
//! | a command runs | `core.rs`, `operation.rs`; all that run: `operations.rs` |
//! | a task of the device server runs | `task_run.rs`, `step_requests.rs` |
//! | a long command lets others go on | `turn.rs` |
//! | a failed command takes others with it (QErr) | `queue_error.rs` |
//! | task management, aborts across loops, resets | `task_management.rs`, `reset.rs` |
//! | **units and configuration** | |
//! | a logical unit and what it keeps | the crate [`unit`] |
//! | a unit is another machine's disk | `gateway.rs` |
//! | thin units' space is watched | `space_monitor.rs` |
//! | the configuration as it is served | `directory.rs` |
//! | a configuration is put in force | `service/change.rs`, `opening.rs` |
//! | a refused configuration leaves no files behind | `made_files.rs` |
//! | a unit leaves service: deleted, or pointed elsewhere | `retirement.rs` |
//! | a target port group goes out of service | `transition.rs` |
//! | what could not be served at first | `service/second_try.rs` |
//! | work that is done again and again | `recurring.rs` |
//! | sessions in words, for the control plane | `describe.rs` |

pub(crate) mod arrival;
pub(crate) mod connection;
pub(crate) mod dealer;
pub(crate) mod ending;
pub(crate) mod foresight;
pub(crate) mod gathering;
pub(crate) mod listener;
pub(crate) mod login;
pub(crate) mod operations;
pub(crate) mod queue_error;
pub(crate) mod registry;
pub(crate) mod reinstatement;
pub(crate) mod reset;
pub(crate) mod served_session;
pub(crate) mod session_traffic;
pub(crate) mod socket_options;
pub(crate) mod task_management;
pub(crate) mod task_run;
pub(crate) mod turn;
pub(crate) mod upkeep;
pub(crate) mod view;
mod connection;
mod core;
mod describe;
pub mod directory;
mod event_loop;
mod fence;
mod gateway;
mod made_files;
mod message;
mod opening;
mod operation;
mod payload;
mod recurring;
mod retirement;
mod router;
mod service;
mod shared;
mod space_monitor;
mod stand_in;
mod step_requests;
mod transition;

pub use connection::listener::try_listening;
pub use opening::DeviceLayer;
pub use service::{Service, ServiceOptions};
pub use shared::DaemonLimits;
