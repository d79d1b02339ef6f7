//! `volume send` and `volume receive`: snapshots through a pipe, a file or another machine's shell.

use std::io::{self, IsTerminal as _, Read as _, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use store::catalog::size::print_size;
use store::stream::{Decoder, Item, StreamError};

use super::{Connection, Done, Failure, Terminal};
use crate::grammar::completion::snapshot_names;
use crate::print::wire::{Key, Wire};
use control::Client;
use control::answer::Problem;
use control::endpoint::stream;
use hint::Place;
use model::pool::stream::{Below, PartView, ReceiveRequest, ReceiveView, SendRequest};
use model::{Error, ErrorKind};

/// Time between two displays of the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Environment variable with the key of a stream over TCP, out of sight of other users.
const KEY: &str = "SANDSTONE_STREAM_KEY";

/// Final answer of the receiving side.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Received(Vec<ReceiveView>),
    Refused(Problem),
}

#[derive(Debug, Args)]
pub(super) struct Send {
    /// Send only the changes since this snapshot, tank/vm1@sunday or @sunday; of a clone also since
    /// its origin, by its whole name
    #[arg(short = 'i', value_name = "SNAPSHOT", conflicts_with = "intermediate", add = snapshot_names())]
    from: Option<String>,
    /// Send the changes since this snapshot, with all snapshots in between
    #[arg(short = 'I', value_name = "SNAPSHOT", add = snapshot_names())]
    intermediate: Option<String>,
    /// Send all volumes below too, with all their snapshots and properties; clones stay clones
    #[arg(short = 'R', long = "replicate")]
    recursive: bool,
    /// Send also properties that were set
    #[arg(short = 'p', long = "props")]
    properties: bool,
    /// Show only what would be sent, and about how much
    #[arg(short = 'n', long = "dryrun")]
    dry_run: bool,
    /// Show what is sent, and the progress
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Show what is sent for scripts: exact numbers, tabs
    #[arg(short = 'P', long = "parsable")]
    parsable: bool,
    /// Send the rest of an interrupted receive, by its receive_resume_token
    #[arg(short = 't', value_name = "TOKEN", conflicts_with_all = ["from", "intermediate", "recursive", "properties", "snapshot"])]
    token: Option<String>,
    /// Send the stream to a `sandstone volume receive --listen` there, instead of writing it
    #[arg(long, value_name = "HOST:PORT", requires = "key")]
    to: Option<String>,
    /// Key that the receiving side shows
    #[arg(long, value_name = "KEY", env = KEY, hide_env_values = true)]
    key: Option<Key>,
    /// Snapshot, as in tank/vm1@monday; with -R also of a folder
    #[arg(required_unless_present = "token", add = snapshot_names())]
    snapshot: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Receive {
    /// Roll the volume back to its newest snapshot first, if it was modified since
    #[arg(short = 'F')]
    rollback: bool,
    /// Keep what was received if the stream is interrupted, to go on with `volume send -t`
    #[arg(short = 's')]
    resumable: bool,
    /// Check only whether the stream is whole
    #[arg(short = 'n')]
    dry_run: bool,
    /// Show what is received
    #[arg(short = 'v')]
    verbose: bool,
    /// Make missing folders above it
    #[arg(short = 'p')]
    parents: bool,
    /// NAME is a folder: volumes keep their names in it, without their pool's name
    #[arg(short = 'd')]
    path: bool,
    /// NAME is a folder: volumes get the last part of their names in it
    #[arg(short = 'e', conflicts_with = "path")]
    last: bool,
    /// Set a property of the received volumes, whatever comes with the stream; may be given several
    /// times
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = set)]
    set: Vec<String>,
    /// Do not take this property from the stream; may be given several times
    #[arg(short = 'x', value_name = "PROPERTY")]
    without: Vec<String>,
    /// Give up a receive that was interrupted
    #[arg(short = 'A', conflicts_with_all = ["rollback", "resumable", "dry_run", "parents", "path", "last", "set", "without"])]
    abort: bool,
    /// Take the stream from a `sandstone volume send --to` that connects to this address, as in
    /// 0.0.0.0:3262
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "abort")]
    listen: Option<SocketAddr>,
    /// Key that the sender must know [default: a new one, which is shown]
    #[arg(long, value_name = "KEY", env = KEY, hide_env_values = true)]
    key: Option<Key>,
    /// Volume, as in tank/copy; for several volumes the folder that they will lie in
    name: String,
}

