//! Tasks of one session, found by Initiator Task Tag or by the number that the runtime knows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::data_out::DataOutTransfer;
use crate::pdu::RESERVED_TAG;

/// Identifier of a task of a session. It is never reused while the session lives, because it
/// includes a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    index: u32,
    generation: u32,
}

impl TaskId {
    /// Returns the identifier as one number, for a completion token.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Reads an identifier, as the inverse of [`TaskId::to_bits`].
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// One command between its arrival and its response.
#[derive(Debug)]
pub(super) struct Task<B> {
    pub(super) itt: u32,
    pub(super) lun: u64,
    pub(super) cmd_sn: u32,
    pub(super) immediate: bool,
    /// Connection of allegiance.
    pub(super) connection: usize,
    pub(super) edtl: u32,
    pub(super) read: bool,
    pub(super) write: bool,
    /// Bytes of data-out that the command took, for the residual.
    pub(super) wanted: u32,
    /// Number of R2Ts sent, for ExpDataSN.
    pub(super) r2t_sn: u32,
    /// Data-out that is still arriving, or `None` once the device server runs the task.
    pub(super) transfer: Option<DataOutTransfer<B>>,
    /// End of the unsolicited data that was announced for a command that takes none. Data up to
    /// there may come, and is dropped.
    pub(super) dropped_until: u32,
    /// Expected read length of a command with both R and W, in bytes.
    pub(super) bidirectional_read: u32,
    /// Whether the task can be found by its tag.
    pub(super) listed: bool,
    /// Abort of the task: `Some(true)` answers TASK ABORTED when the task has ended, `Some(false)`
    /// answers nothing.
    pub(super) aborted: Option<bool>,
}

#[derive(Debug)]
struct Slot<B> {
    generation: u32,
    task: Option<Task<B>>,
}

/// Hasher of initiator task tags, which are counters or pointers chosen by the initiator. One
/// multiplication spreads them. A hostile initiator can only slow down its own session, whose table
/// is bounded.
#[derive(Debug, Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, tag: u32) {
        let spread = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

/// Table of the tasks.
#[derive(Debug)]
pub(super) struct TaskTable<B> {
    slots: Vec<Slot<B>>,
    free: Vec<u32>,
    /// Slots by tag, of listed tasks only.
    by_itt: HashMap<u32, u32, BuildHasherDefault<TagHasher>>,
    len: usize,
}

impl<B> TaskTable<B> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_itt: HashMap::default(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the id that the next [`TaskTable::insert`] gives.
    #[inline]
    pub(super) fn next_id(&mut self) -> TaskId {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot {
                generation: 0,
                task: None,
            });
        }
        let index = self.free[self.free.len() - 1];
        TaskId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    /// Adds a task that cannot be found by its tag yet, because its own PDU is still arriving. A
    /// small write with immediate data lives and ends in this state, without the cost of listing
    /// it.
    #[inline]
    pub(super) fn insert(&mut self, task: Task<B>) -> TaskId {
        let id = self.next_id();
        self.free.pop();
        self.len += 1;
        self.slots[id.index as usize].task = Some(task);
        id
    }

    /// Makes sure that an id is never given. A command had it that ended before it was inserted,
    /// and the runtime may still know it.
    #[inline]
    pub(super) fn use_up(&mut self, id: TaskId) {
        let generation = &mut self.slots[id.index as usize].generation;
        *generation = generation.wrapping_add(1);
    }

    /// Makes a task findable by its tag.
    pub(super) fn list(&mut self, id: TaskId) {
        if let Some(task) = self.get_mut(id)
            && !task.listed
        {
            task.listed = true;
            let itt = task.itt;
            self.by_itt.insert(itt, id.index);
        }
    }

    pub(super) fn find(&self, itt: u32) -> Option<TaskId> {
        let index = *self.by_itt.get(&itt)?;
        Some(TaskId {
            index,
            generation: self.slots[index as usize].generation,
        })
    }

    /// Removes the tag of a task whose connection is gone. The initiator may use the tag again.
    pub(super) fn forget_tag(&mut self, id: TaskId) {
        if let Some(task) = self.get_mut(id) {
            let itt = std::mem::replace(&mut task.itt, RESERVED_TAG);
            if std::mem::take(&mut task.listed) {
                self.by_itt.remove(&itt);
            }
        }
    }

    /// Reports whether tasks still run that will not be answered, because they were aborted or died
    /// with their connection.
    pub(super) fn any_lost(&self) -> bool {
        let mut tasks = self.iter();
        tasks.any(|(_, task)| task.aborted == Some(false))
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&Task<B>> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation {
            slot.task.as_ref()
        } else {
            None
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task<B>> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation {
            slot.task.as_mut()
        } else {
            None
        }
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Option<Task<B>> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let task = slot.task.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        self.len -= 1;
        if task.listed {
            self.by_itt.remove(&task.itt);
        }
        Some(task)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task<B>> {
        self.slots.iter_mut().filter_map(|slot| slot.task.as_mut())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (TaskId, &Task<B>)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let task = slot.task.as_ref()?;
            Some((
                TaskId {
                    index: index as u32,
                    generation: slot.generation,
                },
                task,
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_id_is_never_given_again() {
        let mut table: TaskTable<Vec<u8>> = TaskTable::new();
        let first = table.next_id();
        table.use_up(first);
        let second = table.next_id();
        assert_ne!(first, second, "the runtime may still know the first");
        table.use_up(second);
        assert_ne!(table.next_id(), second);
    }
}
