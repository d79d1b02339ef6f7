//! The drawing: nodes in columns, in an order that crosses few lines.

use std::collections::HashMap;

use maud::{Markup, html};

use super::{COLUMNS, Chain, Node};
use crate::mark::State;

const NODE_WIDTH: f64 = 130.0;
const NODE_HEIGHT: f64 = 54.0;
/// Distance of columns. All seven fit beside the navigation on a screen 1280 wide.
const COLUMN_STEP: f64 = 150.0;
const ROW_STEP: f64 = 62.0;
/// Room between a node's edge and its texts.
const PADDING: f64 = 7.0;
/// Distance of a node's first line of text from its top, and of each further one from it.
const FIRST_LINE: f64 = 17.0;
const LINE_STEP: f64 = 15.0;
const TOP: f64 = 30.0;
const EDGE: f64 = 4.0;
/// Letters of a label that fit into a node.
const LETTERS: usize = 15;

/// Place of a node's left upper corner.
type Place = (f64, f64);

/// Draws the chain.
pub(crate) fn draw(chain: &Chain) -> Markup {
    let columns: Vec<(usize, Vec<&Node>)> = ordered(chain);
    let places = places(&columns);
    let tallest = columns
        .iter()
        .map(|(_, nodes)| nodes.len())
        .max()
        .unwrap_or(0);
    let width = COLUMN_STEP * columns.len() as f64 - (COLUMN_STEP - NODE_WIDTH) + 2.0 * EDGE;
    let height = TOP + ROW_STEP * tallest as f64;
    html! {
        div.picture tabindex="0" role="region" aria-label="Picture of the paths" {
            svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) {
                @for (at, (column, _)) in columns.iter().enumerate() {
                    text.heading x=(EDGE + COLUMN_STEP * at as f64) y="16" { (COLUMNS[*column]) }
                }
                @for line in &chain.lines {
                    @if let (Some(from), Some(to)) = (places.get(line.from.as_str()), places.get(line.to.as_str())) {
                        path.line.(line.state.class()) d=(curve(*from, *to)) {}
                    }
                }
                @for (_, nodes) in &columns {
                    @for node in nodes { (show(node, places[node.key.as_str()])) }
                }
            }
        }
    }
}

/// Returns the columns that are not empty. Each is sorted by the places of its neighbours on the
/// left.
fn ordered(chain: &Chain) -> Vec<(usize, Vec<&Node>)> {
    let mut ranks: HashMap<&str, f64> = HashMap::new();
    let mut columns = Vec::new();
    for (column, nodes) in chain
        .columns
        .iter()
        .enumerate()
        .filter(|(_, nodes)| !nodes.is_empty())
    {
        let mut placed: Vec<(f64, &Node)> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let left = chain.lines.iter().filter(|line| line.to == node.key);
                let left: Vec<f64> = left
                    .filter_map(|line| ranks.get(line.from.as_str()).copied())
                    .collect();
                let mean = left.iter().sum::<f64>() / left.len().max(1) as f64;
                // Nodes without a neighbour stand at the end, in their own order.
                let rank = if left.is_empty() {
                    1e6 + at as f64
                } else {
                    mean
                };
                (rank, node)
            })
            .collect();
        if !columns.is_empty() {
            placed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        }
        let nodes: Vec<&Node> = placed.into_iter().map(|(_, node)| node).collect();
        for (at, node) in nodes.iter().enumerate() {
            ranks.insert(&node.key, at as f64 / nodes.len() as f64);
        }
        columns.push((column, nodes));
    }
    columns
}

/// Returns the places of all nodes. Shorter columns stand in the middle.
fn places<'a>(columns: &[(usize, Vec<&'a Node>)]) -> HashMap<&'a str, Place> {
    let tallest = columns
        .iter()
        .map(|(_, nodes)| nodes.len())
        .max()
        .unwrap_or(0);
    let mut places = HashMap::new();
    for (at, (_, nodes)) in columns.iter().enumerate() {
        let top = TOP + ROW_STEP * (tallest - nodes.len()) as f64 / 2.0;
        for (row, node) in nodes.iter().enumerate() {
            let place = (EDGE + COLUMN_STEP * at as f64, top + ROW_STEP * row as f64);
            places.insert(node.key.as_str(), place);
        }
    }
    places
}

