//! `history`: figures of the past, as a table with a small chart for each.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::grammar::completion::names_with_history;
use crate::print::table::{Column, ListArgs, Numbers, extra, json, left, print, right};
use crate::{Connection, Done, Terminal};
use control::endpoint::history::{self, Period};
use model::date::utc_minute;
use model::history::{HistoryKind, HistoryObject, HistoryView, Series, SeriesUnit, Span};

/// Characters of a chart.
const CHART: usize = 48;
/// Bars of a chart, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Args)]
#[command(
    after_help = "Each character of a chart shows the highest value of its time; a space is a gap, in which \
                  nothing was recorded or there was nothing to measure. Charts of space begin at the lowest \
                  value, all others at zero. Latencies are milliseconds. p99: 99 of 100 commands took no \
                  longer; in longer steps, that of the worst minute."
)]
pub(crate) struct History {
    /// Kind of object
    #[arg(value_name = "KIND", value_parser = kinds())]
    kind: HistoryKind,
    /// Object to show [default: list all objects of the kind]
    #[arg(add = names_with_history())]
    name: Option<String>,
    /// Time until now: 6h minute by minute, 14d in steps of ten minutes, 2y in steps of six hours
    #[arg(long, value_name = "SPAN", default_value = "6h", value_parser = spans())]
    span: Span,
    #[command(flatten)]
    list: ListArgs,
}

/// Reads the word for a kind.
fn kinds() -> impl TypedValueParser<Value = HistoryKind> {
    let words = HistoryKind::ALL.map(|kind| {
        let word = PossibleValue::new(kind.as_str());
        match kind {
            HistoryKind::Unit => word.alias("lu"),
            _ => word,
        }
    });
    PossibleValuesParser::new(words)
        .try_map(|word| HistoryKind::of_word(&word).ok_or("there is no such kind"))
}

/// Reads the word for a span.
fn spans() -> impl TypedValueParser<Value = Span> {
    PossibleValuesParser::new(Span::ALL.map(Span::as_str))
        .try_map(|word| Span::of_word(&word).ok_or("there is no such span"))
}

pub(crate) fn run(args: &History, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    let kind = args.kind.as_str();
    let Some(name) = &args.name else {
        let objects = client.call(&history::LIST, &[kind])?;
        let none = "no history yet; the first minute is recorded when it is over";
        return print(t, &args.list, &OBJECTS, &objects, none);
    };
    let period = Period { span: args.span };
    let view = client.ask(&history::SHOW, &[kind, name], &period, &())?;
    if args.list.json {
        return json(t, &view);
    }
    if args.list.is_for_people() {
        writeln!(t.out, "{}", title(&view))?;
    }
    print(t, &args.list, &FIGURES, &view.series, "no figures")
}

/// Returns the line above the table.
fn title(view: &HistoryView) -> String {
    let first = view.unix_s.first().copied().unwrap_or_default();
    let end = view.unix_s.last().map_or(0, |last| last + view.step_s);
    let step = match view.step_s {
        60 => "a minute".to_owned(),
        step if step < 3600 => format!("{} minutes", step / 60),
        step => format!("{} hours", step / 3600),
    };
    let outlook = view.outlook.as_ref();
    let outlook = outlook.map_or(String::new(), |outlook| format!("; {}", outlook.text));
    format!(
        "{} {}, {} to {}, in steps of {step}{outlook}",
        view.kind.as_str(),
        view.name,
        utc_minute(first),
        utc_minute(end),
    )
}

const OBJECTS: [Column<HistoryObject>; 3] = [
    left("name", |of, _| of.name.clone()),
    left("last record", |of, numbers| {
        match (of.last_seen_unix_s, numbers) {
            (None, _) => "-".to_owned(),
            (Some(time), Numbers::Exact) => time.to_string(),
            (Some(time), Numbers::Short) => utc_minute(time),
        }
    }),
    extra(left("key", |of, _| of.key.clone())),
];

const FIGURES: [Column<Series>; 6] = [
    left("figure", |of, _| figure(of)),
    right("last", |of, n| {
        text(of, of.values.last().copied().flatten(), n)
    }),
    right("min", |of, n| text(of, known(of).reduce(f64::min), n)),
    right("mean", |of, n| text(of, mean(of), n)),
    right("max", |of, n| text(of, known(of).reduce(f64::max), n)),
    left("chart", |of, _| chart(of)),
];

