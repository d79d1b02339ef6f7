//! Receiving a stream into a pool. Nothing of the stream counts before its end. An interrupted
//! receive is removed, or resumed later from the position that is durable.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use store::catalog::request::ReceiveInto;
use store::catalog::{Catalog, CatalogError, ErrorKind as Refusal, Operation, Stamp};
use store::engine::{Answer, PoolError, Received, Request};
use store::format::DatasetId;
use store::stream::{Begin, Decoder, Item, Packed, StreamError};

use super::apply;
use super::overrides::Overrides;
use crate::Pools;
use crate::dataset::{administer, failed, refused};
use crate::registry::OpenPool;
use crate::served_datasets::Served;
use model::pool::dataset::name::{require_whole, split};
use model::pool::stream::{Below, ReceiveRequest, ReceiveView};
use model::{Error, ErrorKind};

/// Most bytes of blocks that the pool was given and has not taken.
const WINDOW: usize = 16 << 20;
/// Most changes that the pool was given and has not taken.
const CHANGES: usize = 512;
/// Bytes, or time, after which the position is noted.
const NOTE_BYTES: u64 = 64 << 20;
const NOTE_AFTER: Duration = Duration::from_secs(5);

/// Calls its argument with the datasets that logical units serve, and lets no unit be created or
/// changed meanwhile. A stream begins inside this call. So a write by a host to a new unit is not
/// rolled back.
pub type WhileServed<'a> = dyn Fn(&mut Begins<'_>) -> Result<(), Error> + 'a;

/// Start of a stream, given the served datasets.
pub type Begins<'a> = dyn FnMut(&Served) -> Result<(), Error> + 'a;

/// Receives a stream, in pieces of any size, into a pool.
pub struct Receiver<'a> {
    pool: Arc<OpenPool>,
    request: ReceiveRequest,
    overrides: Overrides,
    while_served: &'a WhileServed<'a>,
    decoder: Decoder,
    part: Option<Part>,
    done: Vec<ReceiveView>,
}

/// Snapshot that is being received.
struct Part {
    /// Name without the pool's name.
    name: String,
    begin: Begin,
    /// Volume that receives the part, or `None` if nothing is changed.
    into: Option<Target>,
    /// Full name of the snapshot, if the volume already has it. Then nothing is changed either.
    there: Option<String>,
    bytes: u64,
}

struct Target {
    volume: DatasetId,
    /// Whether the volume was created for the stream. If so, it goes when the stream is given up.
    is_new: bool,
    attempt: u64,
    given: VecDeque<Given>,
    given_bytes: usize,
    /// Block below which the pool has all blocks.
    position: u64,
    /// Whether the pool refused a change. It may have taken later changes, but all blocks from the
    /// refused one on must come again.
    has_failed: bool,
    /// Block below which the pool has durably noted that it has all blocks.
    noted: u64,
    noted_bytes: u64,
    noted_at: Instant,
}

/// Change that the pool was given.
struct Given {
    answer: mpsc::Receiver<Result<Answer, PoolError>>,
    bytes: usize,
    /// Block after the change.
    next: u64,
}

impl Pools {
    /// Returns a receiver that is ready for a stream.
    ///
    /// # Errors
    /// The pool is not open, or a property cannot have the requested value.
    pub fn receiver<'a>(
        &self,
        request: ReceiveRequest,
        while_served: &'a WhileServed<'a>,
    ) -> Result<Receiver<'a>, Error> {
        require_whole(&request.name)?;
        Ok(Receiver {
            pool: self.get(split(&request.name).0)?,
            overrides: Overrides::of(&request)?,
            request,
            while_served,
            decoder: Decoder::new(),
            part: None,
            done: Vec::new(),
        })
    }

    /// Gives up a partly received stream.
    ///
    /// # Errors
    /// The volume has no partly received stream.
    pub fn abort_receive(&self, name: &str) -> Result<(), Error> {
        require_whole(name)?;
        let (pool, local) = split(name);
        let (pool, local) = (self.get(pool)?, local.to_owned());
        apply(&pool, move |catalog| {
            let volume = catalog.find_volume(&local)?.id;
            catalog.plan_abort_receive(volume, None)
        })
    }
}

