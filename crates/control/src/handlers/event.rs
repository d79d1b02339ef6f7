//! Handlers of requests about events of the whole daemon.

use std::time::Duration;

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::event::{self as at, EventQuery};
use ::alert::EventFilter;
use ::alert::journal::MAX_PAGE;
use model::Error;
use model::event::EventPage;

/// Most seconds that a request waits for an event.
const MAX_WAIT_S: u16 = 30;
/// Number of events of a page, if the request names none.
const USUAL_PAGE: usize = 100;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes.serve(&at::LIST, list)
}

pub(super) fn list(call: Call<EventQuery>) -> Result<EventPage, Error> {
    let Call { plane, query, .. } = call;
    let limit = query.limit.unwrap_or(USUAL_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::invalid(
            format!("a page cannot have {limit} events"),
            format!("ask for 1 to {MAX_PAGE} events, and for the others by after=NEXT"),
        ));
    }
    let filter = EventFilter {
        after: query.after,
        severity: query.severity.unwrap_or_default(),
        since_ms: query.since_ms.unwrap_or(0),
        limit,
    };
    Ok(match query.wait_s {
        None | Some(0) => plane.journal.page(&filter),
        Some(wait_s) => {
            let patience = Duration::from_secs(wait_s.min(MAX_WAIT_S).into());
            plane.journal.page_within(&filter, patience)
        }
    })
}
