//! The path between the load and the storage, measured alone by `bench network`: throughput each
//! way, round trip, segments, and whether jumbo frames pass whole.

use maud::{Markup, html};

use super::subject::Subject;
use super::units;
use super::wire::{MeasuredPath, WayOut, ways_out};
use crate::network::client::Direction;
use crate::network::echo::RoundTrips;
use crate::network::survey::OtherEnd;
use model::date::utc_minute;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    let paths = &subject.network.paths;
    if paths.is_empty() {
        return html! {};
    }
    let ways = ways_out(paths);
    html! {
        section id="path" {
            h2 { "The path" }
            p.note {
                "Results of " code { "bench network" } " without any storage, each direction alone. Shares of the "
                "wire are shares of the throughput that was measured here, not of a nominal speed."
            }
            @if ways.len() > 1 { (sum(&ways)) }
            @for way in ways.iter().filter(|way| way.paths.len() > 1) { p.note { (shared(way)) } }
            div.scroll { table.facts {
                caption { "The network alone" }
                @if paths.len() > 1 {
                    thead { tr { td {} @for path in paths { th scope="col" { (path.label) } } } }
                }
                tbody { @for (name, of) in FACTS { tr {
                    th scope="row" { (name) }
                    @for path in paths { td.words data-label=(path.label) { (of(path)) } }
                } } }
            } }
        }
    }
}

/// Lists faults of the paths, and facts that do not fit the runs.
pub(super) fn minded(subject: &Subject<'_>) -> impl Iterator<Item = String> {
    subject.network.paths.iter().flat_map(move |path| {
        let wrong = path
            .result
            .findings
            .iter()
            .filter(|finding| finding.is_wrong);
        let wrong = wrong.map(|finding| finding.text.clone());
        let label = &path.label;
        wrong
            .chain(elsewhere(subject, path))
            .map(move |words| format!("{label}: {words}"))
    })
}

/// Returns a warning if the path was measured on a machine other than the runs'. It says nothing of
/// those runs.
fn elsewhere(subject: &Subject<'_>, path: &MeasuredPath) -> Option<String> {
    let here = &path.result.machine.host;
    let hosts = subject
        .sources
        .iter()
        .map(|source| &source.results.machine.host);
    let mut others = hosts.filter(|host| !host.is_empty() && *host != here);
    let other = others.next().filter(|_| !here.is_empty())?;
    Some(format!(
        "the path was measured from {here}, and the storage from {other}"
    ))
}

