//! What a scan does, where it is, and what it has to say.

/// What a scan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// Verifies everything.
    Scrub,
    /// Rebuilds what leaves miss.
    Resilver,
}

/// Where a scan is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// It waits for a checkpoint, or is at work.
    Running,
    /// It goes on when it is told to.
    Paused,
    /// All was seen.
    Finished,
    /// It was stopped, or a leaf that it worked for did not take what it was to have.
    Canceled,
}

/// What a scan has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanStatus {
    /// What it does.
    pub kind: ScanKind,
    /// Where it is.
    pub state: ScanState,
    /// When it began, in seconds since 1970.
    pub started_s: u64,
    /// When it ended; 0 while it has not.
    pub ended_s: u64,
    /// Sectors of blocks that were found, parity included.
    pub scanned_sectors: u64,
    /// Sectors of blocks that were worked off, parity included.
    pub examined_sectors: u64,
    /// Sectors in use when it began, parity included: about what is to be examined.
    pub total_sectors: u64,
    /// Bytes that were rewritten because they were bad or missing.
    pub repaired_bytes: u64,
    /// Since the clock's beginning, without pauses: when its work began. Microseconds; 0 where that
    /// was before the pool was opened.
    pub began_us: u64,
    /// Copies and columns that were found bad.
    pub bad: u64,
    /// Those that were rewritten, and blocks that were rebuilt.
    pub repaired: u64,
    /// Blocks of which no right copy was found. A node of a map counts as all the blocks that it
    /// may lead to.
    pub unrecoverable: u64,
}
