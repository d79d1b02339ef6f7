//! Messages between event loops, and from the control plane to them.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use iscsi::pdu::TaskManagementRequest;
use process::watchdog::Turn;

use super::directory::Directory;
use crate::connection::listener::Arrived;
use crate::session::login::LoggedIn;
use crate::session::registry::Spelled;
use unit::command::abort;
use unit::command::operation::SessionKey;
use unit::loops::Call;

/// Message to an event loop.
pub(super) enum Message {
    /// Connection to log in.
    Accepted(Arrived),
    /// Connection that joins or starts a session of the receiving loop.
    LoggedIn(Box<LoggedIn>),
    /// Call by which loops of all protocols go on: an operation may continue, or work is waited
    /// for.
    Call(Call),
    /// Order to abort tasks of a unit.
    Abort(Arc<AbortOrder>),
    /// New configuration.
    Reconfigure(Arc<Directory>),
    /// Order to close this session, because another has taken its place. The reason is for the log.
    Close(SessionKey, &'static str),
    /// Order to tell the initiator that this session ends, and to close it.
    Dismiss(SessionKey, &'static str),
    /// Order to ask the initiator to log this session out within a number of seconds. If it does
    /// not, it is told that the session ends.
    AskToLogOut(SessionKey, u16),
    /// Order to dismiss every session of the target with this name.
    DismissTarget(Spelled, &'static str),
    /// Order to describe the sessions of this loop.
    Describe(Sender<Vec<model::data_plane::SessionInfo>>),
    /// Question whether the loop still turns. It is answered by being dropped.
    Turn(Turn),
    /// Order to end the loop.
    Stop,
}

/// Task management function that asks for an abort, and its connection.
pub(super) type Function = (TaskManagementRequest, usize);

/// Tasks to abort, and the function that asks.
pub(super) type AbortOrder = abort::AbortOrder<Function>;
