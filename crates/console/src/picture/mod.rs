//! The path picture: host → session → port group → unit → volume → vdev → disk, with the latency of
//! each hop. It shows where it hurts; each node leads to the page that says why.

mod chain;
mod draw;

pub(crate) use chain::{Source, chain};
pub(crate) use draw::draw;

use crate::mark::State;

/// Columns of the picture, from the host to the disk.
pub(crate) const COLUMNS: [&str; 7] = [
    "Host",
    "Session",
    "Port group",
    "Unit",
    "Data on",
    "Vdev",
    "Disk",
];

/// Node of the picture.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Name that is unique in the picture.
    key: String,
    /// Number of the object in the stream of live figures.
    live: Option<String>,
    /// Text for people.
    label: String,
    /// Page of the object.
    path: String,
    /// State of the object.
    state: State,
    /// Word of the state, if the state is not good.
    word: String,
    /// Live figures below the label.
    figures: Vec<Figure>,
}

/// A live figure of a node.
#[derive(Clone, Debug)]
struct Figure {
    /// Name of the figure, with its unit.
    name: &'static str,
    /// Number among the figures of the object.
    place: usize,
    /// Text at first.
    text: String,
}

/// Line between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    from: String,
    to: String,
    state: State,
}

/// All that the picture shows.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    columns: [Vec<Node>; COLUMNS.len()],
    lines: Vec<Line>,
}

impl Chain {
    /// Adds a node, unless the column has it.
    fn add(&mut self, column: usize, node: Node) {
        if !self.columns[column].iter().any(|it| it.key == node.key) {
            self.columns[column].push(node);
        }
    }

    /// Adds a line, unless it is there.
    fn join(&mut self, from: &str, to: &str, state: State) {
        let line = Line {
            from: from.to_owned(),
            to: to.to_owned(),
            state,
        };
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Reports whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.iter().all(Vec::is_empty)
    }
}
