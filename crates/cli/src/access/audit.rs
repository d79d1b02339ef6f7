//! `audit`: who changed what, or tried to.

use clap::{Args, Subcommand};

use super::time;
use crate::print::table::{self, Column, ListArgs, extra, left, or_dash, print, right};
use crate::{Connection, Done, Failure, Terminal};
use control::endpoint::access as at;
use control::endpoint::access::AuditPage;
use model::access::{AuditCheck, AuditLine};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditVerb {
    /// List attempts to change something, the oldest first
    #[command(visible_alias = "show")]
    List(List),
    /// Check that no line of the log was changed or removed
    Verify(Verify),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Most lines to list, at most 1000
    #[arg(short = 'l', long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// List lines before the one of this number
    #[arg(long, value_name = "SEQ")]
    before: Option<u64>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(verb: AuditVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        AuditVerb::List(args) => {
            let page = AuditPage {
                before: args.before,
                limit: Some(args.limit),
            };
            let mut lines = client.ask(&at::AUDIT, &[], &page, &())?;
            lines.reverse();
            print(
                t,
                &args.list,
                &COLUMNS,
                &lines,
                "no attempts to change anything",
            )
        }
        AuditVerb::Verify(args) => {
            let check = client.call(&at::AUDIT_CHECK, &[])?;
            if args.json {
                table::json(t, &check)?;
            } else {
                tell(&check, t)?;
            }
            match check.breaks.is_empty() {
                true => Ok(()),
                false => Err(Failure::Said),
            }
        }
    }
}

fn tell(check: &AuditCheck, t: &mut Terminal<'_>) -> Done {
    let AuditCheck {
        lines, first, last, ..
    } = check;
    for broken in &check.breaks {
        writeln!(t.err, "broken: {broken}")?;
    }
    match check.breaks.is_empty() {
        true => writeln!(
            t.out,
            "{lines} lines, {first} to {last}: the chain is whole"
        )?,
        false => writeln!(
            t.out,
            "{lines} lines, {first} to {last}: {} breaks",
            check.breaks.len()
        )?,
    }
    Ok(writeln!(t.out, "head: {}", or_dash(&check.head))?)
}

const COLUMNS: [Column<AuditLine>; 11] = [
    right("seq", |line, _| line.seq.to_string()),
    left("time", |line, n| time(line.at, n)),
    left("who", |line, _| or_dash(&line.who)),
    left("by", |line, _| line.by.clone()),
    left("attempt", |line, _| {
        line.command.clone().unwrap_or_else(|| line.request.clone())
    }),
    left("result", |line, _| line.result.clone()),
    extra(left("from", |line, _| or_dash(&line.from))),
    extra(left("role", |line, _| {
        line.role.map_or("-".to_owned(), |role| role.to_string())
    })),
    extra(left("request", |line, _| line.request.clone())),
    extra(left("body", |line, _| {
        or_dash(line.body.as_deref().unwrap_or_default())
    })),
    extra(left("generation", |line, _| {
        format!("{}>{}", line.before, line.after)
    })),
];