impl Receiver<'_> {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The stream is faulty, or the pool does not take it. Then give it up: [`Receiver::give_up`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.decoder.feed(bytes);
        while let Some(item) = self.decoder.next_item().map_err(broken)? {
            match item {
                Item::Begin(begin) => self.begin(*begin)?,
                Item::Data { block, packed } => self.data(block, &packed)?,
                Item::Free { first, count } => self.free(first, count)?,
                Item::End => self.end()?,
                Item::Close => {}
            }
        }
        Ok(())
    }

    /// Ends the stream, and returns the received snapshots.
    ///
    /// # Errors
    /// The stream is not complete.
    pub fn finish(&mut self) -> Result<Vec<ReceiveView>, Error> {
        self.decoder.finish().map_err(broken)?;
        Ok(std::mem::take(&mut self.done))
    }

    /// Ends the receive because of `error`. A half-received part goes, or waits for its rest.
    /// Returns the error, which says what became of the part.
    pub fn give_up(mut self, error: Error) -> Error {
        let mut left: Vec<String> = Vec::new();
        let received = self.done.iter().filter(|view| !view.was_there);
        let received: Vec<&str> = received.map(|view| view.snapshot.as_str()).collect();
        if !received.is_empty() {
            left.push(format!("{} was received and kept", received.join(", ")));
        }
        let mut next = error.next.clone();
        if let Some(part) = self.part.take()
            && let Some(into) = part.into
        {
            let volume = format!("{}/{}", self.pool.host.name(), part.name);
            let (text, own) = self.leave(&volume, into);
            left.push(text);
            next = own.unwrap_or(next);
        }
        let left = match left.is_empty() {
            true => error.not_changed.clone(),
            false => left.join("; "),
        };
        Error::new(error.kind, error.message, next).not_changed(left)
    }

    fn begin(&mut self, mut begin: Begin) -> Result<(), Error> {
        self.overrides.leave_out(&mut begin);
        let (pool, local) = split(&self.request.name);
        let name = target(local, &begin, self.request.below);
        if name.is_empty() || name.contains('@') {
            return Err(Error::invalid(
                format!("'{}' is not a name of a volume", self.request.name),
                format!("name a volume, as in {pool}/vm1; the snapshot keeps its name"),
            ));
        }
        let mut into = None;
        let there = self.already_there(&name, &begin)?;
        if !self.request.dry_run && there.is_none() {
            let volume = format!("{pool}/{name}");
            let request = ReceiveInto {
                name: name.clone(),
                begin: begin.clone(),
                attempt: super::super::random_u64(),
                is_resumable: self.request.resumable,
                with_parents: self.request.parents
                    || self.request.below.is_some()
                    || !begin.path.is_empty(),
            };
            let (pool, is_rolled_back) = (&self.pool, self.request.rollback);
            (self.while_served)(&mut |served| {
                // The name counts too: a unit may wait for a volume that does not exist.
                served.refuse_volume(&volume)?;
                if is_rolled_back {
                    roll_back(pool, &request, served)?;
                }
                into = Some(begin_into(pool, request.clone(), served)?);
                Ok(())
            })?;
        }
        self.part = Some(Part {
            name,
            begin,
            into,
            there,
            bytes: 0,
        });
        Ok(())
    }

    /// Returns the snapshot of a part, if the volume already has it. As in zfs, a stream of several
    /// volumes passes over it: an interrupted stream resumes when it is sent again. A stream of one
    /// volume is refused.
    fn already_there(&self, name: &str, begin: &Begin) -> Result<Option<String>, Error> {
        if begin.path.is_empty() {
            return Ok(None);
        }
        let (name, guid) = (name.to_owned(), begin.snapshot);
        let asked = self.pool.host.ask(move |pool| {
            let catalog = pool.catalog();
            let volume = catalog.find_volume(&name).ok()?.id;
            let all = catalog.snapshots(volume);
            let found = all.iter().find(|snapshot| snapshot.guid == guid)?;
            Some(catalog.full_name(found.id))
        });
        asked.map_err(|error| failed(&error))
    }

    fn data(&mut self, block: u64, packed: &Packed) -> Result<(), Error> {
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        part.bytes += u64::from(part.begin.block_size);
        let data = packed.unpack().ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("block {block} of the stream cannot be unpacked"),
                "send the stream again",
            )
        })?;
        let len = data.len();
        self.give(block, 1, Received::Data(data), len)
    }

    fn free(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let block_size = self.part.as_ref().map_or(0, |part| part.begin.block_size);
        let holes = Received::Holes(count.saturating_mul(block_size.into()));
        self.give(first, count, holes, 0)
    }

    /// Gives the pool a change, and waits if the pool has many already.
    fn give(&mut self, block: u64, count: u64, content: Received, len: usize) -> Result<(), Error> {
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        let Some(into) = &mut part.into else {
            return Ok(());
        };
        let request = Request::Receive {
            dataset: into.volume,
            attempt: into.attempt,
            offset: block * u64::from(part.begin.block_size),
            content,
        };
        into.given.push_back(Given {
            answer: self.pool.host.begin(request),
            bytes: len,
            next: block + count,
        });
        into.given_bytes += len;
        into.noted_bytes += len as u64;
        let refused = |error| refused_by_pool(&part.begin, &error);
        while into.given_bytes > WINDOW || into.given.len() > CHANGES {
            into.wait(&self.pool).map_err(refused)?;
        }
        let is_due = into.noted_bytes >= NOTE_BYTES || into.noted_at.elapsed() >= NOTE_AFTER;
        if self.request.resumable && is_due {
            into.note(&self.pool)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(mut part) = self.part.take() else {
            return Ok(());
        };
        if let Some(into) = &mut part.into
            && let Err(error) = finish_part(&self.pool, into, &part.begin)
        {
            self.part = Some(part);
            return Err(error);
        }
        let (pool, name) = (self.pool.host.name(), &part.name);
        let is_changed = part.into.is_some();
        let was_there = part.there.is_some();
        let snapshot = part.there;
        self.done.push(ReceiveView {
            snapshot: snapshot.unwrap_or_else(|| format!("{pool}/{name}@{}", part.begin.name)),
            source: part.begin.source,
            bytes: part.bytes,
            was_there,
        });
        if is_changed {
            self.overrides.set_on(&self.pool, &part.name)?;
        }
        Ok(())
    }

    /// Advises about a part that is kept. The catalogue knows more of its start than the rest of a
    /// rest says.
    fn how_to_go_on(&self, volume: &str, id: DatasetId) -> String {
        let token = self
            .pool
            .host
            .ask(move |pool| pool.catalog().resume_token(id));
        let send = match token {
            Ok(Some(token)) => format!("`sandstone volume send -t {token}`"),
            _ => format!(
                "`sandstone volume send -t` and the token of `sandstone volume get receive_resume_token {volume}`"
            ),
        };
        format!(
            "send the rest with {send} into `sandstone volume receive -s {volume}`, or discard the part with \
             `sandstone volume receive -A {volume}`"
        )
    }

    /// Settles a part without an end. Returns what became of it, and the remedy.
    fn leave(&self, volume: &str, mut into: Target) -> (String, Option<String>) {
        // All blocks up to the first refused change count, and no later ones.
        while !into.given.is_empty() && into.wait(&self.pool).is_ok() {}
        into.given.clear();
        if self.request.resumable {
            // If the position cannot be noted, the last noted position counts.
            let _ = into.note(&self.pool);
            let kept = format!(
                "the received part of {volume} is kept, and stays hidden until the rest has arrived"
            );
            return (kept, Some(self.how_to_go_on(volume, into.volume)));
        }
        let (id, attempt, is_new) = (into.volume, into.attempt, into.is_new);
        let aborted = apply(&self.pool, move |catalog| {
            catalog.plan_abort_receive(id, Some(attempt))
        });
        match aborted {
            Ok(()) if is_new => (format!("nothing of {volume} was kept"), None),
            Ok(()) => (format!("{volume} is as it was before"), None),
            Err(error) => (
                format!("{volume} is not complete: {}", error.message),
                Some(format!("sandstone volume receive -A {volume}")),
            ),
        }
    }
}

