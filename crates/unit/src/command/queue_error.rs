//! Queue error management: the effect of a command that ends with CHECK CONDITION on the others in
//! its task set (the QERR field of the control mode page, SPC-4 7.5.8). TST decides which commands
//! share the task set: those of all I_T nexuses, or of its own alone.
//!
//! The others are aborted at the end of the loop's turn, and by the other loops as soon as they
//! hear of it; nobody waits for that. A command that arrives in between is aborted like those
//! before it, as it would have been a moment earlier.

use std::sync::Arc;

use scsi::Status;
use scsi::logical_unit::QueueErrorPolicy;

use super::abort::{AbortOrder, Whose};
use super::core::Core;
use super::ended::Ended;
use super::operation::{SessionKey, TaskKey, Token};
use super::peers::Peers;
use crate::nexus::MappedUnit;
use crate::quiet_signal::QuietSignal;
use crate::timing::rare::Failure;
use model::figures::CommandKind;

impl<S: Peers> Core<S> {
    /// Looks at the end of a unit's command before its response leaves. `bytes` are those that a
    /// READ or WRITE was to move.
    #[inline]
    #[allow(clippy::too_many_arguments)] // The command, and its end.
    pub fn note_end(
        &mut self,
        session: SessionKey,
        task: TaskKey,
        mapped: &MappedUnit,
        completion: &Ended,
        kind: CommandKind,
        bytes: u64,
    ) {
        // A task that outlived its command answers nobody.
        let answered = session != SessionKey::NONE;
        if completion.status != Status::Good && answered {
            mapped.tally.add_failure(Failure {
                kind,
                bytes,
                met_reservation: completion.status == Status::ReservationConflict,
            });
            if completion.status == Status::CheckCondition {
                self.check_condition(session, task, mapped);
            }
        }
    }

    #[cold]
    fn check_condition(&mut self, session: SessionKey, task: TaskKey, mapped: &MappedUnit) {
        let logical = &mapped.unit.logical;
        let by = mapped.itl.nexus().id;
        let whose = match logical.queue_error_policy() {
            QueueErrorPolicy::LeaveOthers => return,
            QueueErrorPolicy::AbortAll => Whose::All,
            QueueErrorPolicy::AbortOfNexus => Whose::Nexus(by),
        };
        self.spread(AbortOrder {
            unit: mapped.unit.clone(),
            whose,
            except: Some((session, task)),
            by,
            function: None,
            tell: logical.task_aborted_status(),
            cleared: true,
            signal: QuietSignal::new(Token(u64::MAX), Arc::new(|_| {})),
        });
    }
}