/// Explains which paths were added up to the wire.
fn sum(ways: &[WayOut<'_>]) -> Markup {
    let added = |direction| -> Option<String> {
        let each: Vec<f64> = ways
            .iter()
            .map(|way| way.carries(direction))
            .collect::<Option<_>>()?;
        let terms: Vec<String> = each.iter().map(|rate| units::number(rate / 1e6)).collect();
        let sum = units::megabytes(each.iter().sum());
        Some(format!("{} = {sum}", terms.join(" + ")))
    };
    let directions = [
        (Direction::Receive, "for reads"),
        (Direction::Send, "for writes"),
    ];
    html! {
        p {
            b { "Added up" } " to one wire: "
            @for (index, (direction, words)) in directions.into_iter().enumerate() {
                @if index > 0 { "; " }
                (words) " "
                @match added(direction) {
                    Some(sum) => (sum),
                    None => "not known, as one of the paths was not measured in this direction",
                }
            }
            ". Each path was measured alone: the sum holds only for runs that used all paths at once, and if "
            "nothing on the way is shared."
        }
    }
}

fn shared(way: &WayOut<'_>) -> String {
    let labels: Vec<&str> = way.paths.iter().map(|path| path.label.as_str()).collect();
    format!(
        "{} leave through {} and share its wire, so they are not added: the highest throughput counts.",
        labels.join(" and "),
        way.name
    )
}

type Fact = (&'static str, fn(&MeasuredPath) -> Markup);

const FACTS: &[Fact] = &[
    ("other end", |path| {
        let kind = match path.result.survey.other_end {
            OtherEnd::Iperf3 => "iperf3",
            OtherEnd::Sandstone => "sandstone",
        };
        html! { (path.result.survey.server) " (" (kind) ")" }
    }),
    ("measured from", |path| {
        let host = &path.result.machine.host;
        html! {
            @if host.is_empty() { "not known" } @else { (host) }
            @if let Some(source) = path.result.survey.source { ", " (source) }
        }
    }),
    ("interface", interface),
    ("throughput to here (reads)", |path| {
        throughput(path, Direction::Receive)
    }),
    ("throughput from here (writes)", |path| {
        throughput(path, Direction::Send)
    }),
    ("round trip between programs", |path| {
        round_trips(path.result.survey.program.as_ref())
    }),
    ("round trip between kernels", |path| {
        round_trips(path.result.survey.kernel.as_ref())
    }),
    ("TCP segments (MSS)", |path| {
        let first = path.result.survey.throughput.first();
        match first.map(|one| one.tcp.mss).filter(|mss| *mss > 0) {
            Some(mss) => html! { data value=(mss) { (units::count(mss.into())) } " bytes" },
            None => html! { "not known" },
        }
    }),
    ("jumbo frames", |path| html! { (jumbo(path)) }),
    ("begun", |path| match path.result.started_unix_s {
        0 => html! { "not known" },
        unix_s => html! { (utc_minute(unix_s)) },
    }),
];

fn interface(path: &MeasuredPath) -> Markup {
    let Some(interface) = &path.result.survey.interface else {
        return html! { "not known" };
    };
    html! {
        (interface.name) ", MTU " (units::count(interface.mtu.into()))
        @match interface.bits_per_s {
            Some(bits_per_s) => { ", nominally " (units::number(bits_per_s as f64 / 1e9)) " Gb/s" },
            None => ", speed not known",
        }
    }
}

fn throughput(path: &MeasuredPath, direction: Direction) -> Markup {
    let survey = &path.result.survey;
    let mut measured = survey.throughput.iter();
    let one = measured.find(|one| one.direction == direction);
    let (Some(one), Some(rate)) = (one, survey.carried(direction)) else {
        return html! { "not measured" };
    };
    html! {
        b { data value=(rate) { (units::megabytes(rate)) } }
        @if let Some(nominal) = path.result.wire_bytes_per_s.filter(|nominal| *nominal > 0.0) {
            ", " (units::share(rate / nominal)) " of the nominal speed"
        }
        ", over " (one.parallel) @if one.parallel == 1 { " connection" } @else { " connections" }
        @if let Some(count) = one.retransmits {
            ", " (units::count(count)) @if count == 1 { " segment" } @else { " segments" } " sent again"
        }
    }
}

fn round_trips(times: Option<&RoundTrips>) -> Markup {
    let Some(times) = times else {
        return html! { "not measured" };
    };
    let time = |ns: u64| html! { data value=(ns) { (units::time(ns as f64)) } };
    html! {
        "half within " (time(times.median_ns)) ", 99 of 100 within " (time(times.p99_ns)) ", least " (time(times.min_ns))
    }
}

/// Tells whether frames of more than 1,500 bytes pass whole, and how this is known.
fn jumbo(path: &MeasuredPath) -> String {
    let survey = &path.result.survey;
    let Some(found) = survey.path_mtu else {
        let why = survey.path_mtu_missing.as_deref().unwrap_or("no reason");
        return format!("not known: {why}");
    };
    let bytes = |mtu: u32| units::count(mtu.into());
    match found.passes {
        None => "not known: no packet came back".to_owned(),
        Some(passes) if !found.is_whole() => format!(
            "no: {} bytes are set on this end, and only {} pass whole",
            bytes(found.asked),
            bytes(passes)
        ),
        Some(whole) if whole > 1500 => {
            format!(
                "yes: packets of {} bytes pass whole, both ways",
                bytes(whole)
            )
        }
        Some(whole) => format!("no: the interface's MTU is {}", bytes(whole)),
    }
}
