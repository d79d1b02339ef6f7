//! The operations of one loop: found by their tokens, and by their sessions.
//!
//! A loop may have very many of them: a thousand sessions with full command windows on a device
//! that hangs. So each slot is a link in the list of its session. To find the operations of one
//! session, nobody looks at the slots of others.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::operation::{Operation, SessionKey, TaskKey, Token, Waiting};
use crate::nexus::MappedUnit;

/// End of a list.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// Next newer and next older operation of the session.
    newer: u32,
    older: u32,
    /// Session in whose list the slot is; [`SessionKey::NONE`] if in no list.
    session: SessionKey,
    /// Operation in the slot. It is `None` also while the operation is taken out for a moment.
    operation: Option<Operation>,
}

/// Hasher of session keys, which are numbers of our own, given one after the other.
#[derive(Debug, Default)]
pub struct KeyHasher(u64);

/// Values by their sessions.
pub type BySession<T> = HashMap<SessionKey, T, BuildHasherDefault<KeyHasher>>;

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let spread = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

/// Operations of one loop.
#[derive(Debug)]
pub struct Operations {
    loop_index: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Newest operation of each session that has any.
    newest: BySession<u32>,
    /// Whether an operation has ended, or left its session, since the last question.
    ended: bool,
}

impl Operations {
    /// Returns a table without operations.
    pub fn new(loop_index: usize) -> Self {
        Self {
            loop_index,
            slots: Vec::new(),
            free: Vec::new(),
            newest: BySession::default(),
            ended: false,
        }
    }

