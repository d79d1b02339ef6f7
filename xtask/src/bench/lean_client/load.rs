//! Closed loop of the load: every slot of every session is sent again as soon as it is answered.

use std::io::Write;
use std::sync::OnceLock;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::histogram::Histogram;
use super::connection::{Connection, Event, Payload};
use super::{Mode, Options, own_cpu_s};

/// Returns the nanoseconds since the first call.
pub(super) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Chooser of the blocks of the next transfer.
struct Positions {
    seed: u64,
    /// Number of transfers that fit in the unit.
    count: u64,
    blocks: u64,
    is_random: bool,
    /// Place at which each session's stream goes on.
    next: Vec<u64>,
}

impl Positions {
    fn new(options: &Options, unit_len: u64, block_len: u32) -> Result<Self, String> {
        let count = unit_len / u64::from(options.block);
        let blocks = u64::from(options.block / block_len);
        if count == 0 || blocks == 0 || (unit_len / u64::from(block_len)) > u64::from(u32::MAX) {
            return Err(format!(
                "{} bytes per transfer do not fit a unit of {unit_len} bytes",
                options.block
            ));
        }
        let sessions = options.sessions as u64;
        let next = (0..sessions)
            .map(|session| count / sessions * session)
            .collect();
        Ok(Self {
            seed: 0x9e37_79b9_7f4a_7c15,
            count,
            blocks,
            is_random: options.is_random,
            next,
        })
    }

    fn choose(&mut self, session: usize) -> u32 {
        let position = if self.is_random {
            self.seed ^= self.seed >> 12;
            self.seed ^= self.seed << 25;
            self.seed ^= self.seed >> 27;
            let random = self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
            ((u128::from(random) * u128::from(self.count)) >> 64) as u64
        } else {
            let next = &mut self.next[session];
            let position = *next;
            *next = if position + 1 == self.count {
                0
            } else {
                position + 1
            };
            position
        };
        (position * self.blocks) as u32
    }
}

/// End of a run.
enum Until {
    /// Ends at this time.
    Time(u64),
    /// Ends after this many transfers.
    Count(u64),
    /// Ends when nothing is outstanding.
    Quiet,
}

struct Load {
    connections: Vec<Connection>,
    /// Whether each session waits for its socket to take more.
    blocked: Vec<bool>,
    payload: Payload,
    positions: Positions,
    histogram: Histogram,
    outstanding: u64,
    finished: u64,
    retries: u64,
    sending: bool,
    measuring: bool,
    /// Time spent polling in vain while measuring.
    vain_ns: u64,
}

/// Time for which the client polls before it sleeps, in nanoseconds. On loopback the target pays
/// for waking a client that waits, and on a network it does not. With a client that polls, the
/// benchmark compares the abilities of the targets.
const AWAKE_NS: u64 = 200_000;

/// Runs the load, and prints its result as one line of JSON.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let mut load = Load::open(options)?;
    load.start(options)?;
    if options.mode == Mode::Fill {
        let count = load.positions.count;
        load.serve(&Until::Count(count))?;
        load.sending = false;
        return load.serve(&Until::Quiet);
    }
    load.serve(&Until::Time(now_ns() + seconds(options.warmup_s)))?;
    println!("started");
    std::io::stdout().flush().map_err(|e| e.to_string())?;
    let (start, cpu_s) = (now_ns(), own_cpu_s());
    load.measuring = true;
    load.serve(&Until::Time(start + seconds(options.seconds)))?;
    load.measuring = false;
    let (elapsed_s, cpu_s) = ((now_ns() - start) as f64 / 1e9, own_cpu_s() - cpu_s);
    let result = super::super::client::LoadResult {
        ios: load.histogram.total(),
        seconds: elapsed_s,
        p50_us: load.histogram.percentile_us(0.5),
        p99_us: load.histogram.percentile_us(0.99),
        client_cpu_s: (cpu_s - load.vain_ns as f64 / 1e9).max(0.0),
        retries: load.retries,
    };
    println!(
        "{}",
        serde_json::to_string(&result).map_err(|e| e.to_string())?
    );
    load.sending = false;
    load.serve(&Until::Quiet)
}

