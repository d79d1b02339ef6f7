//! `events`: what happened to the daemon and all that it serves.

use std::time::{Duration, Instant, SystemTime};

use clap::Args;

use crate::print::table::{
    self, Column, ListArgs, Numbers, extra, json_line, left, or_dash, print, right,
};
use crate::{Connection, Done, Terminal};
use control::Client;
use control::endpoint::event::{EventQuery, LIST};
use model::ErrorKind;
use model::event::{Event, EventPage, Severity};
use model::quantity::parse_time;

/// Seconds that a follower waits for an event in one request.
const WAIT_S: u16 = 25;
/// Pause after a request that came back early without an event.
const PAUSE: Duration = Duration::from_secs(1);
/// Most events of one page.
const PAGE: usize = 1000;
/// Milliseconds of a day, which times of pools and alerts are often given in.
const DAY_MS: u64 = 86_400_000;

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on: print each new event as it comes, until interrupted
    #[arg(short = 'f', long)]
    follow: bool,
    /// Print only events of the last 30m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<u64>,
    /// Print only events of at least this severity: info, warning, error, critical
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    severity: Option<Severity>,
    /// Most events to print; the newest are taken
    #[arg(short = 'n', long = "lines", value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    lines: u16,
    #[command(flatten)]
    list: ListArgs,
}

/// Reads a span of time and returns milliseconds.
fn span(text: &str) -> Result<u64, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
    match days {
        Some(days) => Ok(DAY_MS.saturating_mul(days)),
        None => parse_time(text, None).map_err(|_| {
            format!("{text:?} is not a time; write a number with s, m, h or d, as in 2h")
        }),
    }
}

pub(crate) fn severity(word: &str) -> Result<Severity, String> {
    Severity::of_word(word)
        .ok_or_else(|| "choose from info, warning, error and critical".to_owned())
}

pub(crate) fn run(args: &Events, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = since_1970.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
    let query = EventQuery {
        limit: Some(args.lines.into()),
        severity: args.severity,
        since_ms: args.since.map(|span| now_ms.saturating_sub(span)),
        ..EventQuery::default()
    };
    let first: EventPage = client.ask(&LIST, &[], &query, &())?;
    if !args.follow {
        return print(t, &args.list, &COLUMNS, &first.events, "no events");
    }
    lines(args, &first, t)?;
    follow(args, &client, &query, first.next, t)
}

fn follow(
    args: &Events,
    client: &Client,
    query: &EventQuery,
    mut after: u64,
    t: &mut Terminal<'_>,
) -> Done {
    let mut is_away = false;
    loop {
        let query = EventQuery {
            after: Some(after),
            limit: Some(PAGE),
            wait_s: Some(WAIT_S),
            ..query.clone()
        };
        let begun = Instant::now();
        let page: EventPage = match client.ask(&LIST, &[], &query, &()) {
            Err(error) if error.kind == ErrorKind::Unavailable => {
                // The numbers of events go on when the daemon is back.
                if !is_away {
                    writeln!(t.err, "{}; trying again", error.message)?;
                }
                is_away = true;
                std::thread::sleep(PAUSE);
                continue;
            }
            page => page?,
        };
        is_away = false;
        if page.oldest > after + 1 && after > 0 {
            let lost = page.oldest - after - 1;
            writeln!(t.err, "{lost} events are no longer kept and were missed")?;
        }
        lines(args, &page, t)?;
        after = page.next;
        if page.events.is_empty() && begun.elapsed() < PAUSE {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Prints each event on a line of its own.
fn lines(args: &Events, page: &EventPage, t: &mut Terminal<'_>) -> Done {
    for event in &page.events {
        if args.list.json {
            json_line(t, event)?;
        } else {
            writeln!(t.out, "{}", table::line(&args.list, &COLUMNS, event)?)?;
        }
    }
    Ok(t.out.flush()?)
}

const COLUMNS: [Column<Event>; 7] = [
    left("time", |event, numbers| time(event.time_ms, numbers)),
    left("severity", |event, _| event.severity.as_str().to_owned()),
    left("topic", |event, _| event.topic.as_str().to_owned()),
    left("object", |event, _| or_dash(&event.object)),
    left("event", |event, _| event.text.clone()),
    extra(left("next", |event, _| {
        or_dash(event.next.as_deref().unwrap_or_default())
    })),
    extra(right("number", |event, _| event.number.to_string())),
];

/// Returns a time in milliseconds since 1970, in words or in seconds.
pub(crate) fn time(time_ms: u64, numbers: Numbers) -> String {
    match numbers {
        Numbers::Short => model::date::utc(time_ms / 1000),
        Numbers::Exact => format!("{}.{:03}", time_ms / 1000, time_ms % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_units() {
        assert_eq!(span("7d"), Ok(7 * DAY_MS));
        assert_eq!(span("90m"), Ok(5_400_000));
        for text in ["", "d", "7", "yesterday", "-1d"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert!(severity("grave").is_err());
    }
}
