//! Commands at work on a loop: tasks, their table, aborts and resets.

pub(super) mod operations;
pub(super) mod queue_error;
pub(super) mod reset;
pub(super) mod task_management;
pub(super) mod task_run;
pub(super) mod turn;
