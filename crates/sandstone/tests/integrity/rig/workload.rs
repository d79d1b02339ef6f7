//! Random commands from several sessions to several logical units; the model judges each answer.

use std::collections::HashMap;
use std::ops::Range;

use super::content::{self, Value};
use super::model::{Crash, End, Model};
use super::random::Random;
use super::session::{Ended, PipelinedSession, wait_for_traffic};

/// Largest number of commands under way in one session.
const DEPTH: usize = 12;
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const UNIT_ATTENTION: u8 = 0x06;
const MISCOMPARE: (u8, u8) = (0x1d, 0x00);
const FUA: u8 = 0x08;

/// Logical unit under test.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) lun: u8,
    pub(crate) block_len: usize,
    /// Whether the unit has a write cache. If it has, only FUA and SYNCHRONIZE CACHE make data
    /// durable.
    pub(crate) write_cache: bool,
    pub(crate) model: Model,
}

#[derive(Debug)]
enum OperationKind {
    Read,
    /// Command that replaces blocks: WRITE, WRITE SAME, UNMAP.
    Write {
        durable: bool,
    },
    CompareAndWrite {
        durable: bool,
        expected: Vec<Value>,
    },
    SynchronizeCache,
}

#[derive(Debug)]
struct Operation {
    session: usize,
    unit: usize,
    kind: OperationKind,
}

type PowerSwitch = Box<dyn Fn() -> bool>;

/// Sessions, units, and commands under way.
pub(crate) struct Workload {
    seed: u64,
    pub(crate) random: Random,
    pub(crate) sessions: Vec<PipelinedSession>,
    pub(crate) units: Vec<Unit>,
    under_way: HashMap<u64, Operation>,
    last_operation: u64,
    /// Ranges of WRITE SAME operations: their blocks name the whole range.
    repeated: HashMap<u64, Range<u64>>,
    /// Whether commands may fail now.
    power_is_off: PowerSwitch,
    /// Whether commands may end with a unit attention.
    attentions: bool,
    /// Number of commands that ended, by status: a run in which nothing happens proves nothing.
    pub(crate) ended: HashMap<&'static str, u64>,
}

impl Workload {
    pub(crate) fn new(seed: u64, sessions: Vec<PipelinedSession>, units: Vec<Unit>) -> Self {
        Self {
            seed,
            random: Random::new(seed),
            sessions,
            units,
            under_way: HashMap::new(),
            last_operation: 0,
            repeated: HashMap::new(),
            power_is_off: Box::new(|| false),
            attentions: false,
            ended: HashMap::new(),
        }
    }

    /// Logs in every session that has no connection. Its commands under way will not happen any
    /// more.
    pub(crate) fn connect_all(&mut self) {
        for session in 0..self.sessions.len() {
            if !self.sessions[session].is_connected() {
                self.connect(session);
            }
        }
    }

    fn connect(&mut self, session: usize) {
        self.sessions[session].log_in();
        self.settle_unanswered(session);
        for unit in 0..self.units.len() {
            self.sessions[session].wait_until_ready(self.units[unit].lun);
        }
    }

    fn settle_unanswered(&mut self, session: usize) {
        let mut unanswered: Vec<u64> = Vec::new();
        self.under_way.retain(|number, operation| {
            if operation.session == session {
                unanswered.push(*number);
            }
            operation.session != session
        });
        // The order does not matter to the model, but a seed must mean one run.
        unanswered.sort_unstable();
        for number in unanswered {
            *self.ended.entry("unanswered").or_default() += 1;
            for unit in &mut self.units {
                unit.model.unanswered(number);
            }
        }
    }

    /// Runs this number of random commands, with cuts of connections in between if `cuts` says so.
    pub(crate) fn run(&mut self, commands: usize, cuts: bool) {
        for _ in 0..commands {
            if cuts && self.random.chance(2) {
                let victim = self.random.within(0..self.sessions.len() as u64) as usize;
                self.sessions[victim].cut();
            }
            let session = self.random.within(0..self.sessions.len() as u64) as usize;
            if !self.sessions[session].is_connected() {
                self.connect(session);
            }
            while self.under_way_in(session) >= DEPTH {
                self.wait_for_some();
            }
            self.start_command(session);
            self.take_ended();
        }
    }

