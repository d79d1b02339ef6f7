//! Salvage of a volume with lost blocks: copies all readable data, and reports exactly what is
//! lost.
//!
//! A volume is read from its beginning to its end. If a block cannot be read, it is left out and
//! reported. If a node of the map cannot be read, all blocks that it may lead to are left out. The
//! source is only read. The copy goes to the requester piece by piece, or into a new volume of any
//! pool.
//!
//! On the wire, a piece is its kind (1 byte), then its start and length (8 bytes each, least
//! significant byte first). The bytes of a [`PieceKind::Data`] piece follow, unless they went into
//! a volume.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use store::engine::{Answer, PoolError, PoolErrorKind, Request};
use store::format::DatasetId;
use store::pages::Pages;

use crate::Pools;
use crate::dataset::{failed, refused};
use crate::registry::OpenPool;
use model::Error;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::{require_whole, split};
use model::pool::salvage::{Piece, PieceKind, SalvageRequest};

/// Bytes that are read at once.
const STEP: u64 = 1 << 20;

/// Volume that is to be salvaged.
#[derive(Debug)]
pub struct Salvage {
    pool: Arc<OpenPool>,
    dataset: DatasetId,
    size: u64,
    block_size: u64,
    /// New volume that receives the copy.
    to: Option<(Arc<OpenPool>, DatasetId)>,
}

/// Receiver of the pieces.
type Sink<'a> = dyn FnMut(Vec<u8>) -> Result<(), Error> + 'a;

impl Pools {
    /// Finds the volume, and creates the new volume if the request names one.
    ///
    /// # Errors
    /// A name means nothing, or the new volume cannot be created.
    pub fn salvage(&self, request: &SalvageRequest) -> Result<Salvage, Error> {
        require_whole(&request.name)?;
        let (pool, dataset) = self.find_dataset(&request.name)?;
        let geometry = pool
            .host
            .ask(move |pool| pool.catalog().dataset(dataset).and_then(|of| of.geometry()));
        let geometry = geometry.map_err(|error| failed(&error))?;
        let (size, block_size) = geometry.ok_or_else(|| {
            let message = format!("{} is a folder and has no bytes of its own", request.name);
            Error::invalid(message, "name one of the volumes in it")
        })?;
        let to = request.to.as_ref().map(|name| {
            self.change(&DatasetChange::Create {
                name: name.clone(),
                size: Some(size),
                block_size: Some(block_size),
                sparse: true,
                parents: false,
                properties: BTreeMap::new(),
            })?;
            self.find_dataset(name)
        });
        Ok(Salvage {
            pool,
            dataset,
            size,
            block_size: block_size.into(),
            to: to.transpose()?,
        })
    }

    fn find_dataset(&self, name: &str) -> Result<(Arc<OpenPool>, DatasetId), Error> {
        let (pool, wanted) = split(name);
        let (pool, wanted) = (self.get(pool)?, wanted.to_owned());
        let found = pool
            .host
            .ask(move |pool| pool.catalog().find(&wanted).map(|of| of.id));
        let found = found.map_err(|error| failed(&error))?.map_err(refused)?;
        Ok((pool, found))
    }
}

impl Salvage {
    /// Copies all readable data, in pieces, to `sink`, which may take its time.
    ///
    /// # Errors
    /// The error of `sink`. Any other end is reported in the last piece.
    pub fn run(self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let whole = |kind| Piece {
            kind,
            offset: 0,
            len: self.size,
        };
        sink(whole(PieceKind::Size).encode())?;
        let mut at = 0;
        while at < self.size {
            at = match self.step(at, sink) {
                Ok(next) => next,
                Err(Stop::Sink(error)) => return Err(error),
                Err(Stop::Pool(error)) => {
                    let text = error.to_string().into_bytes();
                    let last = Piece {
                        kind: PieceKind::Failed,
                        offset: at,
                        len: text.len() as u64,
                    };
                    return sink([last.encode(), text].concat());
                }
            };
        }
        if let Some((pool, dataset)) = &self.to {
            let flush = Request::Flush { dataset: *dataset };
            if let Err(error) = ask(pool, flush) {
                return Err(failed(&error));
            }
        }
        sink(whole(PieceKind::End).encode())
    }

