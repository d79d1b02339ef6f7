//! Measures the cost of one block request: CPU time of the block layer alone, without SCSI and
//! network.
//!
//! `cargo run --release --example block_cost [FILE]` prints nanoseconds per request in memory. With
//! a path it also prints requests per second on a file. The path must not exist, and is removed
//! again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::file::{FileDevice, FileOptions};
use block::memory::MemoryDevice;
use block::statistics::StatisticsDevice;
use block::{BlockDevice, Lane, PagesMut, Request, Submitted, Ticket};

const LEN: u64 = 256 << 20;
const PAGES: u64 = LEN / 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(LEN, 512, LEN)?);
    in_memory(&*memory, "memory");
    in_memory(&StatisticsDevice::new(memory), "memory + statistics");
    if let Some(path) = std::env::args_os().nth(1) {
        let options = FileOptions {
            block_size: 512,
            preallocate: true,
            direct: true,
        };
        FileDevice::create(Path::new(&path), LEN, options)?;
        let device = FileDevice::open(Path::new(&path), options);
        std::fs::remove_file(&path)?;
        let device = device?;
        println!("file, direct I/O: {}", device.is_direct());
        on_file(&device, Lane::new(Arc::new(|| {})), "io_uring");
        on_file(&device, Lane::without_io_uring(Arc::new(|| {})), "pool");
    }
    Ok(())
}

/// Runs `request` for pages in a scattered order, and prints the cost of one request.
fn measure(name: &str, mut request: impl FnMut(u64)) {
    let mut best_ns = f64::MAX;
    for _ in 0..9 {
        let start = thread_cpu_ns();
        for number in 0..PAGES {
            request(number.wrapping_mul(0x9E37_79B1) % PAGES * 4096);
        }
        best_ns = best_ns.min((thread_cpu_ns() - start) / PAGES as f64);
    }
    println!("{name}: {best_ns:.0} ns");
}

/// Returns the CPU time of this thread; time of other processes does not count.
fn thread_cpu_ns() -> f64 {
    // The kernel updates the account when the thread offers to yield.
    std::thread::yield_now();
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu = account
        .split(' ')
        .next()
        .and_then(|field| field.parse().ok());
    on_cpu.expect("the kernel keeps an account of each thread")
}

fn filled(len: usize, skew: usize) -> PagesMut {
    let mut buffer = PagesMut::allocate_at(len, skew);
    buffer.mark_filled(0, len);
    buffer
}

fn in_memory(device: &dyn BlockDevice, name: &str) {
    let mut lane = Lane::new(Arc::new(|| {}));
    let mut submit = |request| match device.submit(request, Ticket::new(1), &mut lane) {
        Submitted::Ready(Ok(done)) => done,
        other => panic!("{other:?}"),
    };
    measure(&format!("{name}, buffer of 4 KiB made and dropped"), |_| {
        std::hint::black_box(filled(4096, 0).freeze());
    });
    measure(
        &format!("{name}, write of 4 KiB, its buffer included"),
        |offset| {
            submit(Request::Write {
                offset,
                data: filled(4096, 0).freeze(),
                durable: false,
            });
        },
    );
    measure(&format!("{name}, read of 4 KiB"), |offset| {
        std::hint::black_box(submit(Request::Read { offset, len: 4096 }));
    });
    measure(
        &format!("{name}, write of 512 bytes, its buffer included"),
        |offset| {
            submit(Request::Write {
                offset,
                data: filled(512, 0).freeze(),
                durable: false,
            });
        },
    );
    measure(&format!("{name}, read of 256 KiB"), |offset| {
        let offset = offset.min(LEN - (256 << 10));
        std::hint::black_box(submit(Request::Read {
            offset,
            len: 256 << 10,
        }));
    });
    measure(
        &format!("{name}, write of 256 KiB, its buffer included"),
        |offset| {
            let offset = offset.min(LEN - (256 << 10));
            submit(Request::Write {
                offset,
                data: filled(256 << 10, 0).freeze(),
                durable: false,
            });
        },
    );
}

/// Keeps 32 requests in flight for a second each. It spins, so it needs no poller.
fn on_file(device: &dyn BlockDevice, mut lane: Lane, name: &str) {
    for write in [true, false] {
        let mut completions = Vec::new();
        let (mut number, mut finished, mut in_flight) = (0u64, 0, 0);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {
            while in_flight < 32 {
                number += 1;
                let offset = number.wrapping_mul(0x9E37_79B1) % PAGES * 4096;
                let request = if write {
                    let data = filled(4096, 0).freeze();
                    Request::Write {
                        offset,
                        data,
                        durable: false,
                    }
                } else {
                    Request::Read { offset, len: 4096 }
                };
                let submitted = device.submit(request, Ticket::new(number), &mut lane);
                assert!(matches!(submitted, Submitted::Pending), "{submitted:?}");
                in_flight += 1;
            }
            lane.submit_batch();
            std::thread::yield_now();
            lane.take_completions(&mut completions);
            for (_, outcome) in completions.drain(..) {
                outcome.expect("the file works");
                in_flight -= 1;
                finished += 1;
            }
        }
        let kind = if write { "writes" } else { "reads" };
        println!("file by {name}: {finished} {kind} of 4 KiB per second");
    }
}