fn seconds(s: f64) -> u64 {
    (s * 1e9) as u64
}

impl Load {
    fn open(options: &Options) -> Result<Self, String> {
        let mut connections = Vec::new();
        let mut positions = None;
        for number in 0..options.sessions {
            let (connection, unit_len, block_len) = Connection::open(options, number as u32)?;
            if positions.is_none() {
                positions = Some(Positions::new(options, unit_len, block_len)?);
            }
            connections.push(connection);
        }
        Ok(Self {
            blocked: vec![false; connections.len()],
            connections,
            payload: Payload::new(if options.is_write { options.block } else { 0 }),
            positions: positions.ok_or("no session was asked for")?,
            histogram: Histogram::new(),
            outstanding: 0,
            finished: 0,
            retries: 0,
            sending: true,
            measuring: false,
            vain_ns: 0,
        })
    }

    fn start(&mut self, options: &Options) -> Result<(), String> {
        for session in 0..self.connections.len() {
            for slot in 0..options.depth as u32 {
                self.send(session, slot, now_ns());
            }
            self.flush(session)?;
        }
        Ok(())
    }

    fn send(&mut self, session: usize, slot: u32, now: u64) {
        let lba = self.positions.choose(session);
        self.connections[session].submit(slot, lba, now, &mut self.payload);
        self.outstanding += 1;
    }

    fn serve(&mut self, until: &Until) -> Result<(), String> {
        let mut events = Vec::new();
        let mut last_work = now_ns();
        let mut now = last_work;
        loop {
            let over = match until {
                Until::Time(end) => now >= *end,
                Until::Count(count) => self.finished >= *count,
                Until::Quiet => self.outstanding == 0,
            };
            if over {
                return Ok(());
            }
            let mut worked = false;
            for session in 0..self.connections.len() {
                worked |= self.serve_session(session, &mut events)?;
            }
            let before = std::mem::replace(&mut now, now_ns());
            if worked {
                last_work = now;
            } else if now - last_work > AWAKE_NS {
                self.sleep()?;
                last_work = now_ns();
                now = last_work;
            } else if self.measuring {
                self.vain_ns += now - before;
            }
        }
    }

    /// Sleeps until a socket has input, or can take output after it was full.
    fn sleep(&self) -> Result<(), String> {
        let interest = |blocked: &bool| match blocked {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let mut sockets: Vec<PollFd<'_>> = self
            .connections
            .iter()
            .zip(&self.blocked)
            .map(|(connection, blocked)| PollFd::new(&connection.stream, interest(blocked)))
            .collect();
        let patience = Timespec {
            tv_sec: 5,
            tv_nsec: 0,
        };
        match poll(&mut sockets, Some(&patience)) {
            Ok(0) => Err("no answer within 5 s".into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(format!("poll: {e}")),
        }
    }

    /// Takes the bytes that have arrived in a session, and sends the next commands. Returns `false`
    /// if nothing has arrived.
    fn serve_session(&mut self, session: usize, events: &mut Vec<Event>) -> Result<bool, String> {
        if !self.connections[session].receive(&mut self.payload, events)? {
            if self.blocked[session] {
                self.flush(session)?;
            }
            return Ok(false);
        }
        let now = now_ns();
        for event in events.drain(..) {
            self.outstanding -= 1;
            let slot = match event {
                Event::Finished { slot, sent_ns } => {
                    self.finished += 1;
                    if self.measuring {
                        self.histogram.record(now.saturating_sub(sent_ns));
                    }
                    slot
                }
                Event::Retry { slot } => {
                    self.retries += 1;
                    slot
                }
            };
            if self.sending {
                self.send(session, slot, now);
            }
        }
        self.flush(session)?;
        Ok(true)
    }

    /// Writes as much as the socket takes.
    fn flush(&mut self, session: usize) -> Result<(), String> {
        self.blocked[session] = self.connections[session].flush(&self.payload)?;
        Ok(())
    }
}