    /// Goes on at a place, and returns the start of the next step.
    fn step(&self, at: u64, sink: &mut Sink<'_>) -> Result<u64, Stop> {
        let runs = ask(
            &self.pool,
            Request::Extents {
                dataset: self.dataset,
                offset: at,
                len: self.size - at,
            },
        );
        match runs {
            Ok(Answer::Extents(runs)) => match runs.first() {
                Some((len, false)) => {
                    let piece = Piece {
                        kind: PieceKind::Hole,
                        offset: at,
                        len: *len,
                    };
                    sink(piece.encode()).map_err(Stop::Sink)?;
                    Ok(at + len)
                }
                Some((len, true)) => self.copy(at..at + (*len).min(STEP), sink),
                None => Ok(self.size),
            },
            Ok(_) => Err(Stop::Pool(self.pool.host.ended())),
            // If nodes do not tell, reading does.
            Err(error) if is_lost(&error) => {
                self.copy(at..self.size.min(at + self.block_size), sink)
            }
            Err(error) => Err(Stop::Pool(error)),
        }
    }

    /// Copies a range up to the first unreadable byte, and returns the start of the next step.
    fn copy(&self, range: Range<u64>, sink: &mut Sink<'_>) -> Result<u64, Stop> {
        let read = Request::Read {
            dataset: self.dataset,
            offset: range.start,
            len: (range.end - range.start) as u32,
        };
        let error = match ask(&self.pool, read) {
            Ok(Answer::Data(data)) => {
                self.put(range.start, data, sink)?;
                return Ok(range.end);
            }
            Ok(_) => return Err(Stop::Pool(self.pool.host.ended())),
            Err(error) if is_lost(&error) => error,
            Err(error) => return Err(Stop::Pool(error)),
        };
        let first = range.start - range.start % self.block_size;
        let of_blocks = |blocks: Range<u64>| {
            let at = |block: u64| block.saturating_mul(self.block_size).min(self.size);
            at(blocks.start)..at(blocks.end)
        };
        let lost = error.lost.map(of_blocks);
        let lost = lost.filter(|lost| lost.start < range.end && lost.end > range.start);
        let lost = lost.unwrap_or(first..(first + self.block_size).min(self.size));
        if lost.start > range.start {
            return self.copy(range.start..lost.start, sink);
        }
        let piece = Piece {
            kind: PieceKind::Lost,
            offset: range.start,
            len: lost.end - range.start,
        };
        sink(piece.encode()).map_err(Stop::Sink)?;
        Ok(lost.end)
    }

    /// Writes bytes to the copy.
    fn put(&self, offset: u64, data: Pages, sink: &mut Sink<'_>) -> Result<(), Stop> {
        let piece = Piece {
            kind: PieceKind::Data,
            offset,
            len: data.len() as u64,
        };
        let mut bytes = piece.encode();
        match &self.to {
            None => bytes.extend_from_slice(&data.to_vec()),
            Some((pool, dataset)) => {
                let write = Request::Write {
                    dataset: *dataset,
                    offset,
                    data,
                    durable: false,
                };
                ask(pool, write).map_err(Stop::Pool)?;
            }
        }
        sink(bytes).map_err(Stop::Sink)
    }
}

/// Reason why the salvage cannot go on.
enum Stop {
    Sink(Error),
    Pool(PoolError),
}

/// Reports whether this block cannot be read, while others may be readable.
fn is_lost(error: &PoolError) -> bool {
    matches!(error.kind, PoolErrorKind::Damaged | PoolErrorKind::Device)
}

fn ask(pool: &OpenPool, request: Request) -> Result<Answer, PoolError> {
    let answer = pool.host.begin(request).recv();
    answer.unwrap_or_else(|_| Err(pool.host.ended()))
}
