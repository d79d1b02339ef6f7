//! Streams of live figures, as server-sent events.
//!
//! A viewer gets the newest moment as soon as it has read the one before, so a slow one misses
//! moments and holds up nobody. A stream ends when its login ends, when its role is lost, and when
//! the daemon ends.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use access::Principal;
use alert::EventFilter;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use control::Asker;
use control::answer::Problem;
use control::endpoint::{live, status};
use hyper::body::{Bytes, Frame};
use model::{Error, ErrorKind};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::benchmark_points;
use super::health::{self, Health};
use super::moment::Moment;
use super::points::write_event;
use crate::benchmark_figures;
use crate::event_table;
use crate::format::{escape, now_ms};
use crate::state::Console;
use crate::visit::{Fields, Theme, Visit};

/// Silence after which a comment shows that the stream lives.
const SILENCE: Duration = Duration::from_secs(15);
/// Moments between two looks at the health.
const HEALTH_EVERY: u64 = 5;
/// Most objects that a viewer may watch.
const MOST_OBJECTS: usize = 400;

/// Field of the query that names the benchmark whose charts the page has.
const BENCHMARK: &str = "benchmark";

/// Returns the address of the stream for the page of a benchmark that runs.
pub(crate) fn address_of_benchmark(id: u64) -> String {
    address("page", &format!("{BENCHMARK}={id}"))
}

/// Returns the address of a stream for a page.
pub(crate) fn address(view: &str, query: &str) -> String {
    let path = live::PATH;
    match query {
        "" => format!("{path}?view={}", escape(view)),
        query => format!("{path}?view={}&{query}", escape(view)),
    }
}

/// Body whose pieces come from the stream's task.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Answers a request for live figures.
pub(crate) async fn serve(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
    asker: Asker,
) -> Response {
    let query = Fields::read(query.unwrap_or_default().as_bytes());
    let begun = tokio::task::spawn_blocking(move || begin(&console, asker, &query)).await;
    let begun = begun.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the stream failed for an unexpected reason",
            "see the daemon's log, and report this as a defect",
        ))
    });
    match begun {
        Err(error) => Problem::from(error).into_response(),
        Ok(viewer) => {
            let (outbox, inbox) = mpsc::channel(1);
            tokio::spawn(viewer.run(outbox));
            let headers = [
                (CONTENT_TYPE, "text/event-stream"),
                (CACHE_CONTROL, "no-store"),
            ];
            (headers, Body::new(Events(inbox))).into_response()
        }
    }
}

/// Lets a viewer in: through the gate, to a free place.
fn begin(console: &Arc<Console>, asker: Asker, query: &Fields) -> Result<Viewer, Error> {
    console.door.admit(&asker, &status::FIGURES)?;
    let place = Arc::clone(&console.live.viewers)
        .try_acquire_owned()
        .map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{} pages show live figures already, which is the most",
                    super::MOST_VIEWERS
                ),
                "close pages that are no longer needed; pages without live figures work",
            )
        })?;
    let view = query.get("view").to_owned();
    let visit = Visit {
        console: Arc::clone(console),
        asker: asker.clone(),
        at: Vec::new(),
        address: String::new(),
        query: query.clone(),
        form: Fields::default(),
        theme: Theme::default(),
        told: None,
        disks: Arc::default(),
    };
    let ids = match query.some("ids") {
        Some(ids) => ids.split('\n').map(str::to_owned).collect(),
        None => (console.window)(&view, &visit)?,
    };
    if ids.len() > MOST_OBJECTS {
        return Err(Error::invalid(
            format!("the stream of {} objects is too wide", ids.len()),
            format!("ask for at most {MOST_OBJECTS} objects"),
        ));
    }
    let has_disks = ids
        .iter()
        .any(|id| id.starts_with("p:") || id.starts_with("d:"));
    let watched = has_disks.then(|| WatchedPools::new(console));
    Ok(Viewer {
        principal: asker.principal()?.clone(),
        console: Arc::clone(console),
        asker,
        ids: ids.into(),
        charts: Charts::of(&view, query),
        told: Value::Null,
        events: (view == "events").then_some((visit, 0)),
        _place: place,
        _watched: watched,
    })
}

/// Note that somebody watches disks of pools, so that these are looked at each second.
struct WatchedPools(Arc<Console>);

