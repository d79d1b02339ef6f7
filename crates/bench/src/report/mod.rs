//! Results as one page of HTML for people: what was run on what, every figure, how latencies are
//! spread and how things went second by second, what differs and what does not, and the settings to
//! use.
//!
//! The page is whole in itself: its style and its pictures (SVG) are in it, it asks no network for
//! anything, and a policy in its head forbids the browser to. The same results give the same bytes.
//! Names come from targets and files of others, so every text is escaped: there is no way around
//! it, markup is made by macro ([`maud`]) only.
//!
//! - [`page`]: the order of things; [`subject`]: which runs belong together and which are compared;
//! - figures: [`summary`], [`verdicts`] (green, red, yellow), [`settings`], [`figures`] (every
//!   one), [`provenance`] (what was run on what), [`path`] (the network between), of which [`wire`]
//!   makes what its share is told of;
//! - pictures: [`throughput`], [`latency`], [`time_series`], [`time_split`] (KAVG and DAVG), drawn
//!   with [`bars`], [`lines`], [`ranges`], which share [`scale`] and [`svg`];
//! - [`units`]: figures in words.

mod bars;
mod figures;
mod latency;
mod lines;
mod page;
mod path;
mod provenance;
mod ranges;
mod scale;
mod settings;
mod subject;
mod summary;
mod svg;
#[cfg(test)]
mod tests;
mod throughput;
mod time_series;
mod time_split;
pub mod units;
mod verdicts;
mod wire;

pub use wire::{MeasuredPath, Network, Wire};

use super::results::Results;

/// Results with what they are called on the page.
#[derive(Clone, Debug)]
pub struct Source {
    /// How they are told from the others: the name of their file.
    pub label: String,
    /// What was measured.
    pub results: Results,
}

/// The page. `alpha` is the chance that of things that do not differ any one is said to; where
/// there are several results, the others are compared with the first.
pub fn html(sources: &[Source], network: &Network, alpha: f64) -> String {
    let subject = subject::Subject::of(sources, network, alpha);
    page::page(&subject).into_string()
}
