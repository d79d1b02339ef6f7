//! Signal that all of what an operation waits for is quiet: commands that end, or drain.

use std::sync::Arc;

use crate::loops::Token;

/// Signal that fires when its last owner lets go: every loop has looked and every aborted task has
/// ended.
pub struct QuietSignal {
    /// Operation that waits.
    token: Token,
    wake: scsi::task_set::Wake,
    /// Whether the end of a command that its task outlives is not enough.
    waits_for_the_task: bool,
}

impl QuietSignal {
    /// Returns a signal that wakes `token`. For this signal, a task that outlives its command is
    /// over with the command.
    pub fn new(token: Token, wake: scsi::task_set::Wake) -> Arc<Self> {
        Arc::new(Self {
            token,
            wake,
            waits_for_the_task: false,
        })
    }

    /// Returns a signal that wakes `token` when nothing at all is done any more.
    pub fn at_the_end(token: Token, wake: scsi::task_set::Wake) -> Arc<Self> {
        Arc::new(Self {
            token,
            wake,
            waits_for_the_task: true,
        })
    }

    /// Reports whether the signal waits on when a command is over and its task is not.
    pub fn waits_for_the_task(&self) -> bool {
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
