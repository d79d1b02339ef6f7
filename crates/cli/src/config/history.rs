//! `config history`: the generations that exist, when and by whom each was made, and what it
//! changed.

use super::super::{Connection, Done, Terminal};
use crate::print::table::{Column, ListArgs, Numbers, extra, left, or_dash, print, right};
use config::history::{GenerationView, NotedChange};
use config::store::Store;
use control::endpoint;
use model::ErrorKind;
use model::date::utc;

/// Word for a fact that nobody noted.
const UNKNOWN: &str = "unknown";
/// Most clauses of a summary for people; `-p` shows all.
const MOST_CLAUSES: usize = 2;

const COLUMNS: &[Column<GenerationView>] = &[
    right("generation", |of, _| of.generation.to_string()),
    left("time", |of, numbers| match (of.time_s, numbers) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(time_s), Numbers::Exact) => time_s.to_string(),
        (Some(time_s), Numbers::Short) => utc(time_s),
    }),
    left("author", |of, _| each(of, author)),
    left("summary", summary),
    extra(left("command", |of, _| {
        each(of, |change| or_dash(&change.command))
    })),
    extra(left("in_force", |of, _| {
        let word = if of.in_force { "yes" } else { "no" };
        word.to_owned()
    })),
];

/// Lists the generations, from the folder itself if no daemon runs: damage may keep the daemon from
/// starting.
pub(super) fn run(args: &ListArgs, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let generations: Vec<GenerationView> = match connection
        .client()
        .call(&endpoint::config::GENERATIONS, &[])
    {
        Err(error) if error.kind == ErrorKind::Unavailable && connection.state.is_some() => {
            let kept = Store::peek_history(connection.state_folder())?;
            if kept.is_empty() {
                return Err(error.into());
            }
            kept
        }
        answer => answer?,
    };
    print(t, args, COLUMNS, &generations, "no generations")
}

/// Returns a word for each change of a generation. If all changes have one word, it appears once.
fn each(of: &GenerationView, word: fn(&NotedChange) -> String) -> String {
    let Some(changes) = &of.changes else {
        return UNKNOWN.to_owned();
    };
    let mut words: Vec<String> = changes.iter().map(word).collect();
    words.dedup();
    or_dash(&words.join(", "))
}

fn author(change: &NotedChange) -> String {
    match (change.is_internal, change.user.as_str()) {
        (true, _) => "the daemon".to_owned(),
        (false, "") => UNKNOWN.to_owned(),
        (false, user) => user.to_owned(),
    }
}

fn summary(of: &GenerationView, numbers: Numbers) -> String {
    let Some(changes) = &of.changes else {
        return UNKNOWN.to_owned();
    };
    let mut clauses: Vec<String> = changes.iter().flat_map(NotedChange::clauses).collect();
    if numbers == Numbers::Short && clauses.len() > MOST_CLAUSES + 1 {
        let more = clauses.split_off(MOST_CLAUSES).len();
        clauses.push(format!("{more} more"));
    }
    or_dash(&clauses.join("; "))
}
