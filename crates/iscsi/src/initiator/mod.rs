//! Initiator's side of iSCSI: LOGIN, and a session of one connection that carries SCSI commands.

mod command;
mod connection;
pub mod login;
mod offer;
mod receive;
mod session;
mod task_table;

pub use command::{Command, CommandEnd, Direction, Residual};
pub use connection::StreamError;
pub use login::{LoggedIn, Login, LoginError, LoginProgress, LoginSettings, OFFERED};
pub use offer::Offer;
pub use session::{Session, SessionError, SessionEvent, SessionUser};
