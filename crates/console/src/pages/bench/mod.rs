//! Benchmarks: run, swept and compared from the page.
//!
//! | question | file |
//! |---|---|
//! | Which are there? | `list.rs` |
//! | How is one ordered and previewed? | `order.rs`; its fields: `fields.rs` |
//! | What did one find? | `show.rs`; how to measure the whole path: `path.rs` |
//! | Which setting of a sweep is best? | `sweep.rs` |
//! | Do two differ? | `compare.rs` |

mod compare;
mod fields;
mod list;
mod order;
mod path;
mod show;
mod sweep;

use control::endpoint::benchmark;

use crate::routes::Routes;

/// Adds the routes of this folder.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/bench", &benchmark::LIST, list::list)
        .page("/bench/new", &benchmark::START, order::ask)
        .act("/bench/new", &benchmark::START, order::start)
        .page("/bench/compare", &benchmark::COMPARE, compare::compare)
        .page("/bench/{id}", &benchmark::SHOW, show::show)
        .act("/bench/{id}/stop", &benchmark::STOP, show::stop)
        .act("/bench/{id}/delete", &benchmark::DELETE, show::delete)
}
