//! Asks an iSNS server, for an initiator, which targets the initiator may use and where they are.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use iscsi::isns::{FoundTarget, Message, Response, Status, Visitor, found_targets};

use super::exchange::{Connection, malformed};

/// Port given for the initiator, although it accepts no connections.
const INITIATOR_PORT: u16 = 3260;

/// Reason why a server gave no answer.
#[derive(Debug)]
pub enum FindError {
    /// The server cannot be reached, or its answer is no iSNS message.
    Connection(io::Error),
    /// The server refused.
    Refused(Status),
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Refused(status) => write!(f, "the iSNS server refused: {status}"),
        }
    }
}

impl std::error::Error for FindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(error) => Some(error),
            Self::Refused(_) => None,
        }
    }
}

impl From<io::Error> for FindError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

/// Asks `server` for the targets that it shows to the initiator of this name. Each step takes at
/// most `limit`. If the server does not know the initiator, the initiator is registered while the
/// question lasts.
///
/// # Errors
/// The server does not answer, or refuses.
pub fn find_targets(
    server: SocketAddr,
    initiator: &str,
    limit: Duration,
) -> Result<Vec<FoundTarget>, FindError> {
    let mut connection = Connection::open(server, limit)?;
    let visitor = Visitor {
        name: initiator.to_owned(),
        portal: SocketAddr::new(connection.local()?, INITIATOR_PORT),
    };
    let (status, found) = ask(&mut connection, &visitor.targets(1))?;
    let is_unknown = matches!(
        status,
        Status::SOURCE_UNKNOWN | Status::SOURCE_UNAUTHORIZED | Status::NO_SUCH_ENTRY
    );
    if !is_unknown {
        return accepted(status, found);
    }
    let registered = connection.exchange(&visitor.register(2))?;
    if registered.status != Status::SUCCESSFUL {
        // An initiator that cannot be registered sees nothing.
        return match status {
            Status::NO_SUCH_ENTRY => Ok(Vec::new()),
            _ => Err(FindError::Refused(registered.status)),
        };
    }
    let second = ask(&mut connection, &visitor.targets(3));
    // If this fails, the server forgets the registration after the registration period.
    let _: io::Result<Response> = connection.exchange(&visitor.deregister(4));
    match second? {
        (Status::NO_SUCH_ENTRY, _) => Ok(Vec::new()),
        (status, found) => accepted(status, found),
    }
}

fn ask(
    connection: &mut Connection,
    question: &Message,
) -> Result<(Status, Vec<FoundTarget>), FindError> {
    let answer = connection.answer(question)?;
    found_targets(&answer).map_err(|error| malformed(error).into())
}

fn accepted(status: Status, found: Vec<FoundTarget>) -> Result<Vec<FoundTarget>, FindError> {
    match status {
        Status::SUCCESSFUL => Ok(found),
        refused => Err(FindError::Refused(refused)),
    }
}
