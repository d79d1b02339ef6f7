//! A store of one disk that is a log from its first sector on, with all contents in memory. It is
//! the least that keeps every promise, and it has thirteen ways to break one.
//!
//! A record is a sector of header and the sectors of its data. Its header holds a checksum of both
//! and the checksum of the record before. So a record that an older log left behind is never taken
//! for a continuation.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pages::{Pages, PagesMut};
use sim::disk::{DeviceOp, DeviceOutcome, SECTOR_SIZE, SLICE_SIZE};
use sim::operation::{Admin, BLOCK_SIZE, ChangeKind, Operation, VolumeId};
use sim::subject::{Answer, DiskRequest, Geometry, Outcome, Subject, SubjectState};

/// Bug of the toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Durable changes are answered when they are written, not when they are flushed.
    AcksBeforeFlush,
    /// A flush is believed to cover writes that were in flight when it was asked for.
    FlushCoversInFlight,
    /// The log is applied from its end.
    ReplaysOutOfOrder,
    /// Checksums are not checked.
    TrustsTornRecords,
    /// A failed flush counts as a good one.
    IgnoresFlushErrors,
    /// Records of an older log are taken for a continuation.
    ForgetsTheChain,
    /// Replayed data is served before it is safe.
    ServesBeforeFlush,
    /// A change of several blocks is several records.
    SplitsVolumeBlocks,
    /// A snapshot is another name for its volume.
    SharesSnapshots,
    /// An unmap is done in memory only.
    ForgetsUnmaps,
    /// All is reported to be a hole.
    TellsHolesOnly,
    /// All is reported to have space.
    TellsSpaceOnly,
    /// A torn record is believed impossible.
    PanicsAtTornRecords,
}

const MAGIC: u64 = 0x676f_6c20_796f_7421;
/// Number of sectors read at once when the log is replayed.
const READ_AHEAD: u64 = 16;
const WORDS: usize = 8;

#[derive(Clone, Debug)]
struct Volume {
    bytes: Arc<Vec<u8>>,
    /// Volume whose bytes are read instead, with [`Bug::SharesSnapshots`].
    shared: Option<VolumeId>,
}

impl Volume {
    fn new(blocks: u64) -> Self {
        let bytes = Arc::new(vec![0; blocks as usize * BLOCK_SIZE]);
        let shared = None;
        Self { bytes, shared }
    }
}

/// An answer that waits until the log is safe up to a record.
#[derive(Debug)]
struct Waiting {
    tag: u64,
    record: u64,
}

#[derive(Debug)]
pub(crate) struct Toy {
    bug: Bug,
    volumes: BTreeMap<VolumeId, Volume>,
    state: SubjectState,
    /// Bytes of the log that were read.
    replayed: Vec<u8>,
    changes: Vec<Record>,
    capacity: u64,
    /// Number of the next record, followed by its sector and the checksum of the record before.
    number: u64,
    sector: u64,
    chain: u64,
    /// Records that are written, beyond those before which all are.
    written: Vec<u64>,
    /// Number of records from 0 on that are written, followed by the number that are safe.
    written_below: u64,
    safe_below: u64,
    /// Flush in flight, with the number of records that it makes safe.
    flush: Option<(u64, u64)>,
    /// Write in flight of each record.
    writes: BTreeMap<u64, u64>,
    next_id: u64,
    waiting: Vec<Waiting>,
    failed: Option<String>,
    requests: Vec<DiskRequest>,
    answers: Vec<Answer>,
}

/// A record, apart from its data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    words: [u64; WORDS],
    data: Vec<u8>,
}

const WRITE: u64 = 1;
const ZERO: u64 = 2;
const CREATE: u64 = 3;
const SNAPSHOT: u64 = 4;
const CLONE: u64 = 5;
const ROLLBACK: u64 = 6;
const RESIZE: u64 = 7;
const DESTROY: u64 = 8;
const NOTHING: u64 = 9;

impl Subject for Toy {
    type Setup = Bug;