    /// Runs this number of random commands, or fewer: until the power is off. Commands fail when it
    /// goes.
    pub(crate) fn run_until(&mut self, commands: usize, power_is_off: impl Fn() -> bool + 'static) {
        self.power_is_off = Box::new(power_is_off);
        for _ in 0..commands {
            if (self.power_is_off)() {
                break;
            }
            self.run(1, false);
        }
        self.power_is_off = Box::new(|| false);
    }

    /// Allows commands to end with the news of a change from now on, and not to be carried out
    /// then.
    pub(crate) fn expect_unit_attentions(&mut self) {
        self.attentions = true;
    }

    /// Ends all connections; nothing is under way.
    pub(crate) fn disconnect_all(&mut self) {
        assert!(self.under_way.is_empty());
        self.sessions.iter_mut().for_each(PipelinedSession::cut);
    }

    fn under_way_in(&self, session: usize) -> usize {
        let operations = self.under_way.values();
        operations
            .filter(|operation| operation.session == session)
            .count()
    }

    /// Waits until everything has ended.
    pub(crate) fn drain(&mut self) {
        self.connect_all();
        while !self.under_way.is_empty() {
            self.wait_for_some();
        }
    }

    fn wait_for_some(&mut self) {
        let before = self.under_way.len();
        self.take_ended();
        if self.under_way.len() == before {
            wait_for_traffic(&self.sessions);
            self.take_ended();
        }
    }

    fn take_ended(&mut self) {
        let mut ended = Vec::new();
        for session in &mut self.sessions {
            session
                .pump(&mut ended)
                .expect("only the test cuts connections");
        }
        for ended in ended {
            self.end(&ended);
        }
    }

    /// Gives up everything that is under way: the target is gone. `crash` returns the loss of each
    /// unit.
    pub(crate) fn crash(&mut self, crash: impl Fn(&Unit) -> Crash) {
        self.sessions.iter_mut().for_each(PipelinedSession::cut);
        *self.ended.entry("unanswered").or_default() += self.under_way.len() as u64;
        self.under_way.clear();
        for unit in &mut self.units {
            let crash = crash(unit);
            unit.model.crash(crash);
        }
    }

    /// Reads every unit whole and compares it with its model. Nothing may be under way.
    pub(crate) fn verify(&mut self) {
        assert!(self.under_way.is_empty());
        for unit in 0..self.units.len() {
            let Unit { lun, block_len, .. } = self.units[unit];
            let blocks = self.units[unit].model.len();
            let length = blocks as usize * block_len;
            let cdb = cdb16(0x88, 0, 0..blocks);
            let ended = self.sessions[0].run(lun, cdb, length, Vec::new());
            assert_eq!(ended.status, GOOD, "{:02x?}", ended.sense);
            let found = self.parse(unit, 0, &ended.data_in);
            let settled = self.units[unit].model.settle(&found);
            settled.unwrap_or_else(|wrong| panic!("unit {unit}: {wrong}"));
        }
    }

    fn parse(&self, unit: usize, start: u64, bytes: &[u8]) -> Vec<Value> {
        let block_len = self.units[unit].block_len;
        let blocks = bytes.chunks(block_len).zip(start..);
        blocks
            .map(|(bytes, lba)| content::parse(self.seed, lba, bytes))
            .collect::<Result<_, _>>()
            .unwrap_or_else(|wrong| panic!("unit {unit}: {wrong}"))
    }

    fn start_command(&mut self, session: usize) {
        self.last_operation += 1;
        let number = self.last_operation;
        let unit = self.random.within(0..self.units.len() as u64) as usize;
        let blocks = self.random_blocks(unit);
        match self.random.within(0..100) {
            0..30 => self.write(session, unit, number, blocks),
            30..40 => self.write_same(session, unit, number, blocks),
            40..50 => self.unmap(session, unit, number, blocks),
            50..65 => self.compare_and_write(session, unit, number, blocks),
            65..93 => self.read(session, unit, number, blocks),
            _ => self.synchronize_cache(session, unit, number),
        }
    }