/// Reads a property and its value, as one line.
fn set(text: &str) -> Result<String, String> {
    match text.contains('=') && !text.contains('\n') {
        true => Ok(text.to_owned()),
        false => Err("write PROPERTY=VALUE, on one line".to_owned()),
    }
}

pub(super) fn send(args: Send, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let request = SendRequest {
        snapshot: args.snapshot.unwrap_or_default(),
        intermediate: args.intermediate.is_some(),
        from: args.from.or(args.intermediate),
        recursive: args.recursive,
        properties: args.properties,
        token: args.token,
    };
    let client = connection.client();
    let mut parts: Vec<PartView> = Vec::new();
    if args.dry_run || args.verbose || args.parsable {
        parts = client.ask(&stream::ESTIMATE, &[], &(), &request)?;
        let mut told = Vec::new();
        tell_estimate(&mut told, &parts, args.parsable)?;
        match args.dry_run {
            true => t.out.write_all(&told)?,
            false => t.err.write_all(&told)?,
        }
    }
    if args.dry_run {
        for part in &parts {
            tell_left_out(t.err, &part.snapshot, part.left_out.as_deref())?;
        }
        return Ok(());
    }
    let total = parts.iter().map(|part| part.bytes).sum();
    let passage = Passage::new(total, args.verbose && !args.parsable);
    if let Some((to, key)) = args.to.zip(args.key) {
        return send_to(
            &to,
            &key,
            |out, err| download(&client, &request, passage, out, err),
            t,
        );
    }
    if io::stdout().is_terminal() {
        return Err(Error::invalid(
            "a stream cannot be written to a terminal",
            "write it to a file with `> FILE`, or pipe it into `sandstone volume receive`",
        )
        .not_changed("nothing was sent")
        .into());
    }
    download(&client, &request, passage, t.out, t.err).map_err(Failure::Refused)
}

/// Copies the stream from the daemon to `out`, and reads its headers as it passes.
fn download(
    client: &Client,
    request: &SendRequest,
    mut passage: Passage,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Error> {
    client.download(&stream::SEND, request, &mut |bytes| {
        out.write_all(bytes).map_err(not_taken)?;
        passage.pass(bytes, err).map_err(not_whole)
    })?;
    out.flush().map_err(not_taken)?;
    passage.finish(err).map_err(not_whole)
}

/// Sends a stream to another machine, and reports the result there.
fn send_to(
    to: &str,
    key: &Key,
    download: impl FnOnce(&mut dyn Write, &mut dyn Write) -> Result<(), Error>,
    t: &mut Terminal<'_>,
) -> Done {
    let unreachable = |error: io::Error| {
        let message = format!("no stream can be sent to {to}: {error}");
        let next = "start `sandstone volume receive --listen ADDRESS:PORT NAME` on that host, and use its key";
        Error::new(ErrorKind::Unavailable, message, next).not_changed("nothing was sent")
    };
    let mut wire = Wire::connect(to, key).map_err(unreachable)?;
    let sent = download(&mut wire, t.err).and_then(|()| wire.end().map_err(not_taken));
    let mut answer = Vec::new();
    // A receiver that refuses a stream does not take all of it. The answer gives the reason.
    let answered = wire.read_to_end(&mut answer);
    let outcome = answered
        .ok()
        .and_then(|_| serde_json::from_slice(&answer).ok());
    match (outcome, sent) {
        (Some(Outcome::Refused(problem)), _) => Err(Error::from(problem).into()),
        (Some(Outcome::Received(_)), Ok(())) => Ok(()),
        (_, Err(error)) => Err(error.into()),
        (None, Ok(())) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("the whole stream was sent, and {to} did not answer"),
            "look on that host with `sandstone volume list -t all`",
        )
        .not_changed("it is not known whether the stream was received")
        .into()),
    }
}

