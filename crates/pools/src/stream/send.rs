//! Reading a stream from a pool. Meanwhile its snapshots are held, so that nobody destroys them.
//! Memory holds a window of blocks, and the taker of the stream sets the pace.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use store::catalog::Operation;
use store::engine::{Answer, PoolError, PoolErrorKind, Request, WantedChanges};
use store::format::{DatasetId, SECTOR_SIZE};
use store::map::Change;
use store::stream::{Encoder, HEADER, ResumeToken};

use super::package::{self, Part};
use super::{HOLD, ask, release};
use crate::Pools;
use crate::dataset::{administer, failed, refused};
use crate::registry::OpenPool;
use model::pool::dataset::name::{require_whole, split};
use model::pool::stream::{PartView, SendRequest};
use model::{Error, ErrorKind};

/// Number of blocks that are read ahead.
const WINDOW: usize = 64;
/// Least number of bytes that are handed out at once.
const PIECE: usize = 256 << 10;

/// Stream that is to be sent. Its snapshots are held while this exists.
#[derive(Debug)]
pub struct Sender {
    pool: Arc<OpenPool>,
    parts: Vec<Part>,
    held: Vec<DatasetId>,
    tag: String,
}

/// Block that is read, or run of holes, in the order of the stream.
enum Next {
    Block(u64, Receiver<Result<Answer, PoolError>>),
    Holes(u64, u64),
}

impl Pools {
    /// Returns a sender of the requested stream, and holds its snapshots from now on.
    ///
    /// # Errors
    /// A name means nothing, or the pool is not open.
    pub fn sender(&self, request: &SendRequest) -> Result<Sender, Error> {
        let (pool, parts) = match &request.token {
            Some(token) => self.rest(token)?,
            None => {
                let names = [Some(&request.snapshot), request.from.as_ref()];
                (names.into_iter().flatten()).try_for_each(|name| require_whole(name))?;
                let pool = self.get(split(&request.snapshot).0)?;
                let (guid, request) = (pool.guid, request.clone());
                let asked = pool
                    .host
                    .ask(move |pool| package::parts(pool.catalog(), guid, &request));
                let parts = asked.map_err(|error| failed(&error))?.map_err(refused)?;
                (pool, parts)
            }
        };
        Sender::new(pool, parts)
    }

    /// Returns the pool and the parts that an interrupted receive still needs, from any pool that
    /// has them.
    fn rest(&self, token: &str) -> Result<(Arc<OpenPool>, Vec<Part>), Error> {
        let next =
            "take the token from `sandstone volume get receive_resume_token` of the receiving side";
        let token: ResumeToken = token
            .parse()
            .map_err(|error: String| Error::invalid(error, next))?;
        let mut refusal = None;
        for (_, pool) in self.all() {
            let guid = pool.guid;
            let asked = pool
                .host
                .ask(move |pool| package::rest(pool.catalog(), guid, &token));
            match asked {
                Ok(Ok(part)) => return Ok((pool, vec![part])),
                Ok(Err(error)) => refusal = Some(refused(error)),
                Err(error) => refusal = Some(failed(&error)),
            }
        }
        Err(refusal.unwrap_or_else(|| Error::not_found("no pool is open", next)))
    }
}

impl Sender {
    fn new(pool: Arc<OpenPool>, parts: Vec<Part>) -> Result<Self, Error> {
        let mut held: Vec<DatasetId> = parts
            .iter()
            .flat_map(|part| [Some(part.snapshot), part.from])
            .flatten()
            .collect();
        held.sort_unstable();
        held.dedup();
        let tag = format!("{HOLD}{:016x}", super::super::random_u64());
        if pool.host.is_read_only() {
            // From now on nobody can destroy them.
            return Ok(Self {
                pool,
                parts,
                held: Vec::new(),
                tag,
            });
        }
        let (snapshots, wanted) = (held.clone(), tag.clone());
        administer(
            &pool,
            Box::new(move |_, stamp| {
                Ok(Operation::Hold {
                    snapshots,
                    tag: wanted,
                    time_s: stamp.time_s,
                })
            }),
        )?;
        Ok(Self {
            pool,
            parts,
            held,
            tag,
        })
    }

