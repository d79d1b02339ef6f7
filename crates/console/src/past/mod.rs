//! Charts of the past: hours to years, from the history that the daemon keeps. The live charts of
//! the last minutes are in `chart.rs`.
//!
//! | question | file |
//! |---|---|
//! | Which times can be chosen? | `span.rs` |
//! | How do steps and objects become one line? | `merge.rs` |
//! | From when until when does a chart go? | `axis.rs`; it is drawn in `line_chart.rs` |

mod axis;
mod merge;
mod span;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use control::endpoint::history::{self, Period};
use maud::{Markup, html};
use model::history::{HistoryKind, HistoryView};
use model::{Error, ErrorKind};

use crate::format::now;
use crate::line_chart::{Line, LineChart};
use crate::visit::Visit;
use axis::axis;
use merge::Past;
use span::Shown;

/// Pasts of all port groups together, with the minutes in which they were made. All readers of the
/// overview see the same one.
#[derive(Debug, Default)]
pub(crate) struct Pasts(Mutex<HashMap<&'static str, (u64, Arc<Past>)>>);

impl Pasts {
    /// Returns the past of all port groups together.
    fn of_machine(&self, visit: &Visit, shown: &Shown) -> Result<Arc<Past>, Error> {
        visit.console.door.admit(&visit.asker, &history::LIST)?;
        let minute = now() / 60;
        let kept = |pasts: &HashMap<_, (u64, Arc<Past>)>| pasts.get(shown.word).cloned();
        let known = kept(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((_, past)) = known.filter(|(made, _)| *made == minute) {
            return Ok(past);
        }
        let kind = HistoryKind::PortGroup;
        let began = now().saturating_sub(shown.seconds());
        let objects = visit.call(&history::LIST, &[kind.as_str()])?.into_iter();
        let seen = objects.filter(|it| it.last_seen_unix_s.is_some_and(|seen| seen >= began));
        let views = seen.filter_map(|object| view(visit, kind, &object.key, shown).transpose());
        let views = views.collect::<Result<Vec<HistoryView>, Error>>()?;
        let past = Arc::new(merge::merged(&views, shown));
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.insert(shown.word, (minute, Arc::clone(&past)));
        Ok(past)
    }
}

/// Returns the history of an object; `None` if nothing was recorded yet.
fn view(
    visit: &Visit,
    kind: HistoryKind,
    name: &str,
    shown: &Shown,
) -> Result<Option<HistoryView>, Error> {
    let period = Period { span: shown.span };
    match visit.ask(&history::SHOW, &[kind.as_str(), name], period, ()) {
        Ok(view) => Ok(Some(view)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Shows the past of all that this machine serves.
pub(crate) fn of_machine(visit: &Visit) -> Markup {
    let shown = Shown::of(visit);
    let past = visit.console.live.pasts.of_machine(visit, shown);
    section(visit, shown, past, of_commands)
}

/// Shows the past of a unit.
pub(crate) fn of_unit(visit: &Visit, name: &str) -> Markup {
    let shown = Shown::of(visit);
    section(
        visit,
        shown,
        of_one(visit, HistoryKind::Unit, name, shown),
        of_commands,
    )
}

/// Shows the past of a pool, by its number. The words about its future follow the charts.
pub(crate) fn of_pool(visit: &Visit, guid: &str, outlook: Markup) -> Markup {
    let shown = Shown::of(visit);
    let past = of_one(visit, HistoryKind::Pool, guid, shown);
    html! { (section(visit, shown, past, of_space)) (outlook) }
}

fn of_one(visit: &Visit, kind: HistoryKind, name: &str, shown: &Shown) -> Result<Arc<Past>, Error> {
    let views: Vec<HistoryView> = view(visit, kind, name, shown)?.into_iter().collect();
    Ok(Arc::new(merge::merged(&views, shown)))
}

fn section(
    visit: &Visit,
    shown: &Shown,
    past: Result<Arc<Past>, Error>,
    charts: fn(&Past) -> Vec<LineChart<'_>>,
) -> Markup {
    html! {
        section #past aria-label="Past" {
            h2 { "Past" }
            (span::choice(visit))
            @match past {
                // A damaged file of the history must not take away the rest of the page.
                Err(error) => p.quiet { "There are no figures of the past: " (error.message) "." },
                Ok(past) if past.is_empty() => p.quiet {
                    "Nothing was recorded in this time. The first figures come within two minutes."
                },
                Ok(past) => div.charts {
                    @let axis = axis(&past, shown);
                    @for chart in charts(&past) { (chart.draw(&axis)) }
                },
            }
        }
    }
}

/// Returns the charts of all that has commands.
fn of_commands(past: &Past) -> Vec<LineChart<'_>> {
    let mib = 1.0 / f64::from(1 << 20);
    let ms = 1e-6;
    let line = |name: &str, series, factor| Line {
        name: name.to_owned(),
        values: past.scaled(series, factor),
    };
    vec![
        LineChart {
            title: "Throughput",
            unit: "MiB/s",
            decimals: 1,
            limit: None,
            lines: vec![
                line("read", "read_bytes_per_s", mib),
                line("written", "written_bytes_per_s", mib),
            ],
        },
        operations(past, "Commands"),
        LineChart {
            title: "Mean latency by stage",
            unit: "ms",
            decimals: 3,
            limit: None,
            lines: vec![
                line("wire in", "wire_in_ns", ms),
                line("queue", "queue_ns", ms),
                line("device", "device_ns", ms),
                line("reply", "reply_ns", ms),
            ],
        },
        LineChart {
            title: "Latency of whole commands",
            unit: "ms",
            decimals: 3,
            limit: None,
            lines: vec![
                line("read, mean", "read_latency_ns", ms),
                line("write, mean", "write_latency_ns", ms),
                line("read, p99", "read_p99_ns", ms),
                line("write, p99", "write_p99_ns", ms),
            ],
        },
    ]
}

/// Returns the chart of reads and writes in a second.
fn operations<'a>(past: &'a Past, title: &'static str) -> LineChart<'a> {
    let line = |name: &str, series| Line {
        name: name.to_owned(),
        values: past.scaled(series, 1.0),
    };
    LineChart {
        title,
        unit: "per second",
        decimals: 0,
        limit: None,
        lines: vec![line("reads", "reads_per_s"), line("writes", "writes_per_s")],
    }
}

/// Returns the charts of a pool.
fn of_space(past: &Past) -> Vec<LineChart<'_>> {
    let greatest = |series| {
        past.values(series)
            .iter()
            .flatten()
            .copied()
            .fold(0.0, f64::max)
    };
    let most = greatest("size_bytes").max(greatest("promised_bytes"));
    let (unit, factor) = match most {
        most if most >= 2f64.powi(43) => ("TiB", 2f64.powi(-40)),
        most if most >= 2f64.powi(33) => ("GiB", 2f64.powi(-30)),
        _ => ("MiB", 2f64.powi(-20)),
    };
    let line = |name: &str, series, factor| Line {
        name: name.to_owned(),
        values: past.scaled(series, factor),
    };
    let sizes = past.values("size_bytes").iter();
    let fill = sizes
        .zip(past.values("available_bytes"))
        .map(|(size, available)| {
            let (size, available) = (size.filter(|size| *size > 0.0)?, (*available)?);
            Some(100.0 * (1.0 - available / size).clamp(0.0, 1.0))
        });
    vec![
        LineChart {
            title: "Fill",
            unit: "% of the space",
            decimals: 1,
            limit: Some(100.0),
            lines: vec![Line {
                name: "in use".to_owned(),
                values: fill.collect(),
            }],
        },
        LineChart {
            title: "Space",
            unit,
            decimals: 2,
            limit: None,
            lines: vec![
                line("allocated", "allocated_bytes", factor),
                line("promised to volumes", "promised_bytes", factor),
                line("size", "size_bytes", factor),
            ],
        },
        operations(past, "Operations"),
    ]
}
