//! Changes from the command line. A change that can hurt is shown first and asked about; then it is
//! made and reported.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use crate::print::table;
use crate::{Done, Failure, Terminal};
use config::diff::{Action, Difference};
use control::transaction::{Commit, Committed};
use control::{Client, Endpoint};
use model::{Error, ErrorKind};

/// Options of every verb that changes something.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct EditArgs {
    /// Show only what would change
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,
    /// Do not ask: neither if sessions end or lose a logical unit, nor if other objects go with a
    /// removed one
    #[arg(short = 'y', long, visible_short_alias = 'f', visible_alias = "force")]
    pub(super) yes: bool,
    /// JSON, as the control API gives it
    #[arg(long)]
    pub(super) json: bool,
}

/// A request that changes something.
pub(super) struct Request<'a, B> {
    endpoint: &'a Endpoint<Commit, B, Committed>,
    at: Vec<String>,
    body: &'a B,
}

impl<'a> Request<'a, ()> {
    /// Returns a request that needs no body, with arguments of its path.
    pub(super) fn bare(endpoint: &'a Endpoint<Commit, (), Committed>, at: &[&str]) -> Self {
        Request::with(endpoint, at, &())
    }
}

impl<'a, B> Request<'a, B> {
    /// Returns a request with arguments of its path and a body.
    pub(super) fn with(
        endpoint: &'a Endpoint<Commit, B, Committed>,
        at: &[&str],
        body: &'a B,
    ) -> Self {
        Self {
            endpoint,
            at: at.iter().map(ToString::to_string).collect(),
            body,
        }
    }
}

/// Part of the configuration that must not change between a preview and the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// The effect of the change. Others may change something else meanwhile.
    Effect,
    /// The whole configuration, because the change replaces all of it.
    Everything,
}

impl<B: Serialize> Request<'_, B> {
    fn commit(&self, client: &Client, how: &Commit) -> Result<Committed, Error> {
        let at: Vec<&str> = self.at.iter().map(String::as_str).collect();
        client.ask(self.endpoint, &at, how, self.body)
    }
}

/// Makes a change that removes no object. If sessions would end or lose a logical unit, shows the
/// change and asks first.
pub(super) fn make<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
) -> Done {
    let committed = commit_or_ask(t, client, args, request, None)?;
    tell(t, args, &committed)
}

/// Makes a change if no session loses anything by it, or if the user agrees to the loss.
fn commit_or_ask<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
    if_generation: Option<u64>,
) -> Result<Committed, Failure> {
    let how = Commit {
        dry_run: args.dry_run,
        keep_sessions: !args.yes && !args.dry_run,
        if_generation,
        ..Commit::default()
    };
    loop {
        // Most changes disturb nobody and take a single request.
        let refused = match request.commit(client, &how) {
            Err(error) if how.keep_sessions && error.kind == ErrorKind::InUse => error,
            done => return Ok(done?),
        };
        let only_told = Commit {
            dry_run: true,
            keep_sessions: false,
            ..how.clone()
        };
        let preview = request.commit(client, &only_told)?;
        if !hurts(&preview) {
            return Err(refused.into());
        }
        confirm(t, &preview)?;
        let agreed = Commit {
            if_effect: Some(preview.effect),
            keep_sessions: false,
            ..how.clone()
        };
        match request.commit(client, &agreed) {
            Err(error) if error.kind == ErrorKind::Stale && if_generation.is_none() => {
                writeln!(t.err, "{}: trying again", error.message)?;
            }
            done => return Ok(done?),
        }
    }
}

/// Makes a change of many objects, if the given generation is still in force. A dry run prints one
/// line for each object.
pub(super) fn make_briefly<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
    if_generation: Option<u64>,
) -> Done {
    let committed = commit_or_ask(t, client, args, request, if_generation)?;
    if args.json || !args.dry_run || committed.differences.is_empty() {
        return tell(t, args, &committed);
    }
    for notice in &committed.notices {
        writeln!(t.err, "note: {notice}")?;
    }
    for difference in &committed.differences {
        writeln!(
            t.out,
            "  {} {}",
            sign(difference.action),
            difference.in_words()
        )?;
    }
    Ok(writeln!(t.out, "nothing was changed (--dry-run)")?)
}

