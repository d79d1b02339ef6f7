//! The console: pages for administrators, made on the server, and the live figures on them.
//!
//! Pages are plain HTML with links and forms. They ask the endpoints of the API through
//! [`control::Door`], so one gate checks roles for both. One script of ours writes live figures
//! into pages that are whole without it. `docs/console.md` has the rules of their design.
//!
//! | question | file |
//! |---|---|
//! | Which routes are there, and how is a page added? | `routes.rs`, `pages/`, a file for each object |
//! | What does a page know of its reader and its request? | `visit.rs` |
//! | What surrounds each page? | `frame/` |
//! | How is a list shown, sorted, filtered, and exported? | `table/` |
//! | How does a form preview a change before it is made? | `preview.rs`, `form.rs` |
//! | How is a task of several steps walked through? | `wizards/` |
//! | Which page and which button mend what an alert is about? | `remedy.rs` |
//! | How are figures, sizes and times written? | `format.rs` |
//! | How does a reader log in? | `entry/` |
//! | Where do live figures come from? | `live/` |
//! | Where do charts of the past come from? | `past/` |
//! | How are other figures drawn as lines? | `line_chart.rs` |
//! | Which headers, styles and scripts are sent? | `headers.rs`, `assets.rs` |
//!
//! # Invariants
//! - Every text from outside is escaped: by maud in pages, as text nodes by the script.
//! - Pages change nothing by GET. A change comes by POST, from a page of the console.
//! - A page needs no script, and asks no other machine.

mod answer;
mod assets;
mod benchmark_figures;
mod chart;
mod choice;
mod entry;
mod event_table;
mod form;
mod format;
mod frame;
mod headers;
mod line_chart;
mod live;
mod mark;
mod object_state;
mod pages;
mod past;
mod picture;
mod preview;
mod remedy;
mod routes;
mod state;
mod table;
mod visit;
mod wizards;

use std::sync::Arc;

use axum::Router;
use control::Door;

pub use routes::{Known, known};

/// Returns the router of all pages, of their files, and of the live figures.
pub fn router(door: Arc<Door>) -> Router {
    routes::router(state::Console::new(door, pages::window))
}

/// Returns the pages and the API as one router. A browser that asks for a path that does not exist
/// gets a page; any other client gets the answer of the API.
pub fn with_api(door: Arc<Door>, api: Router) -> Router {
    routes::with_api(state::Console::new(door, pages::window), api)
}