/// Returns the name of a figure in the words of other tables.
fn figure(series: &Series) -> String {
    let words = match series.name.as_str() {
        "reads_per_s" => "reads/s",
        "writes_per_s" => "writes/s",
        "read_bytes_per_s" => "read B/s",
        "written_bytes_per_s" => "written B/s",
        "read_latency_ns" => "read",
        "write_latency_ns" => "write",
        "wire_in_ns" => "wire",
        "queue_ns" => "queue",
        "device_ns" => "device",
        "reply_ns" => "reply",
        "read_p99_ns" => "read p99",
        "write_p99_ns" => "write p99",
        other => other.trim_end_matches("_bytes"),
    };
    words.to_owned()
}

fn known(series: &Series) -> impl Iterator<Item = f64> {
    series.values.iter().flatten().copied()
}

fn mean(series: &Series) -> Option<f64> {
    let count = known(series).count();
    (count > 0).then(|| known(series).sum::<f64>() / count as f64)
}

fn text(series: &Series, value: Option<f64>, numbers: Numbers) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    match (series.unit, numbers) {
        (SeriesUnit::PerSecond, _) => format!("{value:.1}"),
        (SeriesUnit::Nanoseconds, Numbers::Short) => format!("{:.3}", value / 1e6),
        (SeriesUnit::Nanoseconds, Numbers::Exact) => format!("{value:.0}"),
        (SeriesUnit::Bytes | SeriesUnit::BytesPerSecond, _) => numbers.size(value.round() as u64),
    }
}

/// Draws a figure in one line.
fn chart(series: &Series) -> String {
    let steps = series.values.len();
    let highest = known(series).fold(0.0, f64::max);
    let lowest = match series.unit {
        SeriesUnit::Bytes => known(series).fold(highest, f64::min),
        _ => 0.0,
    };
    let bar = |value: f64| {
        let share = (value - lowest) / (highest - lowest);
        // With equal values everywhere there is no share.
        let at = if share.is_finite() { share * 8.0 } else { 0.0 };
        BARS[(at as usize).min(BARS.len() - 1)]
    };
    let cells = (0..CHART.min(steps)).map(|cell| {
        let of = |cell: usize| cell * steps / CHART.min(steps);
        let values = series.values[of(cell)..of(cell + 1)].iter().flatten();
        values.copied().reduce(f64::max).map_or(' ', bar)
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(unit: SeriesUnit, values: Vec<Option<f64>>) -> Series {
        Series {
            name: "reads_per_s".into(),
            unit,
            values,
        }
    }

    #[test]
    fn a_chart_shows_gaps_zeros_and_peaks() {
        let mut values = vec![Some(0.0); 96];
        values[4] = Some(100.0);
        values[6..10].fill(None);
        values[94] = Some(50.0);
        let told = chart(&series(SeriesUnit::PerSecond, values.clone()));
        assert_eq!(told.chars().count(), CHART);
        assert!(told.starts_with("▁▁█  ▁"), "{told}");
        assert!(told.ends_with("▁▅"), "{told}");
        let flat = series(SeriesUnit::Bytes, vec![Some(7.0); 3]);
        assert_eq!(chart(&flat), "▁▁▁");
        let filling = series(SeriesUnit::Bytes, vec![Some(1e9), None, Some(1.1e9)]);
        assert_eq!(chart(&filling), "▁ █");
        assert_eq!(chart(&series(SeriesUnit::Bytes, Vec::new())), "");
    }

    #[test]
    fn figures_are_summed_up_without_their_gaps() {
        let of = series(
            SeriesUnit::Nanoseconds,
            vec![None, Some(2e6), Some(4e6), None],
        );
        let row: Vec<String> = FIGURES[1..5]
            .iter()
            .map(|column| column.cell(&of, Numbers::Short))
            .collect();
        assert_eq!(row, ["-", "2.000", "3.000", "4.000"]);
        let none = series(SeriesUnit::PerSecond, vec![None]);
        assert_eq!(text(&none, mean(&none), Numbers::Short), "-");
    }

    #[test]
    fn the_title_says_what_a_step_is() {
        let mut view = HistoryView {
            kind: HistoryKind::Pool,
            name: "tank".into(),
            key: "f00d".into(),
            span: Span::SixHours,
            step_s: 60,
            unix_s: vec![1_795_320_240, 1_795_320_300],
            series: Vec::new(),
            outlook: None,
        };
        for (step_s, expected) in [
            (
                60,
                "pool tank, 2026-11-22 04:04 UTC to 2026-11-22 04:06 UTC, in steps of a minute",
            ),
            (
                600,
                "pool tank, 2026-11-22 04:04 UTC to 2026-11-22 04:15 UTC, in steps of 10 minutes",
            ),
            (
                21_600,
                "pool tank, 2026-11-22 04:04 UTC to 2026-11-22 10:05 UTC, in steps of 6 hours",
            ),
        ] {
            view.step_s = step_s;
            assert_eq!(title(&view), expected);
        }
    }
}