impl Target {
    /// Waits for the oldest change.
    fn wait(&mut self, pool: &OpenPool) -> Result<(), PoolError> {
        let Some(given) = self.given.pop_front() else {
            return Ok(());
        };
        self.given_bytes -= given.bytes;
        let answer = given.answer.recv();
        let answer = answer.unwrap_or_else(|_| Err(pool.host.ended()));
        self.has_failed |= answer.is_err();
        if !self.has_failed {
            self.position = given.next;
        }
        answer.map(drop)
    }

    /// Makes the accepted blocks durable, and notes the position in the pool.
    fn note(&mut self, pool: &OpenPool) -> Result<(), Error> {
        let (volume, attempt, position) = (self.volume, self.attempt, self.position);
        if position > self.noted {
            apply(pool, move |catalog| {
                catalog.plan_note_received(volume, attempt, position)
            })?;
        }
        self.noted = position;
        self.noted_bytes = 0;
        self.noted_at = Instant::now();
        Ok(())
    }
}

/// Returns the volume that a part of a stream goes to, without the pool's name.
fn target(local: &str, begin: &Begin, below: Option<Below>) -> String {
    let source = begin.source.split('@').next().unwrap_or_default();
    let path = match below {
        None => begin.path.as_str(),
        Some(Below::Path) => split(source).1,
        Some(Below::Last) => {
            let sent = source.strip_suffix(&begin.path).unwrap_or(source);
            let before = sent.trim_end_matches('/').rfind('/');
            &source[before.map_or(0, |at| at + 1)..]
        }
    };
    match (local, path) {
        (local, "") => local.to_owned(),
        ("", path) => path.to_owned(),
        (local, path) => format!("{local}/{path}"),
    }
}

