//! Figures as their readers take them: snapshots, history, metrics, the terminal.

mod figures_history;
pub(crate) mod live_figures;
mod metrics_address;
mod terminal;
