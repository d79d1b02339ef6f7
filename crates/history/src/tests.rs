//! Tests of books over memory that loses what was not synced, and of the keeper over files.

mod damage;
mod keeping;
mod places;
mod power_cuts;
mod rings;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use model::history::{HistoryKind, Span};

use crate::book::{Book, Sample, Storage, Unfit};
use crate::fields::{Values, commands, encode};

/// Kind of the books under test.
const KIND: HistoryKind = HistoryKind::Unit;

/// Request that storage got.
#[derive(Clone, Debug)]
enum Event {
    Write(u64, Vec<u8>),
    Lengthen(u64),
    Sync,
}

/// Memory as storage. It remembers every request, and fails when it is told to.
#[derive(Clone, Debug, Default)]
struct Memory {
    bytes: Rc<RefCell<Vec<u8>>>,
    events: Rc<RefCell<Vec<Event>>>,
    /// Number of further changes that succeed; `None` is no limit.
    patience: Rc<Cell<Option<usize>>>,
}

impl Memory {
    fn of(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Rc::new(RefCell::new(bytes)),
            ..Self::default()
        }
    }

    /// Returns the bytes as they are now.
    fn image(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }

    fn change(&self, event: Event) -> io::Result<()> {
        match self.patience.get() {
            Some(0) => {
                // A full disk may take a part of a write.
                if let Event::Write(at, bytes) = event {
                    apply(
                        &mut self.bytes.borrow_mut(),
                        &Event::Write(at, bytes[..bytes.len() / 2].to_vec()),
                    );
                }
                return Err(io::ErrorKind::StorageFull.into());
            }
            Some(left) => self.patience.set(Some(left - 1)),
            None => {}
        }
        apply(&mut self.bytes.borrow_mut(), &event);
        self.events.borrow_mut().push(event);
        Ok(())
    }
}

/// Applies a request to bytes.
fn apply(bytes: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Write(at, written) => {
            let at = *at as usize;
            bytes[at..at + written.len()].copy_from_slice(written);
        }
        Event::Lengthen(length) => bytes.resize(*length as usize, 0),
        Event::Sync => {}
    }
}

impl Storage for Memory {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = at as usize;
        buffer.copy_from_slice(&self.bytes.borrow()[at..at + buffer.len()]);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Event::Write(at, bytes.to_vec()))
    }

    fn lengthen(&self, bytes: u64) -> io::Result<()> {
        self.change(Event::Lengthen(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.change(Event::Sync)
    }
}

/// Returns the name of an object.
fn name(object: usize) -> String {
    format!("vm{object}")
}

/// Returns what an object does in a minute: this many reads a second.
fn sample(object: usize, reads: f64) -> Sample {
    let mut values = Values::default();
    values[commands::READS] = Some(reads);
    Sample {
        key: name(object),
        name: name(object),
        slot: encode(KIND, &values),
    }
}

/// Returns an empty book and its memory.
fn book() -> (Book<Memory>, Memory) {
    let memory = Memory::default();
    Book::create(&memory, KIND).expect("made");
    (opened(&memory), memory)
}

/// Opens a book that must be whole.
fn opened(memory: &Memory) -> Book<Memory> {
    Book::open(memory.clone(), KIND).expect("it is whole")
}

/// Opens a book, if it is whole.
fn opened_if_whole(memory: &Memory) -> Option<Book<Memory>> {
    match Book::open(memory.clone(), KIND) {
        Ok(book) => Some(book),
        Err(Unfit::Damaged(_)) => None,
        Err(Unfit::Io(error)) => panic!("memory does not fail: {error}"),
    }
}

/// Returns the reads of an object that a chart shows, by minute, without the gaps.
fn chart(book: &Book<Memory>, object: usize, span: Span, last: u32) -> BTreeMap<u32, f64> {
    let Some((place, ..)) = book.find(&name(object)) else {
        return BTreeMap::new();
    };
    let points = book.points(place, span, last).expect("memory is read");
    let points = points.minutes.into_iter().zip(points.values);
    points
        .filter_map(|(minute, values)| Some((minute, values?[commands::READS]?)))
        .collect()
}
