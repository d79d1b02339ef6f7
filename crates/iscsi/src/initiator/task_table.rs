//! The initiator's outstanding tasks, found by their Initiator Task Tag in one step.
//!
//! A tag is a slot's number and the slot's generation. So a late or forged answer to a task that
//! has ended does not hit the next task in the slot.

use super::command::{Command, Direction};

/// Most tasks at once. Tags stay below the fixed tags of NOP, text and logout.
const MAX_TASKS: usize = 0xffff;

/// One outstanding task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Number that the caller gave to the task.
    pub(super) cookie: u64,
    pub(super) kind: TaskKind,
    /// Logical unit.
    pub(super) lun: u64,
    /// Expected length of the data in bytes.
    pub(super) length: u32,
    /// CmdSN with which the task was sent.
    pub(super) cmd_sn: u32,
    /// Next DataSN or R2TSN expected.
    pub(super) data_sn: u32,
    /// Bytes of Data-In that came, or bytes for which R2Ts asked.
    pub(super) moved: u32,
    /// Number of the task in the order of arrival.
    pub(super) order: u64,
}

/// Kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// Command without data, or one that reads or writes.
    Command(Direction),
    /// Task management function.
    Management,
}

impl Task {
    pub(super) fn command(cookie: u64, command: &Command, length: u32, cmd_sn: u32) -> Self {
        let kind = TaskKind::Command(command.direction);
        Self {
            cookie,
            kind,
            lun: command.lun,
            cmd_sn,
            length,
            data_sn: 0,
            moved: 0,
            order: 0,
        }
    }

    pub(super) fn management(cookie: u64) -> Self {
        Self {
            cookie,
            kind: TaskKind::Management,
            lun: 0,
            cmd_sn: 0,
            length: 0,
            data_sn: 0,
            moved: 0,
            order: 0,
        }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u16,
    task: Option<Task>,
}

/// All outstanding tasks.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    slots: Vec<Slot>,
    free: Vec<u16>,
    commands: usize,
    arrivals: u64,
}

impl TaskTable {
    /// Returns the number of commands among the tasks.
    pub(super) fn commands(&self) -> usize {
        self.commands
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < MAX_TASKS
    }

    /// Adds a task and returns its tag, or `None` if there is no free slot.
    #[inline]
    pub(super) fn insert(&mut self, mut task: Task) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < MAX_TASKS => {
                self.slots.push(Slot {
                    generation: 0,
                    task: None,
                });
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        self.commands += usize::from(task.kind != TaskKind::Management);
        self.arrivals += 1;
        task.order = self.arrivals;
        let slot = &mut self.slots[usize::from(index)];
        slot.task = Some(task);
        Some(u32::from(slot.generation) << 16 | u32::from(index))
    }

    /// Returns the task with this tag.
    #[inline]
    pub(super) fn get(&mut self, itt: u32) -> Option<&mut Task> {
        let slot = self.slots.get_mut((itt & 0xffff) as usize)?;
        if u32::from(slot.generation) == itt >> 16 {
            slot.task.as_mut()
        } else {
            None
        }
    }

    /// Removes the task with this tag.
    #[inline]
    pub(super) fn remove(&mut self, itt: u32) -> Option<Task> {
        let slot = self.slots.get_mut((itt & 0xffff) as usize)?;
        if u32::from(slot.generation) != itt >> 16 {
            return None;
        }
        let task = slot.task.take()?;
        // The last generation belongs to the fixed tags.
        slot.generation = if slot.generation >= 0xfffe {
            0
        } else {
            slot.generation + 1
        };
        self.free.push((itt & 0xffff) as u16);
        self.commands -= usize::from(task.kind != TaskKind::Management);
        Some(task)
    }

    /// Returns the command with this cookie and its tag. This is slow, and meant for aborts.
    pub(super) fn find_command(&self, cookie: u64) -> Option<(u32, &Task)> {
        self.slots.iter().enumerate().find_map(|(index, slot)| {
            let task = slot.task.as_ref()?;
            let found = task.cookie == cookie && task.kind != TaskKind::Management;
            found.then_some((u32::from(slot.generation) << 16 | index as u32, task))
        })
    }

    /// Removes all tasks. Returns the commands' cookies, oldest first.
    pub(super) fn drain_commands(&mut self) -> Vec<u64> {
        let mut tasks: Vec<Task> = self.slots.drain(..).filter_map(|slot| slot.task).collect();
        self.free.clear();
        self.commands = 0;
        tasks.retain(|task| task.kind != TaskKind::Management);
        tasks.sort_unstable_by_key(|task| task.order);
        tasks.into_iter().map(|task| task.cookie).collect()
    }
}