    /// Returns the token that the next [`Operations::insert`] gives.
    #[inline]
    pub fn next_token(&mut self) -> Token {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot {
                generation: 0,
                newer: NONE,
                older: NONE,
                session: SessionKey::NONE,
                operation: None,
            });
        }
        self.token(self.free[self.free.len() - 1])
    }

    fn token(&self, index: u32) -> Token {
        let generation = self.slots[index as usize].generation;
        Token::new(self.loop_index, generation, index)
    }

    /// Adds an operation.
    pub fn insert(&mut self, operation: Operation) -> Token {
        let token = self.next_token();
        self.free.pop();
        let index = token.index() as u32;
        let session = operation.session;
        let slot = &mut self.slots[token.index()];
        slot.operation = Some(operation);
        if session != SessionKey::NONE {
            slot.session = session;
            if let Some(older) = self.newest.insert(session, index) {
                slot.older = older;
                self.slots[older as usize].newer = index;
            }
        }
        token
    }

    /// Takes a slot out of the list of its session.
    fn unlink(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let session = std::mem::replace(&mut slot.session, SessionKey::NONE);
        if session == SessionKey::NONE {
            return;
        }
        let newer = std::mem::replace(&mut slot.newer, NONE);
        let older = std::mem::replace(&mut slot.older, NONE);
        if older != NONE {
            self.slots[older as usize].newer = newer;
        }
        if newer != NONE {
            self.slots[newer as usize].older = older;
        } else if older != NONE {
            self.newest.insert(session, older);
        } else {
            self.newest.remove(&session);
        }
    }

    /// Puts back an operation that [`Operations::take`] took: it keeps its token.
    pub fn put_back(&mut self, token: Token, operation: Operation) {
        self.slots[token.index()].operation = Some(operation);
    }

    /// Takes an operation out for a moment: either [`Operations::put_back`] or
    /// [`Operations::retire`] must follow. Returns `None` if the token is stale.
    pub fn take(&mut self, token: Token) -> Option<Operation> {
        let current = self.token_at(token.index())?;
        if current == token {
            self.slots[token.index()].operation.take()
        } else {
            None
        }
    }

    fn token_at(&self, index: usize) -> Option<Token> {
        (index < self.slots.len()).then(|| self.token(index as u32))
    }

    /// Forgets the token of an operation that was taken.
    pub fn retire(&mut self, token: Token) {
        self.unlink(token.index());
        self.ended = true;
        let slot = &mut self.slots[token.index()];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(token.index() as u32);
    }

    /// Lets an operation go on without its session.
    pub fn disown(&mut self, token: Token) {
        if let Some(operation) = self.get_mut(token) {
            operation.session = SessionKey::NONE;
            self.unlink(token.index());
            self.ended = true;
        }
    }

    /// Reports whether operations have ended since the last call.
    pub fn take_ends(&mut self) -> bool {
        std::mem::take(&mut self.ended)
    }

    /// Makes [`Operations::take_ends`] report an end.
    pub fn note_end(&mut self) {
        self.ended = true;
    }

    /// Reports whether a session has operations.
    pub fn has_any(&self, session: SessionKey) -> bool {
        self.newest.contains_key(&session)
    }

    /// Returns the tokens of a session's operations, the oldest first.
    pub fn of_session(&self, session: SessionKey) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.list(session).map(|(token, _)| token).collect();
        tokens.reverse();
        tokens
    }

    /// Returns a session's operations, the newest first.
    fn list(&self, session: SessionKey) -> impl Iterator<Item = (Token, &Operation)> {
        let mut next = self.newest.get(&session).copied().unwrap_or(NONE);
        let slots = std::iter::from_fn(move || {
            let index = next;
            let slot = self.slots.get(index as usize)?;
            next = slot.older;
            Some((index, slot))
        });
        slots.filter_map(|(index, slot)| Some((self.token(index), slot.operation.as_ref()?)))
    }

    /// Returns the operations that have their place in a task set, of any unit.
    pub fn entered(&mut self) -> impl Iterator<Item = (&mut Operation, Arc<MappedUnit>)> {
        let operations = self.slots.iter_mut();
        operations.filter_map(|slot| {
            let operation = slot.operation.as_mut()?;
            let mapped = operation.entry.as_ref()?.mapped.clone();
            Some((operation, mapped))
        })
    }

    /// Reports whether a device works on any of them.
    pub fn any_on_device(&self) -> bool {
        let mut operations = self.slots.iter().filter_map(|slot| slot.operation.as_ref());
        operations.any(|operation| operation.waiting == Waiting::Device)
    }

    /// The token of the operation that runs this task.
    pub fn find(&self, session: SessionKey, task: TaskKey) -> Option<Token> {
        let mut list = self.list(session);
        list.find(|(_, operation)| operation.task == task)
            .map(|(token, _)| token)
    }

    /// Returns an operation.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut Operation> {
        if self.token_at(token.index())? == token {
            self.slots[token.index()].operation.as_mut()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {

    use super::super::operation::Work;
    use super::*;

    fn operation(session: u64, task: u64) -> Operation {
        Operation {
            session: SessionKey(session),
            task: TaskKey(task),
            entry: None,
            work: Work::Answer(0),
            waiting: Waiting::Quiet,
            held: Vec::new(),
            cancelled: false,
            fenced_off: false,
            data_out_wanted: None,
            observers: Vec::new(),
        }
    }

    /// Compares some thousands of steps with a list of all operations.
    #[test]
    fn each_session_finds_its_own_and_no_others() {
        let mut operations = Operations::new(3);
        let mut model: Vec<(u64, u64, Token)> = Vec::new();
        let mut random = 7_u64;
        let mut choose = |below: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) as usize % below
        };
        for task in 0..4000 {
            match choose(8) {
                // More come than go, until it is the other way round.
                0..=3 if task < 2000 => {
                    let session = choose(5) as u64;
                    let token = operations.insert(operation(session, task));
                    model.push((session, task, token));
                }
                4 if !model.is_empty() => {
                    let (_, _, token) = model.remove(choose(model.len()));
                    operations.disown(token);
                    assert!(operations.take(token).is_some());
                    operations.retire(token);
                }
                5 if !model.is_empty() => {
                    let (_, _, token) = model[choose(model.len())];
                    let taken = operations.take(token).expect("it is there");
                    operations.put_back(token, taken);
                }
                _ if !model.is_empty() => {
                    let (session, task, token) = model.remove(choose(model.len()));
                    assert!(operations.take(token).is_some());
                    operations.retire(token);
                    assert!(operations.take(token).is_none(), "the token is stale");
                    let task = TaskKey(task);
                    assert_eq!(operations.find(SessionKey(session), task), None);
                }
                _ => {}
            }
            for session in 0..5 {
                let mine = model.iter().filter(|(of, ..)| *of == session);
                let tokens: Vec<Token> = mine.clone().map(|(.., token)| *token).collect();
                let key = SessionKey(session);
                assert_eq!(operations.of_session(key), tokens);
                assert_eq!(operations.has_any(key), !tokens.is_empty());
                for (_, task, token) in mine {
                    let found = operations.find(key, TaskKey(*task));
                    assert_eq!(found, Some(*token));
                }
            }
        }
        assert!(operations.of_session(SessionKey::NONE).is_empty());
    }

    #[test]
    fn ends_are_told_once() {
        let mut operations = Operations::new(0);
        let token = operations.insert(operation(1, 1));
        assert!(!operations.take_ends());
        operations.disown(token);
        assert!(operations.take_ends(), "for its session it is over");
        assert!(!operations.take_ends());
        let _ = operations.take(token);
        operations.retire(token);
        assert!(operations.take_ends());
    }
}