    /// Returns mostly few blocks, so that commands meet, and sometimes many, so that they take
    /// several bursts.
    fn random_blocks(&mut self, unit: usize) -> Range<u64> {
        let all = self.units[unit].model.len();
        let most = match self.random.within(0..10) {
            0..5 => 1,
            5..9 => 12,
            _ => all / 4,
        };
        let count = self.random.within(1..most + 1);
        let start = self.random.within(0..all - count + 1);
        start..start + count
    }

    fn begin(&mut self, session: usize, unit: usize, number: u64, kind: OperationKind) -> u8 {
        let operation = Operation {
            session,
            unit,
            kind,
        };
        self.under_way.insert(number, operation);
        self.units[unit].lun
    }

    fn write(&mut self, session: usize, unit: usize, number: u64, blocks: Range<u64>) {
        let Unit {
            block_len,
            write_cache,
            ..
        } = self.units[unit];
        let fua = self.random.chance(40);
        let data = blocks
            .clone()
            .flat_map(|lba| content::block(self.seed, number, lba..lba + 1, block_len));
        let data = data.collect();
        let cdb = cdb16(0x8a, if fua { FUA } else { 0 }, blocks.clone());
        self.units[unit]
            .model
            .begin_write(number, blocks, Value::Written(number));
        let durable = fua || !write_cache;
        let lun = self.begin(session, unit, number, OperationKind::Write { durable });
        self.sessions[session].write(number, lun, cdb, data);
    }

    fn write_same(&mut self, session: usize, unit: usize, number: u64, blocks: Range<u64>) {
        let Unit {
            block_len,
            write_cache,
            ..
        } = self.units[unit];
        const UNMAP: u8 = 0x08;
        let (flags, data, value) = match self.random.within(0..3) {
            0 => (UNMAP, vec![0; block_len], Value::Zero),
            1 => (0, vec![0; block_len], Value::Zero),
            _ => {
                self.repeated.insert(number, blocks.clone());
                let data = content::block(self.seed, number, blocks.clone(), block_len);
                (0, data, Value::Written(number))
            }
        };
        let cdb = cdb16(0x93, flags, blocks.clone());
        self.units[unit].model.begin_write(number, blocks, value);
        let durable = !write_cache;
        let lun = self.begin(session, unit, number, OperationKind::Write { durable });
        self.sessions[session].write(number, lun, cdb, data);
    }

    fn unmap(&mut self, session: usize, unit: usize, number: u64, blocks: Range<u64>) {
        let durable = !self.units[unit].write_cache;
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend_from_slice(&blocks.start.to_be_bytes());
        list.extend_from_slice(&((blocks.end - blocks.start) as u32).to_be_bytes());
        list.extend_from_slice(&[0; 4]);
        let mut cdb = [0; 16];
        (cdb[0], cdb[8]) = (0x42, list.len() as u8);
        self.units[unit]
            .model
            .begin_write(number, blocks, Value::Zero);
        let lun = self.begin(session, unit, number, OperationKind::Write { durable });
        self.sessions[session].write(number, lun, cdb, list);
    }

