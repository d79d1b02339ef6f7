//! The memory that all memory-backed logical units of this process share. Together they never store
//! more than the memory that the machine had free, and no unit is created that could not be filled.
//!
//! A unit takes memory page by page as it is written. A full pool is reported like a full disk.
//! Without the pool, the kernel would react by killing the daemon.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pages::PAGE_SIZE;

const PAGE: u64 = PAGE_SIZE as u64;

/// A limit that several devices share.
#[derive(Debug, Default)]
pub struct MemoryPool {
    /// Most pages that may be stored.
    cap: AtomicU64,
    /// Pages stored at present.
    stored: AtomicU64,
    /// Total length of all devices in bytes: what they would store once every block is written.
    promised: AtomicU64,
}

impl MemoryPool {
    /// Creates a pool of `cap` bytes.
    pub fn new(cap: u64) -> Arc<Self> {
        let pool = Self::default();
        pool.cap.store(cap / PAGE, Ordering::Relaxed);
        Arc::new(pool)
    }

    /// Returns the pool of this process: nine tenths of the memory that is free now, plus the bytes
    /// stored already.
    pub fn of_this_machine() -> Arc<Self> {
        static POOL: OnceLock<Arc<MemoryPool>> = OnceLock::new();
        let pool = POOL.get_or_init(Arc::default);
        let free = free_memory().map_or(u64::MAX, |free| free / 10 * 9);
        let cap = free.saturating_add(pool.stored.load(Ordering::Relaxed) * PAGE);
        pool.cap.store(cap / PAGE, Ordering::Relaxed);
        Arc::clone(pool)
    }

    /// Returns the most that all devices may store together, in bytes.
    pub fn capacity(&self) -> u64 {
        self.cap.load(Ordering::Relaxed) * PAGE
    }

    /// Returns the space that is left, in bytes.
    pub fn available(&self) -> u64 {
        let stored = self.stored.load(Ordering::Relaxed);
        self.cap.load(Ordering::Relaxed).saturating_sub(stored) * PAGE
    }

    /// Returns the length of the largest device that could be filled together with all others, in
    /// bytes.
    pub fn unpromised(&self) -> u64 {
        let promised = self.promised.load(Ordering::Relaxed);
        self.capacity().saturating_sub(promised)
    }

    /// Counts a new device of `len` bytes.
    pub fn promise(&self, len: u64) {
        self.promised.fetch_add(len, Ordering::Relaxed);
    }

    /// Removes a device of `len` bytes that stores `pages` from the counts.
    pub(super) fn release(&self, len: u64, pages: u64) {
        self.promised.fetch_sub(len, Ordering::Relaxed);
        self.stored.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Counts one more stored page. Returns `false` if the pool is full.
    pub(super) fn take_page(&self) -> bool {
        let cap = self.cap.load(Ordering::Relaxed);
        let more = |stored| (stored < cap).then_some(stored + 1);
        self.stored
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Counts one stored page less.
    pub(super) fn give_page(&self) {
        self.stored.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the free memory in bytes: of the machine, or of the control group that limits this
/// process, if that is less. Returns `None` if the kernel does not tell.
fn free_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = machine
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let folder = own.map(|own| Path::new("/sys/fs/cgroup").join(own));
    let limits = folder.iter().flat_map(|folder| folder.ancestors());
    let group = limits
        .take_while(|folder| folder.starts_with("/sys/fs/cgroup"))
        .filter_map(|folder| free_in_group(folder.to_owned()))
        .min();
    Some((kib * 1024).min(group.unwrap_or(u64::MAX)))
}

/// Returns the memory that a control group still allows its processes; `None` without a limit.
fn free_in_group(folder: PathBuf) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let limit = number("memory.max")?;
    let used = number("memory.current")?;
    // The page cache counts as used, but gives way when memory is needed.
    let statistics = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cache: u64 = statistics
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_how_much_is_free() {
        let free = free_memory().expect("/proc is there");
        assert!(free > 1 << 20 && free < 1 << 50, "{free}");
    }

    #[test]
    fn devices_share_what_there_is() {
        let pool = MemoryPool::new(3 * PAGE);
        pool.promise(2 * PAGE);
        assert_eq!((pool.unpromised(), pool.available()), (PAGE, 3 * PAGE));
        pool.promise(PAGE);
        assert_eq!(pool.unpromised(), 0);
        for _ in 0..3 {
            assert!(pool.take_page());
        }
        assert!(!pool.take_page());
        assert_eq!(pool.available(), 0);
        pool.give_page();
        assert!(pool.take_page());
        pool.release(2 * PAGE, 2);
        assert_eq!((pool.unpromised(), pool.available()), (2 * PAGE, 2 * PAGE));
    }
}
