//! `pool history`, in zpool's manner: changes of pools, their authors, and their times.

use clap::Args;

use super::super::{Connection, Done, Terminal};
use crate::grammar::completion::pool_names;
use crate::print::table::json;
use control::endpoint::pool;
use model::date::utc;
use model::pool::history::{HistoryLine, PoolHistoryView};
use model::pool::status::PoolView;

#[derive(Debug, Args)]
pub(in super::super) struct History {
    /// Show also what pools did by themselves
    #[arg(short = 'i', long)]
    internal: bool,
    /// Show also the user and host that asked for it
    #[arg(short = 'l', long = "long")]
    who: bool,
    /// No headings; pool, time, what was done, and with -l user and host, separated by one tab
    #[arg(short = 'H', long = "scripted")]
    scripted: bool,
    /// Exact times: seconds since 1970
    #[arg(short = 'p', long = "exact")]
    exact: bool,
    /// JSON, as the control API gives it
    #[arg(long, conflicts_with_all = ["internal", "who", "scripted", "exact"])]
    json: bool,
    /// Pools to show; without a name, all
    #[arg(add = pool_names())]
    pools: Vec<String>,
}

pub(in super::super) fn run(t: &mut Terminal<'_>, connection: &Connection, args: &History) -> Done {
    let client = connection.client();
    let names = match args.pools.is_empty() {
        false => args.pools.clone(),
        true => {
            let pools: Vec<PoolView> = client.call(&pool::LIST, &[])?;
            let (shut, open): (Vec<_>, Vec<_>) =
                pools.into_iter().partition(|pool| pool.state == "UNAVAIL");
            for PoolView { name, .. } in &shut {
                writeln!(
                    t.err,
                    "the history of {name} is not shown: the pool is not open; see `sandstone pool status {name}`"
                )?;
            }
            open.into_iter().map(|pool| pool.name).collect()
        }
    };
    let ask = |name: &String| client.call(&pool::HISTORY, &[name]);
    let histories: Vec<PoolHistoryView> = names.iter().map(ask).collect::<Result<_, _>>()?;
    if args.json {
        return json(t, &histories);
    }
    for (number, history) in histories.iter().enumerate() {
        if !args.scripted {
            let gap = if number > 0 { "\n" } else { "" };
            writeln!(t.out, "{gap}History for '{}':", history.pool)?;
        }
        let wanted = |line: &&HistoryLine| args.internal || !line.is_internal;
        for line in history.entries.iter().filter(wanted) {
            writeln!(t.out, "{}", told(&history.pool, line, args))?;
        }
    }
    Ok(())
}

fn told(pool: &str, line: &HistoryLine, args: &History) -> String {
    let time = match args.exact {
        true => line.time_s.to_string(),
        false => utc(line.time_s),
    };
    let or_dash = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
    if args.scripted {
        let mut cells = vec![pool.to_owned(), time, line.text.clone()];
        if args.who {
            cells.extend([or_dash(&line.user), or_dash(&line.host)]);
        }
        return cells.join("\t");
    }
    let what = match line.is_internal {
        true => format!("[internal event] {}", line.text),
        false => line.text.clone(),
    };
    match args.who {
        false => format!("{time} {what}"),
        true => format!(
            "{time} {what} [user {} on {}]",
            or_dash(&line.user),
            or_dash(&line.host)
        ),
    }
}