    fn compare_and_write(&mut self, session: usize, unit: usize, number: u64, blocks: Range<u64>) {
        let Unit {
            block_len,
            write_cache,
            ..
        } = self.units[unit];
        let blocks = blocks.start..blocks.end.min(blocks.start + 4);
        let guess_wrong = self.random.chance(15);
        let fua = self.random.chance(40);
        let mut expected = Vec::new();
        let mut data = Vec::new();
        for lba in blocks.clone() {
            let value = if guess_wrong {
                // Nobody has written it, nor will.
                Value::Written(u64::MAX)
            } else {
                self.units[unit].model.guess(lba)
            };
            expected.push(value);
            match value {
                Value::Zero => data.resize(data.len() + block_len, 0),
                Value::Written(by) => {
                    let range = self.repeated.get(&by).cloned().unwrap_or(lba..lba + 1);
                    data.extend(content::block(self.seed, by, range, block_len));
                }
            }
        }
        for lba in blocks.clone() {
            data.extend(content::block(self.seed, number, lba..lba + 1, block_len));
        }
        let mut cdb = [0; 16];
        (cdb[0], cdb[1]) = (0x89, if fua { FUA } else { 0 });
        cdb[2..10].copy_from_slice(&blocks.start.to_be_bytes());
        cdb[13] = (blocks.end - blocks.start) as u8;
        self.units[unit]
            .model
            .begin_compare_and_write(number, blocks);
        let durable = fua || !write_cache;
        let kind = OperationKind::CompareAndWrite { durable, expected };
        let lun = self.begin(session, unit, number, kind);
        self.sessions[session].write(number, lun, cdb, data);
    }

    fn read(&mut self, session: usize, unit: usize, number: u64, blocks: Range<u64>) {
        let length = (blocks.end - blocks.start) as usize * self.units[unit].block_len;
        self.units[unit].model.begin_read(number, blocks.clone());
        let lun = self.begin(session, unit, number, OperationKind::Read);
        self.sessions[session].read(number, lun, cdb16(0x88, 0, blocks), length);
    }

    fn synchronize_cache(&mut self, session: usize, unit: usize, number: u64) {
        self.units[unit].model.begin_flush(number);
        let lun = self.begin(session, unit, number, OperationKind::SynchronizeCache);
        self.sessions[session].write(number, lun, cdb16(0x91, 0, 0..0), Vec::new());
    }

    fn end(&mut self, ended: &Ended) {
        let number = ended.cookie;
        let operation = self.under_way.remove(&number).expect("a command ends once");
        let unit = operation.unit;
        if ended.status != GOOD && (self.power_is_off)() {
            *self.ended.entry("unanswered").or_default() += 1;
            self.units[unit].model.unanswered(number);
            return;
        }
        let attention = ended.status == CHECK_CONDITION && ended.sense[2] & 0xf == UNIT_ATTENTION;
        if attention && self.attentions {
            *self.ended.entry("unit attention").or_default() += 1;
            self.units[unit].model.refused(number);
            return;
        }
        let miscompare = ended.status == CHECK_CONDITION && ended.asc() == Some(MISCOMPARE);
        let caw = matches!(operation.kind, OperationKind::CompareAndWrite { .. });
        assert!(
            ended.status == GOOD || (caw && miscompare),
            "operation {number}, {operation:?}, ended with status {:02x}, sense {:02x?}",
            ended.status,
            ended.sense
        );
        let model = &mut self.units[unit].model;
        let (name, verdict) = match operation.kind {
            OperationKind::Write { durable } => {
                model.end_write(number, End::Good { durable });
                ("write", Ok(()))
            }
            OperationKind::SynchronizeCache => {
                model.end_flush(number);
                ("synchronize cache", Ok(()))
            }
            OperationKind::CompareAndWrite { durable, expected } if ended.status == GOOD => {
                let verdict = model.compared_and_wrote(number, &expected, durable);
                ("compare and write", verdict)
            }
            OperationKind::CompareAndWrite { expected, .. } => {
                ("miscompare", model.miscompared(number, &expected))
            }
            OperationKind::Read => {
                let start = model.start_of_read(number);
                let found = self.parse(unit, start, &ended.data_in);
                ("read", self.units[unit].model.end_read(number, &found))
            }
        };
        verdict.unwrap_or_else(|wrong| panic!("unit {unit}, operation {number}: {wrong}"));
        *self.ended.entry(name).or_default() += 1;
    }
}

fn cdb16(opcode: u8, flags: u8, blocks: Range<u64>) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..10].copy_from_slice(&blocks.start.to_be_bytes());
    cdb[10..14].copy_from_slice(&((blocks.end - blocks.start) as u32).to_be_bytes());
    cdb
}
