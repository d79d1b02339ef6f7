//! `alert`: states that somebody should know of, and who knows.

use clap::{Args, Subcommand};

use crate::grammar::completion::alert_numbers;
pub(crate) use crate::health::events::time;
use crate::print::table::{self, Column, ListArgs, extra, left, or_dash, print, right};
use crate::print::wrap::wrapped;
use crate::{Connection, Done, Terminal};
use ::alert::{CONDITIONS, Condition};
use control::endpoint::alert::{self as at, AlertDetail, AlertQuery};
use control::{Client, Endpoint};
use model::alert::AlertView;

mod way;

#[derive(Debug, Subcommand)]
pub(crate) enum AlertVerb {
    /// List open alerts, the gravest first
    List(List),
    /// Show one alert: what was found, what it means, and what to do
    Show(Show),
    /// Say that you know of alerts: they are not told again each day; their end is told
    #[command(visible_alias = "acknowledge")]
    Ack(Ack),
    /// Take back that you know of alerts: they are told each day again
    #[command(visible_alias = "unacknowledge")]
    Unack(Ack),
    /// Send a test message through a way out, now
    Test(way::Test),
    /// Ways out: who is told of alerts, and how
    #[command(subcommand)]
    Way(way::WayVerb),
    /// List all conditions that can become alerts
    Conditions(ListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// List the alerts that ended lately instead
    #[arg(long)]
    ended: bool,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Number of the alert
    #[arg(add = alert_numbers(), value_parser = number)]
    alert: u64,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ack {
    /// Numbers of the alerts
    #[arg(required = true, add = alert_numbers(), value_parser = number)]
    alerts: Vec<u64>,
    /// JSON, as the control API gives it
    #[arg(long)]
    json: bool,
}

/// Reads the number of an alert.
fn number(text: &str) -> Result<u64, String> {
    let number = text.parse();
    number.map_err(|_| "write the number that `sandstone alert list` shows".to_owned())
}

pub(crate) fn run(verb: AlertVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        AlertVerb::List(args) => {
            let query = AlertQuery { ended: args.ended };
            let alerts: Vec<AlertView> = client.ask(&at::LIST, &[], &query, &())?;
            let none = match args.ended {
                true => "no alert has ended lately",
                false => "no open alerts",
            };
            print(t, &args.list, &COLUMNS, &alerts, none)
        }
        AlertVerb::Show(args) => {
            let detail: AlertDetail = client.call(&at::SHOW, &[&args.alert.to_string()])?;
            match args.json {
                true => table::json(t, &detail),
                false => show(t, &detail),
            }
        }
        AlertVerb::Ack(args) => change(&args, &at::ACKNOWLEDGE, "acknowledged", &client, t),
        AlertVerb::Unack(args) => change(&args, &at::UNACKNOWLEDGE, "open again", &client, t),
        AlertVerb::Test(args) => way::test(&args, connection, t),
        AlertVerb::Way(verb) => way::run(verb, connection, t),
        AlertVerb::Conditions(args) => conditions(t, &args),
    }
}

/// Says whether somebody knows of alerts, and prints what was said.
fn change(
    args: &Ack,
    endpoint: &Endpoint<(), (), AlertView>,
    done: &str,
    client: &Client,
    t: &mut Terminal<'_>,
) -> Done {
    let mut changed = Vec::new();
    for number in &args.alerts {
        let alert = client.call(endpoint, &[&number.to_string()])?;
        if !args.json {
            let AlertView {
                condition, object, ..
            } = &alert;
            writeln!(t.out, "alert {number} {done}: {condition} of {object}")?;
        }
        changed.push(alert);
    }
    match args.json {
        true => table::json(t, &changed),
        false => Ok(()),
    }
}

const COLUMNS: [Column<AlertView>; 9] = [
    right("number", |alert, _| alert.number.to_string()),
    left("severity", |alert, _| alert.severity.as_str().to_owned()),
    left("condition", |alert, _| alert.condition.clone()),
    left("object", |alert, _| or_dash(&alert.object)),
    left("since", |alert, numbers| time(alert.since_ms, numbers)),
    left("known to", |alert, _| {
        let known = alert.acknowledged.as_ref();
        known.map_or("-".to_owned(), |it| or_dash(&it.by))
    }),
    left("found", |alert, _| or_dash(&alert.text)),
    extra(left("next", |alert, _| or_dash(&alert.next))),
    extra(left("ended", |alert, numbers| {
        let ended = alert.ended_ms;
        ended.map_or("-".to_owned(), |ended_ms| time(ended_ms, numbers))
    })),
];

fn show(t: &mut Terminal<'_>, detail: &AlertDetail) -> Done {
    let alert = &detail.alert;
    writeln!(
        t.out,
        "alert {}: {} of {}, {}",
        alert.number,
        alert.condition,
        alert.object,
        alert.severity.as_str()
    )?;
    let in_words = |ms| time(ms, table::Numbers::Short);
    let known = alert.acknowledged.as_ref();
    let known = known.map(|it| format!("{}, {}", it.by, in_words(it.at_ms)));
    let lines = [
        ("since", Some(in_words(alert.since_ms))),
        ("ended", alert.ended_ms.map(in_words)),
        ("known to", known),
        ("found", Some(alert.text.clone())),
        ("next", Some(alert.next.clone())),
        ("meaning", Some(detail.meaning.clone())),
        ("look at", Some(detail.look.clone())),
        ("remedy", Some(detail.remedy.clone())),
    ];
    for (title, words) in lines {
        let words = words.filter(|words| !words.is_empty());
        if let Some(words) = words {
            let words = wrapped(&words, 72, "            ");
            writeln!(t.out, "  {title:8}  {words}")?;
        }
    }
    Ok(())
}

/// A condition as a row. The table itself is not made for JSON.
#[derive(Debug, serde::Serialize)]
struct Row {
    condition: &'static str,
    severity: &'static str,
    hold_s: u64,
    object: &'static str,
    meaning: &'static str,
    look: &'static str,
    remedy: &'static str,
}

impl From<&&Condition> for Row {
    fn from(it: &&Condition) -> Self {
        Self {
            condition: it.id,
            severity: it.severity.as_str(),
            hold_s: it.hold_s,
            object: it.object,
            meaning: it.meaning,
            look: it.look,
            remedy: it.remedy,
        }
    }
}

fn conditions(t: &mut Terminal<'_>, args: &ListArgs) -> Done {
    let columns: [Column<Row>; 7] = [
        left("condition", |row, _| row.condition.to_owned()),
        left("severity", |row, _| row.severity.to_owned()),
        right("hold", |row, numbers| numbers.span(row.hold_s)),
        left("object", |row, _| row.object.to_owned()),
        left("meaning", |row, _| row.meaning.to_owned()),
        extra(left("look", |row, _| row.look.to_owned())),
        extra(left("remedy", |row, _| row.remedy.to_owned())),
    ];
    let rows: Vec<Row> = CONDITIONS.iter().map(Row::from).collect();
    print(t, args, &columns, &rows, "no conditions")
}
