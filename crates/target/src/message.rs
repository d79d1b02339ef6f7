//! What event loops tell each other, and what the control plane tells them.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use iscsi::pdu::TaskManagementRequest;

use super::directory::Directory;
use crate::connection::listener::Arrived;
use crate::session::login::LoggedIn;
use crate::session::registry::Spelled;
use unit::command::abort;
use unit::command::operation::{SessionKey, Token};
use unit::transition::DrainOrder;

/// A message to an event loop.
pub(super) enum Message {
    /// A connection to log in.
    Accepted(Arrived),
    /// A connection that joins or starts a session which belongs to the receiving loop.
    LoggedIn(Box<LoggedIn>),
    /// An operation's turn has come, or what it waited for has happened.
    Wake(Token),
    /// Abort tasks of a unit.
    Abort(Arc<AbortOrder>),
    /// Commands of target port groups that go out of service or of units that were deleted, or
    /// saves of units that retire, are waited for.
    Drain(DrainOrder),
    /// The configuration changed.
    Reconfigure(Arc<Directory>),
    /// Close this session, another has taken its place; the reason is for the log.
    Close(SessionKey, &'static str),
    /// Tell the initiator that this session ends, and close it.
    Dismiss(SessionKey, &'static str),
    /// Ask the initiator to log this session out within so many seconds; it is told that the
    /// session ends otherwise.
    AskToLogOut(SessionKey, u16),
    /// Dismiss every session of the target with this name.
    DismissTarget(Spelled, &'static str),
    /// Describe the sessions of this loop.
    Describe(Sender<Vec<model::data_plane::SessionInfo>>),
    /// End the loop.
    Stop,
}

/// Task management function that asks for an abort, and its connection.
pub(super) type Function = (TaskManagementRequest, usize);

/// Tasks to abort, and the function that asks.
pub(super) type AbortOrder = abort::AbortOrder<Function>;