    fn create(bug: &Bug, geometry: &Geometry, _now_us: u64) -> Self {
        let volumes = geometry.volumes.iter();
        Self {
            bug: *bug,
            volumes: volumes
                .map(|spec| (spec.id, Volume::new(spec.blocks)))
                .collect(),
            state: SubjectState::Open,
            replayed: Vec::new(),
            changes: Vec::new(),
            capacity: geometry.disk_sectors,
            number: 0,
            sector: 0,
            chain: 0,
            written: Vec::new(),
            written_below: 0,
            safe_below: 0,
            flush: None,
            writes: BTreeMap::new(),
            next_id: 0,
            waiting: Vec::new(),
            failed: None,
            requests: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn open(bug: &Bug, geometry: &Geometry, now_us: u64) -> Self {
        let mut toy = Self::create(bug, geometry, now_us);
        toy.state = SubjectState::Opening;
        toy.read_on();
        toy
    }

    fn state(&self) -> SubjectState {
        self.state.clone()
    }

    fn volumes(&self) -> Vec<(VolumeId, u64)> {
        let volumes = self.volumes.iter();
        let blocks = |volume: &Volume| (volume.bytes.len() / BLOCK_SIZE) as u64;
        volumes.map(|(id, volume)| (*id, blocks(volume))).collect()
    }

    fn submit(&mut self, tag: u64, operation: &Operation, data: Pages, _now_us: u64) {
        if let Operation::Read { volume, slices } = operation {
            let source = self.volumes[volume].shared.unwrap_or(*volume);
            let bytes = self.volumes.get(&source).map(|source| &source.bytes);
            let bytes = bytes.unwrap_or(&self.volumes[volume].bytes);
            let range = slices.start as usize * SLICE_SIZE..slices.end as usize * SLICE_SIZE;
            let outcome = Ok(Outcome::Data(Pages::from_bytes(&bytes[range])));
            return self.answers.push(Answer { tag, outcome });
        }
        if let Operation::Extents { volume, slices } = operation {
            let outcome = Ok(Outcome::Extents(self.extents(*volume, slices.clone())));
            return self.answers.push(Answer { tag, outcome });
        }
        if let Some(why) = self.failed.clone() {
            return self.answer(tag, Err(why));
        }
        match operation {
            Operation::Change {
                volume,
                slices,
                kind,
                durable,
            } => {
                let (kind, forgotten) = match kind {
                    ChangeKind::Write => (WRITE, false),
                    ChangeKind::Zero => (ZERO, false),
                    ChangeKind::Unmap => (ZERO, self.bug == Bug::ForgetsUnmaps),
                };
                let mut parts = vec![slices.clone()];
                if self.bug == Bug::SplitsVolumeBlocks {
                    parts = slices.clone().map(|slice| slice..slice + 1).collect();
                }
                for part in parts {
                    let bytes = (part.start - slices.start) as usize * SLICE_SIZE
                        ..(part.end - slices.start) as usize * SLICE_SIZE;
                    let data = match kind {
                        WRITE => data.slice(bytes).to_vec(),
                        _ => Vec::new(),
                    };
                    let arguments = [kind, u64::from(volume.0), part.start, part.end];
                    let record = Record::new(arguments, data);
                    self.apply(&record);
                    if !forgotten && !self.append(record) {
                        return self.answer(tag, Err("the log is full".into()));
                    }
                }
                match *durable && !forgotten {
                    true => self.wait(tag),
                    false => self.answer(tag, Ok(())),
                }
            }
            Operation::Flush { .. } => self.wait(tag),
            Operation::Admin(admin) => {
                for record in Record::of_admin(admin) {
                    self.apply(&record);
                    if !self.append(record) {
                        return self.answer(tag, Err("the log is full".into()));
                    }
                }
                self.wait(tag);
            }
            Operation::Read { .. } | Operation::Extents { .. } => {}
        }
        self.go_on();
    }

    fn completed(&mut self, _disk: usize, id: u64, outcome: DeviceOutcome, _now_us: u64) {
        if self.state == SubjectState::Opening {
            return self.opening_completed(id, outcome);
        }
        let is_flush = self.flush.is_some_and(|(flush, _)| flush == id);
        match outcome {
            Err(error) if !(is_flush && self.bug == Bug::IgnoresFlushErrors) => {
                self.failed = Some(error.context.clone());
                for Waiting { tag, .. } in std::mem::take(&mut self.waiting) {
                    self.answer(tag, Err(error.context.clone()));
                }
            }
            _ => {}
        }
        if self.failed.is_some() {
            return;
        }
        if is_flush {
            let (_, below) = self.flush.take().expect("it is in flight");
            self.safe_below = self.safe_below.max(below);
        } else if let Some(record) = self.writes.remove(&id) {
            self.written.push(record);
            while let Some(at) = self.written.iter().position(|at| *at == self.written_below) {
                self.written.swap_remove(at);
                self.written_below += 1;
            }
        }
        self.go_on();
    }

    fn next_tick_us(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, _now_us: u64) {}

    fn take_requests(&mut self, out: &mut Vec<DiskRequest>) {
        out.append(&mut self.requests);
    }

    fn take_answers(&mut self, out: &mut Vec<Answer>) {
        out.append(&mut self.answers);
    }
}

impl Toy {
    /// Returns the extents: slices that are not zeros have space.
    fn extents(&self, volume: VolumeId, slices: Range<u64>) -> Vec<(u64, bool)> {
        let bytes = &self.volumes[&volume].bytes;
        let range = slices.start as usize * SLICE_SIZE..slices.end as usize * SLICE_SIZE;
        let told = bytes[range].chunks(SLICE_SIZE).map(|slice| {
            let has_space = slice.iter().any(|byte| *byte != 0);
            match self.bug {
                Bug::TellsHolesOnly => false,
                Bug::TellsSpaceOnly => true,
                _ => has_space,
            }
        });
        told.map(|has_space| (SLICE_SIZE as u64, has_space))
            .collect()
    }

    fn answer(&mut self, tag: u64, outcome: Result<(), String>) {
        let outcome = outcome.map(|()| Outcome::Done);
        self.answers.push(Answer { tag, outcome });
    }

    fn request(&mut self, op: DeviceOp) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.requests.push(DiskRequest { disk: 0, id, op });
        id
    }

    fn wait(&mut self, tag: u64) {
        let record = self.number;
        self.waiting.push(Waiting { tag, record });
    }

    fn append(&mut self, mut record: Record) -> bool {
        let (bytes, checksum) = record.encode(self.number, self.chain);
        let sectors = (bytes.len() / SECTOR_SIZE) as u64;
        if self.sector + sectors > self.capacity {
            return false;
        }
        let offset = self.sector * SECTOR_SIZE as u64;
        let id = self.request(DeviceOp::Write {
            offset,
            data: bytes,
            durable: false,
        });
        self.writes.insert(id, self.number);
        self.chain = checksum;
        self.number += 1;
        self.sector += sectors;
        true
    }

    /// Answers operations that may be answered, and asks for a flush if an operation waits for one.
    fn go_on(&mut self) {
        let safe = match self.bug {
            Bug::AcksBeforeFlush => self.written_below,
            _ => self.safe_below,
        };
        let (ready, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.record <= safe);
        self.waiting = waiting;
        let ready: Vec<Waiting> = ready;
        for Waiting { tag, .. } in ready {
            self.answer(tag, Ok(()));
        }
        let first = self.waiting.iter().map(|waiting| waiting.record).min();
        let covered = match self.bug {
            Bug::FlushCoversInFlight => self.number,
            _ => self.written_below,
        };
        if self.flush.is_none() && first.is_some_and(|first| first <= covered) {
            let id = self.request(DeviceOp::Flush);
            self.flush = Some((id, covered));
        }
    }

    fn read_on(&mut self) {
        let sector = (self.replayed.len() / SECTOR_SIZE) as u64;
        let sectors = READ_AHEAD.min(self.capacity - sector);
        self.request(DeviceOp::Read {
            offset: sector * SECTOR_SIZE as u64,
            len: sectors as u32 * SECTOR_SIZE as u32,
        });
    }

    fn opening_completed(&mut self, id: u64, outcome: DeviceOutcome) {
        let data = match outcome {
            Ok(data) => data,
            Err(error) => {
                self.state = SubjectState::Refused(error.context);
                return;
            }
        };
        if self.flush.take_if(|(flush, _)| *flush == id).is_some() {
            self.state = SubjectState::Open;
            return;
        }
        self.replayed.extend_from_slice(&data.to_vec());
        while let Some((record, checksum, sectors)) = self.next_record() {
            self.changes.push(record);
            self.chain = checksum;
            self.number += 1;
            self.sector += sectors;
        }
        let is_whole = self.replayed.len() as u64 == self.capacity * SECTOR_SIZE as u64;
        if self.record_may_go_on() && !is_whole {
            return self.read_on();
        }
        let mut changes = std::mem::take(&mut self.changes);
        if self.bug == Bug::ReplaysOutOfOrder {
            changes.reverse();
        }
        changes.iter().for_each(|record| self.apply(record));
        (self.written_below, self.safe_below) = (self.number, self.number);
        if self.bug == Bug::ServesBeforeFlush {
            self.state = SubjectState::Open;
        } else {
            self.flush = Some((self.request(DeviceOp::Flush), self.number));
        }
    }

    /// Reports whether the bytes that were read end within a record, or right before one.
    fn record_may_go_on(&self) -> bool {
        let at = self.sector as usize * SECTOR_SIZE;
        match self.replayed.get(at..at + SECTOR_SIZE) {
            None => true,
            Some(header) => {
                let [magic, number, _, _, _, _, start, end] = first_words(header);
                let is_next = magic == MAGIC && number == self.number;
                let sectors = 1 + (end.saturating_sub(start) * 512).div_ceil(4096) as usize;
                is_next && sectors < 4096 && at + sectors * SECTOR_SIZE > self.replayed.len()
            }
        }
    }

    fn next_record(&self) -> Option<(Record, u64, u64)> {
        let at = self.sector as usize * SECTOR_SIZE;
        let header = self.replayed.get(at..at + SECTOR_SIZE)?;
        let words = first_words(header);
        let [magic, number, chain, checksum, kind, _, start, end] = words;
        let is_chained = chain == self.chain || self.bug == Bug::ForgetsTheChain;
        if magic != MAGIC || number != self.number {
            return None;
        }
        let mut len = 0;
        if kind == WRITE {
            len = (end.checked_sub(start)? as usize).min(1 << 16) * SLICE_SIZE;
        }
        let data = self.replayed.get(at + SECTOR_SIZE..)?.get(..len)?.to_vec();
        let mut record = Record { words, data };
        record.words[3] = 0;
        let is_whole = checksum == record.checksum() && is_chained;
        let is_possible = is_whole || self.bug != Bug::PanicsAtTornRecords;
        assert!(is_possible, "record {number} is torn");
        if !is_whole && self.bug != Bug::TrustsTornRecords {
            return None;
        }
        let sectors = 1 + len.div_ceil(SECTOR_SIZE) as u64;
        Some((record, checksum, sectors))
    }

    fn bytes_of(&mut self, volume: u64) -> Option<&mut Vec<u8>> {
        let volume = self.volumes.get_mut(&VolumeId(volume as u32))?;
        Some(Arc::make_mut(&mut volume.bytes))
    }

    fn apply(&mut self, record: &Record) {
        let [_, _, _, _, kind, volume, one, two] = record.words;
        let id = VolumeId(volume as u32);
        let range = one as usize * SLICE_SIZE..two as usize * SLICE_SIZE;
        match kind {
            WRITE | ZERO => {
                let target = self.bytes_of(volume).and_then(|bytes| bytes.get_mut(range));
                match target {
                    Some(target) if kind == WRITE => target.copy_from_slice(&record.data),
                    Some(target) => target.fill(0),
                    None => {}
                }
            }
            CREATE => drop(self.volumes.insert(id, Volume::new(one))),
            // The words are the number of the new volume, and the volume of which it is made.
            SNAPSHOT | CLONE => {
                if let Some(mut made) = self.volumes.get(&VolumeId(one as u32)).cloned() {
                    let shares = kind == SNAPSHOT && self.bug == Bug::SharesSnapshots;
                    made.shared = shares.then_some(VolumeId(one as u32));
                    self.volumes.insert(id, made);
                }
            }
            ROLLBACK => {
                if let Some(snapshot) = self.volumes.get(&VolumeId(one as u32)).cloned() {
                    self.volumes.insert(
                        id,
                        Volume {
                            shared: None,
                            ..snapshot
                        },
                    );
                }
            }
            RESIZE => {
                if let Some(bytes) = self.bytes_of(volume) {
                    bytes.resize(one as usize * BLOCK_SIZE, 0);
                }
            }
            DESTROY => drop(self.volumes.remove(&id)),
            _ => {}
        }
    }
}

impl Record {
    fn new([kind, volume, one, two]: [u64; 4], data: Vec<u8>) -> Self {
        let words = [MAGIC, 0, 0, 0, kind, volume, one, two];
        Self { words, data }
    }

