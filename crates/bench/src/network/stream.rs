//! Data connections. Each has a thread that sends or receives until it is told to stop, and counts
//! the bytes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::error::is_timeout;
use super::message::{DEFAULT_BLOCK, StreamResults, TestResults, stream_id};
use crate::machine::cpu_time;
use crate::results::CpuTime;
use net::tcp_info::TcpInfo;

/// Largest buffer of a stream; larger blocks go in pieces.
const MAX_BUFFER: u32 = 256 << 10;

/// Longest time that a blocked call may go on after the end of the test.
const STEP: Duration = Duration::from_millis(100);

/// A data connection, and the count of its bytes.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    pub(super) sends: bool,
    /// Bytes given to the kernel, or taken from it.
    moved: AtomicU64,
}

/// Work of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Bytes of a call.
    pub(super) block: u32,
    /// Rate limit of a sender in bits per second; 0 for none.
    pub(super) bits_per_s: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            block: DEFAULT_BLOCK,
            bits_per_s: 0,
        }
    }
}

impl Stream {
    pub(super) fn new(socket: TcpStream, sends: bool) -> std::io::Result<Self> {
        socket.set_read_timeout(Some(STEP))?;
        socket.set_write_timeout(Some(STEP))?;
        Ok(Self {
            socket,
            sends,
            moved: AtomicU64::new(0),
        })
    }

    /// Returns the bytes received, or the bytes sent that have arrived as far as the kernel knows.
    pub(super) fn bytes(&self) -> u64 {
        let moved = self.moved.load(Ordering::Relaxed);
        let acked = TcpInfo::of(&self.socket).map_or(0, |info| info.bytes_acked);
        match acked {
            // This is a receiver, or the kernel does not tell.
            0 => moved,
            _ if !self.sends => moved,
            acked => acked.min(moved),
        }
    }

    /// Returns the bytes that this end has sent or received, as iperf3 counts them.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Runs until `stop`, or until the other end has closed the connection.
    fn run(&self, work: Work, stop: &AtomicBool) {
        // A client's parameters must not cost more memory than this, times the streams.
        let mut block = vec![0; work.block.clamp(1, MAX_BUFFER) as usize];
        if self.sends {
            // Nothing on the way can compress this content. If no random bytes are available, zeros
            // are measured.
            let _ = getrandom::fill(&mut block);
        }
        let mut socket = &self.socket;
        let began = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let result = match self.sends {
                true => socket.write(&block),
                false => socket.read(&mut block),
            };
            match result {
                Ok(0) => return,
                Ok(count) => self.moved.fetch_add(count as u64, Ordering::Relaxed),
                Err(error) if is_timeout(&error) => continue,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                // The other end went away; the control connection says why.
                Err(_) => return,
            };
            if self.sends && work.bits_per_s > 0 {
                self.keep_to(work.bits_per_s, began);
            }
        }
    }

    fn keep_to(&self, bits_per_s: u64, began: Instant) {
        let due = self.moved() as f64 * 8.0 / bits_per_s as f64;
        let ahead = due - began.elapsed().as_secs_f64();
        if ahead > 0.0 {
            thread::sleep(Duration::from_secs_f64(ahead.min(STEP.as_secs_f64())));
        }
    }
}

/// Runs all streams, while `watch` decides how long.
pub(super) fn run<T>(streams: &[Stream], work: Work, watch: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for stream in streams {
            let stop = &stop;
            scope.spawn(move || stream.run(work, stop));
        }
        // The guard also works if `watch` panics: the scope waits for the threads.
        let _stopper = Stopper(&stop);
        watch()
    })
}

struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the counts of this end, in iperf3's words.
pub(super) fn results(streams: &[Stream], cpu: CpuTime, elapsed: Duration) -> TestResults {
    let seconds = elapsed.as_secs_f64();
    let stream = |(index, stream): (usize, &Stream)| {
        let retransmits = TcpInfo::of(&stream.socket).map(|info| i64::from(info.total_retrans));
        StreamResults {
            id: stream_id(index),
            bytes: stream.moved(),
            retransmits: if stream.sends {
                retransmits.unwrap_or(-1)
            } else {
                -1
            },
            end_time: seconds,
            ..StreamResults::default()
        }
    };
    let now = cpu_time();
    let percent = |then: u64, now: u64| match seconds {
        0.0 => 0.0,
        seconds => now.saturating_sub(then) as f64 / 1e7 / seconds,
    };
    let user = percent(cpu.user_ns, now.user_ns);
    let system = percent(cpu.system_ns, now.system_ns);
    TestResults {
        cpu_util_total: user + system,
        cpu_util_user: user,
        cpu_util_system: system,
        sender_has_retransmits: if streams.iter().any(|stream| stream.sends) {
            1
        } else {
            -1
        },
        congestion_used: None,
        streams: streams.iter().enumerate().map(stream).collect(),
    }
}