/// Returns a curve from the right side of one node to the left side of another.
fn curve((from_x, from_y): Place, (to_x, to_y): Place) -> String {
    let (x1, y1) = (from_x + NODE_WIDTH, from_y + NODE_HEIGHT / 2.0);
    let (x2, y2) = (to_x, to_y + NODE_HEIGHT / 2.0);
    let middle = (x1 + x2) / 2.0;
    format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}")
}

fn show(node: &Node, (x, y): Place) -> Markup {
    let told = match node.word.is_empty() {
        true => node.label.clone(),
        false => format!("{}: {}", node.label, node.word),
    };
    html! {
        a href=(node.path) class=(node.state.class()) data-id=[node.live.as_ref()] aria-label=(told) {
            title { (told) }
            rect.box x=(x) y=(y) width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="4" {}
            @let is_flagged = node.state != State::Good;
            text x=(x + PADDING) y=(y + FIRST_LINE) {
                @if is_flagged { tspan.flag { (node.state.mark()) " " } }
                (short(&node.label, if is_flagged { LETTERS - 2 } else { LETTERS }))
            }
            @if node.figures.is_empty() {
                text.small x=(x + PADDING) y=(y + FIRST_LINE + LINE_STEP) { (short(&node.word, LETTERS)) }
            }
            @for (at, figure) in node.figures.iter().enumerate() {
                @let y = y + FIRST_LINE + LINE_STEP * (at + 1) as f64;
                text.small x=(x + PADDING) y=(y) { (figure.name) }
                text.small x=(x + NODE_WIDTH - PADDING) y=(y) text-anchor="end" data-v=(figure.place) { (figure.text) }
            }
        }
    }
}

/// Returns the part of a label that tells most, in a number of letters: of an iSCSI name, its end.
fn short(label: &str, letters: usize) -> String {
    let is_iscsi_name = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|start| label.starts_with(start));
    let label = match label.split_once(':') {
        Some((_, end)) if is_iscsi_name && !end.is_empty() => end,
        _ => label,
    };
    let count = label.chars().count();
    match count > letters {
        false => label.to_owned(),
        true => {
            let tail = letters / 2;
            let head: String = label.chars().take(letters - tail - 1).collect();
            let tail: String = label.chars().skip(count - tail).collect();
            format!("{head}…{tail}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(key: &str) -> Node {
        Node {
            key: key.to_owned(),
            live: Some(key.to_owned()),
            label: key.to_owned(),
            path: "/".to_owned(),
            state: State::Good,
            word: String::new(),
            figures: Vec::new(),
        }
    }

    #[test]
    fn lines_cross_as_little_as_can_be() {
        let mut chain = Chain::default();
        for key in ["a", "b", "c"] {
            chain.add(0, node(key));
        }
        for (key, from) in [("x", "c"), ("y", "b"), ("z", "a")] {
            chain.add(1, node(key));
            chain.join(from, key, State::Good);
        }
        let order = ordered(&chain);
        let keys: Vec<&str> = order[1].1.iter().map(|node| node.key.as_str()).collect();
        assert_eq!(keys, ["z", "y", "x"]);
    }

    #[test]
    fn a_column_without_nodes_takes_no_room() {
        let mut chain = Chain::default();
        chain.add(0, node("a"));
        chain.add(6, node("b"));
        let drawn = draw(&chain).into_string();
        assert!(drawn.contains(">Host<") && drawn.contains(">Disk<") && !drawn.contains(">Unit<"));
    }

    #[test]
    fn names_of_others_are_only_text() {
        let mut chain = Chain::default();
        chain.add(0, node("\"><script>alert(1)</script>"));
        let drawn = draw(&chain).into_string();
        assert!(!drawn.contains("<script"), "{drawn}");
    }

    #[test]
    fn long_names_show_their_telling_ends() {
        assert_eq!(short("iqn.2026-01.io.sandstone:demo", LETTERS), "demo");
        assert_eq!(
            short("a-very-long-name-of-a-unit-0042", LETTERS),
            "a-very-…it-0042"
        );
        assert_eq!(short("short", LETTERS), "short");
    }
}