    fn of_admin(admin: &Admin) -> Vec<Self> {
        let record = |kind, volume: VolumeId, one: u64| {
            Self::new([kind, u64::from(volume.0), one, 0], Vec::new())
        };
        let of = |volume: &VolumeId| u64::from(volume.0);
        match admin {
            Admin::Create { volume, blocks } => vec![record(CREATE, *volume, *blocks)],
            Admin::Snapshot { of: group } => {
                let taken = group.iter();
                taken
                    .map(|(volume, snapshot)| record(SNAPSHOT, *snapshot, of(volume)))
                    .collect()
            }
            Admin::Clone { snapshot, volume } => vec![record(CLONE, *volume, of(snapshot))],
            Admin::Rollback { volume, snapshot } => vec![record(ROLLBACK, *volume, of(snapshot))],
            Admin::Resize { volume, blocks } => vec![record(RESIZE, *volume, *blocks)],
            Admin::Destroy { volume } => vec![record(DESTROY, *volume, 0)],
            Admin::DestroyAll { volumes, .. } => {
                let volumes = volumes.iter();
                volumes.map(|of| record(DESTROY, *of, 0)).collect()
            }
            Admin::Promote { .. }
            | Admin::Rename { .. }
            | Admin::SetProperty { .. }
            | Admin::Reserve { .. }
            | Admin::Checkpoint
            | Admin::Scrub
            | Admin::Reshape(_) => {
                vec![record(NOTHING, VolumeId(0), 0)]
            }
        }
    }

    /// Encodes a record as it lies on the disk. Returns it with its checksum.
    fn encode(&mut self, number: u64, chain: u64) -> (Pages, u64) {
        (self.words[1], self.words[2], self.words[3]) = (number, chain, 0);
        let checksum = self.checksum();
        self.words[3] = checksum;
        let len = SECTOR_SIZE + self.data.len().next_multiple_of(SECTOR_SIZE);
        let mut buffer = PagesMut::allocate(len);
        buffer.copy_from(0, &self.words.map(u64::to_le_bytes).concat());
        buffer.copy_from(SECTOR_SIZE, &self.data);
        (buffer.freeze(), checksum)
    }

    fn checksum(&self) -> u64 {
        let data = self.data.chunks_exact(8).map(first_word);
        let mix =
            |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.words.into_iter().chain(data).fold(1, mix)
    }
}

fn first_word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"))
}

fn first_words(header: &[u8]) -> [u64; WORDS] {
    std::array::from_fn(|at| first_word(&header[at * 8..]))
}
