//! The initiator's side of iSCSI: LOGIN, and a session of one connection that carries SCSI commands.

mod connection;
pub mod login;
mod receive;
mod session;
mod task_table;

pub use connection::StreamError;
pub use login::{LoggedIn, Login, LoginError, LoginProgress, LoginSettings};
pub use session::{
    Command, CommandEnd, Direction, Residual, Session, SessionError, SessionEvent, SessionUser,
};
