//! How every change is made from the command line: previewed where it can hurt, asked about, made,
//! and told.

use std::io::Write;

use clap::Args;
use hyper::Method;
use serde::Serialize;

use super::{Done, Failure, Terminal, table};
use crate::config::diff::{Action, Difference};
use crate::config::{Error, ErrorKind};
use crate::control::Client;
use crate::control::client::escape;
use crate::control::transaction::{Commit, Committed};

/// How a change is to be made.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct EditArgs {
    /// Only show what would change
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,
    /// JSON, as the control API gives it
    #[arg(long)]
    pub(super) json: bool,
}

/// How a change that may take something away is to be made.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct RemovalArgs {
    /// Do not ask; remove what depends on it too
    #[arg(short = 'y', long, visible_short_alias = 'f', visible_alias = "force")]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) edit: EditArgs,
}

/// A request that changes something.
pub(super) struct Request<'a, B> {
    method: Method,
    path: &'a str,
    body: Option<&'a B>,
}

impl<'a> Request<'a, ()> {
    /// A request that needs no body.
    pub(super) fn bare(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            body: None,
        }
    }
}

impl<'a, B> Request<'a, B> {
    pub(super) fn with(method: Method, path: &'a str, body: &'a B) -> Self {
        Self {
            method,
            path,
            body: Some(body),
        }
    }
}

/// What must not have changed between a preview and the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// What it does. Others may change something else meanwhile.
    Effect,
    /// Anything: it replaces the whole configuration.
    Everything,
}

impl<B: Serialize> Request<'_, B> {
    fn commit(&self, client: &Client, how: &Commit) -> Result<Committed, Error> {
        let mut path = format!(
            "{}?dry_run={}&cascade={}",
            self.path, how.dry_run, how.cascade
        );
        if let Some(generation) = how.if_generation {
            path.push_str(&format!("&if_generation={generation}"));
        }
        if let Some(effect) = &how.if_effect {
            path.push_str(&format!("&if_effect={}", escape(effect)));
        }
        match self.body {
            Some(body) => client.send(&self.method, &path, body),
            None => client.call(&self.method, &path),
        }
    }
}

/// Makes a change that takes nothing away.
pub(super) fn make<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
) -> Done {
    let how = Commit {
        dry_run: args.dry_run,
        ..Commit::default()
    };
    tell(t, args, &request.commit(client, &how)?)
}

/// Makes a change of many objects, where that generation is still in force. A dry run prints one line for each object.
pub(super) fn make_briefly<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
    if_generation: Option<u64>,
) -> Done {
    let how = Commit {
        dry_run: args.dry_run,
        if_generation,
        ..Commit::default()
    };
    let committed = request.commit(client, &how)?;
    if args.json || !args.dry_run || committed.differences.is_empty() {
        return tell(t, args, &committed);
    }
    for notice in &committed.notices {
        writeln!(t.err, "note: {notice}")?;
    }
    for difference in &committed.differences {
        writeln!(t.out, "  {} {}", sign(difference.action), short(difference))?;
    }
    Ok(writeln!(t.out, "nothing was changed (--dry-run)")?)
}

/// Makes a change that may take something away: shows what depends on it and asks first.
/// `grave` says whether the change is one to ask about even when nothing depends on it.
pub(super) fn remove<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &RemovalArgs,
    request: &Request<'_, B>,
    grave: bool,
) -> Done {
    remove_guarded(t, client, args, request, grave, Guard::Effect)
}

/// The same where something else must not have changed since the preview. What others do to other objects keeps
/// nobody from his change; where they changed what this one does, it is shown and asked anew.
pub(super) fn remove_guarded<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &RemovalArgs,
    request: &Request<'_, B>,
    grave: bool,
    guard: Guard,
) -> Done {
    let all = Commit {
        cascade: true,
        ..Commit::default()
    };
    // Whoever says --yes has agreed to whatever goes with it.
    if args.yes && !args.edit.dry_run && guard == Guard::Effect {
        return tell(t, &args.edit, &request.commit(client, &all)?);
    }
    loop {
        let preview = request.commit(
            client,
            &Commit {
                dry_run: true,
                ..all.clone()
            },
        )?;
        if args.edit.dry_run {
            return tell(t, &args.edit, &preview);
        }
        if !args.yes && (grave || hurts(&preview)) {
            confirm(t, &preview)?;
        }
        let how = match guard {
            Guard::Effect => Commit {
                if_effect: Some(preview.effect),
                ..all.clone()
            },
            Guard::Everything => Commit {
                if_generation: Some(preview.from_generation),
                ..all.clone()
            },
        };
        match request.commit(client, &how) {
            Err(error) if error.kind == ErrorKind::Stale && guard == Guard::Effect => {
                writeln!(t.err, "{}: looking again", error.message)?;
            }
            done => return tell(t, &args.edit, &done?),
        }
    }
}