/// Makes a change that may take something away: shows what depends on the removed object and asks
/// first. `grave` tells to ask even if nothing depends on the object.
pub(super) fn remove<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
    grave: bool,
) -> Done {
    remove_guarded(t, client, args, request, grave, Guard::Effect)
}

/// Makes a change like [`remove`], guarded against changes since the preview. Changes to other
/// objects do not block this change. If somebody changed its effect, the new effect is shown and
/// asked about again.
pub(super) fn remove_guarded<B: Serialize>(
    t: &mut Terminal<'_>,
    client: &Client,
    args: &EditArgs,
    request: &Request<'_, B>,
    grave: bool,
    guard: Guard,
) -> Done {
    let all = Commit {
        cascade: true,
        ..Commit::default()
    };
    // With --yes the user agreed to everything that goes with the object.
    if args.yes && !args.dry_run && guard == Guard::Effect {
        return tell(t, args, &request.commit(client, &all)?);
    }
    loop {
        let preview = request.commit(
            client,
            &Commit {
                dry_run: true,
                ..all.clone()
            },
        )?;
        if args.dry_run {
            return tell(t, args, &preview);
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
                writeln!(t.err, "{}: trying again", error.message)?;
            }
            done => return tell(t, args, &done?),
        }
    }
}

/// Reports whether the change takes away more than the user named.
fn hurts(preview: &Committed) -> bool {
    let mut differences = preview.differences.iter();
    let removes = differences.any(|difference| difference.action == Action::Remove);
    // Other objects go with the named one, or are changed by its removal.
    let takes_more = removes && preview.differences.len() > 1;
    takes_more || preview.sessions.iter().any(|session| session.loses)
}

fn confirm(t: &mut Terminal<'_>, preview: &Committed) -> Done {
    writeln!(t.err, "This would happen:")?;
    write_preview(t.err, preview)?;
    go_on(t)
}

/// Asks whether to make the change that was just shown.
pub(super) fn go_on(t: &mut Terminal<'_>) -> Done {
    let Some(ask) = t.ask.as_mut() else {
        let message = "this needs a confirmation, and there is no terminal to ask on";
        return Err(Error::new(ErrorKind::InUse, message, "repeat the command with --yes").into());
    };
    let answer = ask("Go on? [y/N] ")?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    writeln!(t.err, "nothing was changed")?;
    Err(Failure::Said)
}

/// Prints what a change did or would do.
pub(super) fn tell(t: &mut Terminal<'_>, args: &EditArgs, committed: &Committed) -> Done {
    if args.json {
        return table::json(t, committed);
    }
    for notice in &committed.notices {
        writeln!(t.err, "note: {notice}")?;
    }
    if committed.differences.is_empty() {
        return Ok(writeln!(
            t.out,
            "nothing to change: the configuration already says so"
        )?);
    }
    if committed.dry_run {
        write_preview(t.out, committed)?;
        return Ok(writeln!(t.out, "nothing was changed (--dry-run)")?);
    }
    for difference in &committed.differences {
        writeln!(t.out, "{}", difference.in_words())?;
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

fn sign(action: Action) -> char {
    match action {
        Action::Add => '+',
        Action::Remove => '-',
        Action::Modify => '~',
    }
}

/// Writes the differences as `+`, `-` and `~`, with the fields, and the sessions that notice.
pub(super) fn write_preview(out: &mut dyn Write, committed: &Committed) -> std::io::Result<()> {
    write_differences(out, &committed.differences)?;
    for session in &committed.sessions {
        writeln!(
            out,
            "  ! session {} of {} at {}: {}",
            session.tsih, session.initiator, session.target, session.effect
        )?;
    }
    Ok(())
}

/// Writes the differences without the sessions.
pub(super) fn write_differences(
    out: &mut dyn Write,
    differences: &[Difference],
) -> std::io::Result<()> {
    for difference in differences {
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
    Ok(())
}