impl WatchedPools {
    fn new(console: &Arc<Console>) -> Self {
        console.live.pool_viewers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(console))
    }
}

impl Drop for WatchedPools {
    fn drop(&mut self) {
        self.0.live.pool_viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Charts of a page that the stream goes on drawing.
enum Charts {
    /// The page has none.
    None,
    /// Charts of the overview.
    Overview,
    /// Charts of the benchmark with this number, while it runs.
    Benchmark(u64),
}

impl Charts {
    fn of(view: &str, query: &Fields) -> Self {
        let benchmark = || query.some(BENCHMARK)?.parse().ok().map(Self::Benchmark);
        match view {
            "overview" => Self::Overview,
            _ => benchmark().unwrap_or(Self::None),
        }
    }
}

/// Viewer of live figures.
struct Viewer {
    console: Arc<Console>,
    asker: Asker,
    principal: Principal,
    ids: Arc<[String]>,
    charts: Charts,
    /// State that was told last.
    told: Value,
    /// Visit whose list of events is watched, and the number of the last event that was told.
    events: Option<(Visit, u64)>,
    _place: OwnedSemaphorePermit,
    _watched: Option<WatchedPools>,
}

impl Viewer {
    async fn run(mut self, outbox: mpsc::Sender<Bytes>) {
        let mut moments = self.console.live.latest.subscribe();
        let past = self.past();
        if !past.is_empty() && outbox.send(past.into()).await.is_err() {
            return;
        }
        moments.mark_changed();
        loop {
            match turn(&mut moments, &outbox).await {
                Turn::End => return,
                Turn::Silence(room) => room.send(Bytes::from_static(b": still here\n\n")),
                Turn::Show(room, moment) => {
                    if !self.is_admitted() {
                        return;
                    }
                    let rows = self.rows(&moment);
                    let mut more = self.point(&moment);
                    self.benchmarks(&mut more);
                    self.new_events(&mut more).await;
                    if moment.number % HEALTH_EVERY == 1 || self.told.is_null() {
                        self.state(&mut more).await;
                    }
                    room.send(joined(rows, &more));
                }
            }
        }
    }

    fn is_admitted(&self) -> bool {
        let access = &self.console.door.plane().access;
        access
            .standing(&self.principal)
            .is_some_and(|role| role >= status::FIGURES.role)
    }

    /// Returns the event with all points so far, if the page has charts.
    fn past(&self) -> String {
        let mut text = String::new();
        match self.charts {
            Charts::None => {}
            Charts::Overview => write_event(&self.console.live.points(), &mut text),
            Charts::Benchmark(id) => {
                let benchmarks = &self.console.door.plane().benchmarks;
                if let Ok(detail) = benchmarks.show(id) {
                    let points = benchmark_points::so_far(&detail.seconds, now_ms());
                    write_event(&points, &mut text);
                }
            }
        }
        text
    }

    /// Returns the event with the rows of a moment.
    fn rows(&self, moment: &Moment) -> Bytes {
        let config = self.console.door.plane().transactions.config();
        let names = &self.console.live.hosts;
        moment.row_events.of(moment, &self.ids, &config, names)
    }

    /// Returns the event with the point of the charts, if the page has charts.
    fn point(&self, moment: &Moment) -> String {
        let mut text = String::new();
        match self.charts {
            Charts::Overview if moment.number > 0 => write_event(&[moment.point], &mut text),
            Charts::Benchmark(id) => {
                let view = self.console.door.plane().benchmarks.view(id).ok();
                let point = view.and_then(|view| benchmark_points::latest(&view, now_ms()));
                if let Some(point) = point {
                    write_event(&[point], &mut text);
                }
            }
            Charts::None | Charts::Overview => {}
        }
        text
    }

    /// Writes the figures of benchmarks that the page shows.
    fn benchmarks(&self, out: &mut String) {
        let benchmarks = &self.console.door.plane().benchmarks;
        let rows = self.ids.iter().filter_map(|id| {
            let number = id.strip_prefix("b:")?.parse().ok()?;
            let view = benchmarks.view(number).ok()?;
            Some((id, benchmark_figures::values(&view)))
        });
        let (ids, values): (Vec<&String>, Vec<Vec<Value>>) = rows.unzip();
        if !ids.is_empty() {
            // Writing to a text cannot fail.
            let _ = write!(
                out,
                "event: rows\ndata: {}\n\n",
                json!({"ids": ids, "v": values})
            );
        }
    }

    /// Writes what stands in the places of a list of events, if there are new ones.
    async fn new_events(&mut self, out: &mut String) {
        let Some((visit, told)) = &mut self.events else {
            return;
        };
        let newest = EventFilter {
            limit: 1,
            ..EventFilter::default()
        };
        let last = self.console.door.plane().journal.page(&newest).next;
        if last == *told {
            return;
        }
        *told = last;
        let visit = visit.clone();
        let look = move || event_table::places(&visit);
        let Ok(Ok((ids, values))) = tokio::task::spawn_blocking(look).await else {
            return;
        };
        // Writing to a text cannot fail.
        let _ = write!(
            out,
            "event: rows\ndata: {}\n\n",
            json!({"ids": ids, "v": values})
        );
    }

    /// Writes the health and the generation, if they changed.
    async fn state(&mut self, out: &mut String) {
        let Some(status) = Health::status_for_stream(&self.console, &self.asker).await else {
            return;
        };
        let shown = health::shown(&status);
        let state = json!({
            "class": shown.class(),
            "text": {
                "health": shown.sentence,
                "mark": shown.mark(),
                "sessions": status.sessions,
                "generation": status.generation,
            },
        });
        if state != self.told {
            let _ = write!(out, "event: state\ndata: {state}\n\n");
            self.told = state;
        }
    }
}

/// Joins events to one piece. Rows alone are not copied.
fn joined(rows: Bytes, more: &str) -> Bytes {
    match more {
        "" => rows,
        more => [&rows[..], more.as_bytes()].concat().into(),
    }
}

/// Turn of a stream.
enum Turn<'a> {
    /// Shows a moment. There is room for it.
    Show(mpsc::Permit<'a, Bytes>, Arc<Moment>),
    /// Nothing happened for long.
    Silence(mpsc::Permit<'a, Bytes>),
    /// The viewer is gone, or the daemon ends.
    End,
}

/// Waits for room, and then for a moment that was not shown yet. A viewer that does not read thus
/// gets the newest moment when it reads again.
async fn turn<'a>(
    moments: &mut watch::Receiver<Arc<Moment>>,
    outbox: &'a mpsc::Sender<Bytes>,
) -> Turn<'a> {
    let Ok(room) = outbox.reserve().await else {
        return Turn::End;
    };
    tokio::select! {
        changed = moments.changed() => {
            let moment = Arc::clone(&moments.borrow_and_update());
            match changed.is_err() || moment.is_last {
                true => Turn::End,
                false => Turn::Show(room, moment),
            }
        }
        () = outbox.closed() => Turn::End,
        () = tokio::time::sleep(SILENCE) => Turn::Silence(room),
    }
}

#[cfg(test)]
mod tests {
    use super::super::points::Point;
    use super::*;