/// Whether it takes away more than was named.
fn hurts(preview: &Committed) -> bool {
    let mut differences = preview.differences.iter();
    let removes = differences.any(|difference| difference.action == Action::Remove);
    // Whatever else goes with it, or is changed by that.
    let takes_more = removes && preview.differences.len() > 1;
    takes_more || preview.sessions.iter().any(|session| session.loses)
}

fn confirm(t: &mut Terminal<'_>, preview: &Committed) -> Done {
    writeln!(t.err, "This would happen:")?;
    write_preview(t.err, preview)?;
    let Some(ask) = t.ask.as_mut() else {
        let message = "this needs a confirmation and nobody is there to ask";
        return Err(Error::new(ErrorKind::InUse, message, "repeat the command with --yes").into());
    };
    let answer = ask("Go on? [y/N] ")?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    writeln!(t.err, "nothing was changed")?;
    Err(Failure::Said)
}

/// Tells what a change did or would do.
pub(super) fn tell(t: &mut Terminal<'_>, args: &EditArgs, committed: &Committed) -> Done {
    if args.json {
        return table::json(t, committed);
    }
    for notice in &committed.notices {
        writeln!(t.err, "note: {notice}")?;
    }
    if committed.differences.is_empty() {
        return Ok(writeln!(t.out, "nothing to change: it is so already")?);
    }
    if committed.dry_run {
        write_preview(t.out, committed)?;
        return Ok(writeln!(t.out, "nothing was changed (--dry-run)")?);
    }
    for difference in &committed.differences {
        writeln!(t.out, "{}", short(difference))?;
    }
    for session in &committed.sessions {
        writeln!(
            t.out,
            "session {} ({}) {}",
            session.tsih, session.initiator, session.effect
        )?;
    }
    Ok(())
}

fn short(difference: &Difference) -> String {
    let Difference {
        object,
        name,
        fields,
        ..
    } = difference;
    let field = |wanted: &str| {
        fields
            .iter()
            .find(|f| f.field == wanted)
            .and_then(|f| f.new.as_deref())
    };
    match difference.action {
        Action::Remove => format!("{object} {name} removed"),
        Action::Add => match (object.as_str(), field("naa"), field("lun")) {
            ("lu", Some(naa), _) => format!("lu {name} created, naa.{naa}"),
            ("map", _, Some(lun)) => format!("map {name} added as LUN {lun}"),
            ("map", ..) => format!("map {name} added"),
            ("login" | "claim rule", ..) => format!("{object} {name} added"),
            ("device", ..) => {
                let set = fields.iter().filter(|f| f.field != "name");
                let set = set.map(|f| format!("{} {}", f.field, f.new.as_deref().unwrap_or("-")));
                format!("device {name}: {}", set.collect::<Vec<_>>().join(", "))
            }
            _ => format!("{object} {name} created"),
        },
        Action::Modify => {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
            let changes = fields
                .iter()
                .map(|f| format!("{} {} -> {}", f.field, shown(&f.old), shown(&f.new)));
            format!(
                "{object} {name}: {}",
                changes.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

fn sign(action: Action) -> char {
    match action {
        Action::Add => '+',
        Action::Remove => '-',
        Action::Modify => '~',
    }
}

/// Writes what would change, as `+`, `-` and `~`, with the fields.
pub(super) fn write_preview(out: &mut dyn Write, committed: &Committed) -> std::io::Result<()> {
    for difference in &committed.differences {
        let sign = sign(difference.action);
        writeln!(out, "  {sign} {} {}", difference.object, difference.name)?;
        let width = difference
            .fields
            .iter()
            .map(|field| field.field.len())
            .max()
            .unwrap_or(0);
        for field in &difference.fields {
            let name = &field.field;
            match (&field.old, &field.new) {
                (Some(old), Some(new)) => writeln!(out, "      {name:width$}  {old} -> {new}")?,
                (Some(old), None) => writeln!(out, "      {name:width$}  {old} -> -")?,
                (None, Some(new)) => writeln!(out, "      {name:width$}  {new}")?,
                (None, None) => {}
            }
        }
    }
    for session in &committed.sessions {
        writeln!(
            out,
            "  ! session {} of {} at {}: {}",
            session.tsih, session.initiator, session.target, session.effect
        )?;
    }
    Ok(())
}
