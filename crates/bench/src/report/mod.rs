//! Results as one page of HTML for people: what was run on what, every figure, the distribution of
//! latencies, the course second by second, the differences, and the settings to use.
//!
//! The page is complete in itself. Its style and its pictures (SVG) are in it, it requests nothing
//! from a network, and a policy in its head forbids the browser to. The same results give the same
//! bytes. Names come from targets and other people's files, so every text is escaped. Nothing can
//! bypass this, because only the macro of [`maud`] makes markup.
//!
//! - [`page`]: the order of the parts; [`subject`]: the runs that belong together, and those that
//!   are compared;
//! - figures: [`summary`], [`verdicts`] (green, red, yellow), [`settings`], [`figures`] (every
//!   one), [`provenance`] (what was run on what), [`path`] (the network between); [`wire`] computes
//!   the capacity to which shares relate;
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

/// Results with their label on the page.
#[derive(Clone, Debug)]
pub struct Source {
    /// Label that tells these results from others: the name of their file.
    pub label: String,
    /// Results of the measurement.
    pub results: Results,
}

/// Builds the page. `alpha` is the chance that any equal things are called different. If there are
/// several results, the others are compared with the first.
pub fn html(sources: &[Source], network: &Network, alpha: f64) -> String {
    let subject = subject::Subject::of(sources, network, alpha);
    page::page(&subject).into_string()
}