fn tell_estimate(out: &mut dyn Write, parts: &[PartView], is_parsable: bool) -> io::Result<()> {
    let total: u64 = parts.iter().map(|part| part.bytes).sum();
    for PartView {
        snapshot,
        from,
        bytes,
        ..
    } in parts
    {
        match (from, is_parsable) {
            (None, true) => writeln!(out, "full\t{snapshot}\t{bytes}")?,
            (Some(from), true) => writeln!(out, "incremental\t{from}\t{snapshot}\t{bytes}")?,
            (None, false) => {
                let size = print_size(*bytes);
                writeln!(out, "full send of {snapshot} estimated size is {size}")?;
            }
            (Some(from), false) => {
                let size = print_size(*bytes);
                // A snapshot of another volume comes by its whole name.
                let at = if from.contains('@') { "" } else { "@" };
                writeln!(
                    out,
                    "send from {at}{from} to {snapshot} estimated size is {size}"
                )?;
            }
        }
    }
    match is_parsable {
        true => writeln!(out, "size\t{total}"),
        false => writeln!(out, "total estimated size is {}", print_size(total)),
    }
}

/// Reports what is missing for a clone to stay a clone, if it is sent whole.
fn tell_left_out(err: &mut dyn Write, snapshot: &str, origin: Option<&str>) -> io::Result<()> {
    let Some(origin) = origin else { return Ok(()) };
    let clone = snapshot.split('@').next().unwrap_or_default();
    writeln!(
        err,
        "note: {clone} is sent whole, and becomes a volume of its own at the receiver: its origin {origin} \
         is not sent"
    )
}

/// Stream that passes by. Its headers are read, so that messages of the daemon in it are seen and
/// shown.
struct Passage {
    decoder: Decoder,
    /// Estimated bytes of the whole stream.
    total: u64,
    bytes: u64,
    snapshot: String,
    is_shown: bool,
    shown_at: Instant,
}

impl Passage {
    fn new(total: u64, is_shown: bool) -> Self {
        Self {
            decoder: Decoder::new(),
            total,
            bytes: 0,
            snapshot: String::new(),
            is_shown: is_shown && io::stderr().is_terminal(),
            shown_at: Instant::now(),
        }
    }

    fn pass(&mut self, bytes: &[u8], err: &mut dyn Write) -> Result<(), StreamError> {
        self.decoder.feed(bytes);
        self.bytes += bytes.len() as u64;
        while let Some(item) = self.decoder.next_item()? {
            if let Item::Begin(begin) = item {
                if begin.left_out().is_some() && self.is_shown {
                    let _ = write!(err, "\r\x1b[K");
                }
                // If the message cannot be written, the stream still goes on.
                let _ = tell_left_out(err, &begin.source, begin.left_out());
                self.snapshot = begin.source;
            }
        }
        if self.is_shown && self.shown_at.elapsed() >= PROGRESS_EVERY {
            self.shown_at = Instant::now();
            let percent = (self.bytes * 100)
                .checked_div(self.total)
                .unwrap_or(100)
                .min(100);
            let (bytes, total) = (print_size(self.bytes), print_size(self.total));
            // If the progress cannot be written, the stream still goes on.
            let _ = write!(
                err,
                "\r\x1b[K{bytes} of {total}, {percent} %: {}",
                self.snapshot
            );
            let _ = err.flush();
        }
        Ok(())
    }

    fn finish(&mut self, err: &mut dyn Write) -> Result<(), StreamError> {
        if self.is_shown {
            let _ = write!(err, "\r\x1b[K");
        }
        self.decoder.finish()
    }
}