/// Gives the volume to the stream.
fn begin_into(pool: &OpenPool, request: ReceiveInto, served: &Served) -> Result<Target, Error> {
    let (served, number) = (served.clone(), pool.guid);
    let (attempt, start) = (request.attempt, request.begin.start);
    let found: Arc<Mutex<Option<(DatasetId, bool)>>> = Arc::default();
    let seen = Arc::clone(&found);
    let plan = move |catalog: &Catalog, stamp: Stamp| -> Result<Operation, CatalogError> {
        let operation = catalog.plan_begin_receive(&request, stamp)?;
        served.refuse_operation(number, catalog, &operation)?;
        let volume = match &operation {
            Operation::BeginReceive {
                volume, receiving, ..
            } => Some((*volume, receiving.is_new)),
            Operation::CreateVolume { volume, .. } => Some((volume.dataset.id, true)),
            Operation::Clone { clone, .. } => Some((clone.dataset.id, true)),
            _ => None,
        };
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = volume;
        Ok(operation)
    };
    administer(pool, Box::new(plan))?;
    let volume = *found.lock().unwrap_or_else(PoisonError::into_inner);
    let (volume, is_new) = volume.ok_or_else(|| failed(&pool.host.ended()))?;
    Ok(Target {
        volume,
        is_new,
        attempt,
        given: VecDeque::new(),
        given_bytes: 0,
        position: start,
        has_failed: false,
        noted: start,
        noted_bytes: 0,
        noted_at: Instant::now(),
    })
}

fn finish_part(pool: &OpenPool, into: &mut Target, begin: &Begin) -> Result<(), Error> {
    while !into.given.is_empty() {
        into.wait(pool)
            .map_err(|error| refused_by_pool(begin, &error))?;
    }
    let (volume, attempt, begin) = (into.volume, into.attempt, begin.clone());
    administer(
        pool,
        Box::new(move |catalog, stamp| catalog.plan_end_receive(volume, attempt, &begin, stamp)),
    )
}

/// Rolls the volume back to its newest snapshot, if the stream goes on from that snapshot. Later
/// writes are lost. So this happens only if the stream may begin after that snapshot.
fn roll_back(pool: &OpenPool, request: &ReceiveInto, served: &Served) -> Result<(), Error> {
    let wanted = request.clone();
    let is_needed = pool.host.ask(move |pool| {
        let planned = pool.catalog().plan_rollback_to_receive(&wanted);
        let Some((_, begin)) = planned.map_err(refused)? else {
            return Ok(false);
        };
        // The catalogue does not know the free space.
        let promised = pool.check_promises(std::slice::from_ref(&begin));
        let promised = promised.and_then(|()| pool.check_lists(&begin));
        promised.map(|()| true).map_err(|error| failed(&error))
    });
    if !is_needed.map_err(|error| failed(&error))?? {
        return Ok(());
    }
    let (wanted, served, number) = (request.clone(), served.clone(), pool.guid);
    apply(pool, move |catalog| {
        let planned = catalog.plan_rollback_to_receive(&wanted)?;
        let (rollback, _) = planned.ok_or_else(|| {
            CatalogError::new(
                Refusal::Busy,
                "the volume was changed meanwhile",
                "receive the stream again",
            )
        })?;
        served.refuse_operation(number, catalog, &rollback)?;
        Ok(rollback)
    })
}

fn broken(error: StreamError) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the stream is not complete: {error}"),
        "send it again",
    )
}

fn refused_by_pool(begin: &Begin, error: &PoolError) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("{} cannot be received: {error}", begin.source),
        "see `sandstone pool status`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_keep_as_much_of_their_names_as_is_asked_for() {
        let begin = |source: &str, path: &str| Begin {
            pool: 1,
            volume: 2,
            snapshot: 3,
            from: None,
            origin: None,
            source: source.to_owned(),
            path: path.to_owned(),
            name: "x".to_owned(),
            created_s: 0,
            size: 1 << 20,
            block_size: 4096,
            start: 0,
            properties: None,
        };
        let one = begin("tank/vms/a@x", "");
        assert_eq!(target("copy", &one, None), "copy");
        assert_eq!(target("copy", &one, Some(Below::Path)), "copy/vms/a");
        assert_eq!(target("", &one, Some(Below::Path)), "vms/a");
        assert_eq!(target("copy", &one, Some(Below::Last)), "copy/a");
        // A stream of tank/vms@x with all volumes below.
        let below = begin("tank/vms/a/b@x", "a/b");
        assert_eq!(target("copy", &below, None), "copy/a/b");
        assert_eq!(target("copy", &below, Some(Below::Path)), "copy/vms/a/b");
        assert_eq!(target("copy", &below, Some(Below::Last)), "copy/vms/a/b");
        assert_eq!(target("", &below, Some(Below::Last)), "vms/a/b");
    }
}