    fn moment(number: u64) -> Arc<Moment> {
        Arc::new(Moment::new(
            number,
            Point::default(),
            Arc::default(),
            Arc::default(),
            None,
        ))
    }

    #[test]
    fn a_viewer_that_does_not_read_is_skipped_to_the_newest() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(async {
            let source = watch::Sender::new(moment(0));
            let (outbox, mut inbox) = mpsc::channel(1);
            let mut moments = source.subscribe();
            let task = tokio::spawn(async move {
                while let Turn::Show(room, moment) = turn(&mut moments, &outbox).await {
                    room.send(Bytes::from(moment.number.to_string()));
                }
            });
            source.send_replace(moment(1));
            // The first piece lies in the channel, unread, while others come.
            tokio::task::yield_now().await;
            for number in 2..=50 {
                source.send_replace(moment(number));
                tokio::task::yield_now().await;
            }
            assert_eq!(inbox.recv().await, Some(Bytes::from("1")));
            assert_eq!(inbox.recv().await, Some(Bytes::from("50")));
            source.send_replace(Arc::new(Moment::end()));
            assert_eq!(inbox.recv().await, None, "the stream ends with the daemon");
            task.await.expect("it ended");
        });
    }

    #[test]
    fn a_stream_ends_when_its_viewer_is_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(async {
            let source = watch::Sender::new(moment(0));
            let (outbox, inbox) = mpsc::channel(1);
            let mut moments = source.subscribe();
            drop(inbox);
            assert!(matches!(turn(&mut moments, &outbox).await, Turn::End));
        });
    }
}