fn not_taken(error: io::Error) -> Error {
    let message = match error.kind() {
        io::ErrorKind::BrokenPipe => "the receiver of the stream closed it".to_owned(),
        _ => format!("the stream cannot be written: {error}"),
    };
    let next = "see what the receiver reports; an interrupted `volume receive -s` can be resumed with its token";
    Error::new(ErrorKind::Storage, message, next).not_changed("the pool was not changed")
}

fn not_whole(error: StreamError) -> Error {
    let next = "see `sandstone pool status -v`";
    Error::new(ErrorKind::Refused, error.to_string(), next)
        .not_changed("the stream is incomplete; the pool was not changed")
}

pub(super) fn receive(args: &Receive, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    if args.abort {
        let what = stream::Abort {
            name: args.name.clone(),
        };
        return Ok(client.ask(&stream::ABORT, &[], &(), &what)?);
    }
    let request = ReceiveRequest {
        name: args.name.clone(),
        below: match (args.path, args.last) {
            (true, _) => Some(Below::Path),
            (false, true) => Some(Below::Last),
            (false, false) => None,
        },
        set: args.set.join("\n"),
        without: args.without.join("\n"),
        rollback: args.rollback,
        resumable: args.resumable,
        parents: args.parents,
        dry_run: args.dry_run,
    };
    let since = Instant::now();
    let received: Vec<ReceiveView> = match args.listen {
        Some(address) => receive_from(address, args.key.clone(), &client, &request, t)?,
        None if io::stdin().is_terminal() => {
            return Err(Error::invalid(
                "a stream cannot be read from a terminal",
                "read it from a file with `< FILE`, or pipe `sandstone volume send` into this command",
            )
            .into());
        }
        None => client.upload(&stream::RECEIVE, &request, io::stdin())?,
    };
    if args.verbose || args.dry_run {
        let word = if args.dry_run {
            "would receive"
        } else {
            "received"
        };
        for ReceiveView {
            snapshot,
            source,
            bytes,
            was_there,
        } in &received
        {
            let size = print_size(*bytes);
            match was_there {
                true => writeln!(t.out, "{snapshot} exists already; skipped")?,
                false => writeln!(t.out, "{word} {snapshot} from {source}: {size} of blocks")?,
            }
        }
        let seconds = since.elapsed().as_secs_f64();
        let count = received.iter().filter(|view| !view.was_there).count();
        writeln!(t.out, "{count} snapshots in {seconds:.1} seconds")?;
    }
    Ok(())
}

/// Takes a stream from a sender that knows the key, and sends the result back.
fn receive_from(
    address: SocketAddr,
    key: Option<Key>,
    client: &Client,
    request: &ReceiveRequest,
    t: &mut Terminal<'_>,
) -> Result<Vec<ReceiveView>, Failure> {
    let failed = |error: io::Error| {
        let message = format!("no stream can be received at {address}: {error}");
        let next = Place::Address(address).next(&error);
        Error::new(ErrorKind::Unavailable, message, next)
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    writeln!(
        t.err,
        "waiting at {bound} for `sandstone volume send SNAPSHOT --to HOST:{}`",
        bound.port()
    )?;
    let key = match key {
        Some(key) => key,
        None => {
            let key = Key::random();
            writeln!(t.err, "the sender needs this key: {KEY}={key}")?;
            key
        }
    };
    t.err.flush()?;
    let wire = Wire::accept(&listener, &key).map_err(failed)?;
    drop(listener);
    let (reader, mut writer) = wire.split().map_err(failed)?;
    let outcome: Result<Vec<ReceiveView>, Error> = client.upload(&stream::RECEIVE, request, reader);
    let answer = match &outcome {
        Ok(received) => Outcome::Received(received.clone()),
        Err(error) => Outcome::Refused(Problem::from(error.clone())),
    };
    // The result is printed here, too: a sender that is gone needs no answer.
    let answer = serde_json::to_vec(&answer).unwrap_or_default();
    let _ = writer.write_all(&answer).and_then(|()| writer.end());
    writer.linger();
    Ok(outcome?)
}
