//! What event loops tell each other, and what the control plane tells them.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use iscsi::pdu::TaskManagementRequest;
use iscsi::target::TaskId;
use scsi::nexus::{Nexus, NexusId};
use scsi::persistent_reservation::Registrant;

use super::directory::Directory;
use super::operation::{SessionKey, Token};
use super::transition::DrainOrder;
use crate::listener::Arrived;
use crate::login::LoggedIn;
use crate::registry::Spelled;
use unit::unit::Unit;

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
    /// Commands of target port groups that go out of service or of units that were deleted, or saves of units that retire,
    /// are waited for.
    Drain(DrainOrder),
    /// The configuration changed.
    Reconfigure(Arc<Directory>),
    /// Close this session, another has taken its place; the reason is for the log.
    Close(SessionKey, &'static str),
    /// Tell the initiator that this session ends, and close it.
    Dismiss(SessionKey, &'static str),
    /// Ask the initiator to log this session out within so many seconds; it is told that the session ends otherwise.
    AskToLogOut(SessionKey, u16),
    /// Dismiss every session of the target with this name.
    DismissTarget(Spelled, &'static str),
    /// Describe the sessions of this loop.
    Describe(Sender<Vec<model::data_plane::SessionInfo>>),
    /// End the loop.
    Stop,
}

/// Which tasks to abort, and who waits for it.
#[derive(Debug)]
pub(super) struct AbortOrder {
    /// Tasks of this unit.
    pub unit: Arc<Unit>,
    /// Only those of these nexuses.
    pub whose: Whose,
    /// Not this one: it is the command that asks.
    pub except: Option<(SessionKey, TaskId)>,
    /// Who asks: tasks of other nexuses end with TASK ABORTED where TAS is set.
    pub by: NexusId,
    /// The function of `by` that asks, and the connection it came on: of that session's tasks only what was
    /// sent before it is meant. `None` where a command asks.
    pub function: Option<(TaskManagementRequest, usize)>,
    /// Whether TAS is set.
    pub tell: bool,
    /// Whether nexuses whose tasks are aborted without an answer learn so by a unit attention.
    pub cleared: bool,
    /// Fires once every aborted task is quiet.
    pub signal: Arc<QuietSignal>,
}

/// Whose tasks an abort order reaches.
#[derive(Debug)]
pub(super) enum Whose {
    /// Everybody's.
    All,
    /// Those of one nexus.
    Nexus(NexusId),
    /// Those of the nexuses that these are, also of those that were lost.
    Registrants(Vec<Registrant>),
}

impl Whose {
    /// Whether tasks of this nexus are meant.
    pub(super) fn includes(&self, nexus: &Nexus) -> bool {
        match self {
            Self::All => true,
            Self::Nexus(id) => nexus.id == *id,
            Self::Registrants(registrants) => registrants.contains(&Registrant::of(nexus)),
        }
    }
}

/// Fires when its last owner lets go: every loop has looked and every aborted task has ended.
pub(super) struct QuietSignal {
    /// What waits.
    token: Token,
    wake: scsi::task_set::Wake,
    /// Not content with the end of a command that its task outlives.
    waits_for_the_task: bool,
}

impl QuietSignal {
    /// A signal that wakes `token`. A task that outlives its command is over for it when the command is.
    pub(super) fn new(token: Token, wake: scsi::task_set::Wake) -> Arc<Self> {
        Arc::new(Self {
            token,
            wake,
            waits_for_the_task: false,
        })
    }

    /// The same for who must know that nothing is done any more.
    pub(super) fn at_the_end(token: Token, wake: scsi::task_set::Wake) -> Arc<Self> {
        Arc::new(Self {
            token,
            wake,
            waits_for_the_task: true,
        })
    }

    /// Whether it waits on when a command is over and its task is not.
    pub(super) fn waits_for_the_task(&self) -> bool {
        self.waits_for_the_task
    }
}

impl std::fmt::Debug for QuietSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuietSignal")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl Drop for QuietSignal {
    fn drop(&mut self) {
        (self.wake)(self.token.0);
    }
}
