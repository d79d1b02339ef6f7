//! Target's side of iSCSI: login, discovery, and the full-feature phase.

mod answers;
mod command;
mod command_window;
mod connection;
mod data_out;
pub mod discovery;
mod early;
mod functions;
pub mod login;
mod receive;
mod requests;
mod response;
mod session;
mod task_table;
mod transmit;

pub use connection::{ConnectionSettings, SessionSettings};
pub use login::Login;
pub use receive::ReceiveError;
pub use session::{
    Admission, Completion, ConnectionError, Event, IncomingCommand, Session, SessionCounters,
    TaskRouter,
};
pub use task_table::TaskId;