    /// Returns the parts that the stream will carry, and their approximate bytes.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub fn estimate(&self) -> Result<Vec<PartView>, Error> {
        let estimate = |part: &Part| {
            let mut bytes = 0;
            self.walk(part, |change| {
                bytes += HEADER as u64;
                if let Change::Block { pointer, .. } = change {
                    bytes += u64::from(pointer.sectors) * SECTOR_SIZE as u64;
                }
                Ok(())
            })?;
            Ok(PartView {
                snapshot: part.begin.source.clone(),
                from: part.from_name.clone(),
                left_out: part.begin.left_out().map(str::to_owned),
                bytes,
            })
        };
        let all: Result<Vec<_>, PoolError> = self.parts.iter().map(estimate).collect();
        all.map_err(|error| failed(&error))
    }

    /// Sends the whole stream, in pieces, to `sink`, which may take its time.
    ///
    /// # Errors
    /// The pool cannot be read, which the stream says too, or `sink` fails.
    pub fn run(self, sink: &mut dyn FnMut(Vec<u8>) -> Result<(), Error>) -> Result<(), Error> {
        let mut encoder = Encoder::new();
        for part in &self.parts {
            if let Err(error) = self.send(part, &mut encoder, sink) {
                encoder.fail(&error.message);
                // A receiver that fails does not take the reason either.
                let _ = sink(encoder.take());
                return Err(error);
            }
        }
        encoder.close();
        sink(encoder.take())
    }

    fn send(
        &self,
        part: &Part,
        encoder: &mut Encoder,
        sink: &mut dyn FnMut(Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !encoder.begin(&part.begin) {
            return Err(Error::invalid(
                format!(
                    "the properties of {} are too long for a stream",
                    part.begin.source
                ),
                "send it without -p",
            ));
        }
        let mut coming: VecDeque<Next> = VecDeque::new();
        let mut stopped = None;
        let host = &self.pool.host;
        let mut deliver = |next: Next| -> Result<(), PoolError> {
            match next {
                Next::Holes(first, count) => encoder.free(first, count),
                Next::Block(block, answer) => {
                    match answer.recv().unwrap_or_else(|_| Err(host.ended()))? {
                        Answer::Stored(stored) => {
                            encoder.data(block, stored.compression, &stored.payload);
                        }
                        _ => return Err(host.ended()),
                    }
                }
            }
            if encoder.len() >= PIECE
                && let Err(error) = sink(encoder.take())
            {
                let context = error.message.clone();
                stopped = Some(error);
                return Err(PoolError::new(PoolErrorKind::Suspended, context));
            }
            Ok(())
        };
        let dataset = part.snapshot;
        let walked = self.walk(part, |change| {
            coming.push_back(match change {
                Change::Holes(range) => Next::Holes(range.start, range.end - range.start),
                Change::Block { index, .. } => {
                    let block = index;
                    Next::Block(block, host.begin(Request::Stored { dataset, block }))
                }
            });
            match coming.len() {
                WINDOW.. => coming.pop_front().map_or(Ok(()), &mut deliver),
                _ => Ok(()),
            }
        });
        let walked = walked.and_then(|()| coming.into_iter().try_for_each(&mut deliver));
        if let Err(error) = walked {
            return Err(stopped.unwrap_or_else(|| unreadable(&part.begin.source, &error)));
        }
        encoder.end();
        Ok(())
    }

    /// Visits all blocks and holes of a part.
    fn walk(
        &self,
        part: &Part,
        mut visit: impl FnMut(Change) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        let mut start = part.begin.start;
        loop {
            let wanted = WantedChanges {
                from: part.from,
                to: part.snapshot,
                start,
            };
            let Answer::Changes(found) = ask(&self.pool.host, Request::Changes(wanted))? else {
                return Err(self.pool.host.ended());
            };
            found.changes.into_iter().try_for_each(&mut visit)?;
            match found.next {
                Some(next) => start = next,
                None => return Ok(()),
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        release(&self.pool, std::mem::take(&mut self.held), &self.tag);
    }
}

fn unreadable(source: &str, error: &PoolError) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("{source} cannot be sent: {error}"),
        "see `sandstone pool status -v`; the data that was sent so far is not a complete stream",
    )
}
