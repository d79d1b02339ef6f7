//! Status of a scan: its kind, state and figures.

/// Kind of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// Verifies everything.
    Scrub,
    /// Rebuilds the data that leaves miss.
    Resilver,
}

/// State of a scan, or its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// The scan waits for a checkpoint, or is at work.
    Running,
    /// The scan is paused until the user resumes it.
    Paused,
    /// All blocks were seen.
    Finished,
    /// The scan was stopped, or a leaf that it worked for did not take its data.
    Canceled,
}

/// Status of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanStatus {
    /// Kind of the scan.
    pub kind: ScanKind,
    /// State of the scan.
    pub state: ScanState,
    /// Time at which the scan began, in seconds since 1970.
    pub started_s: u64,
    /// Time at which the scan ended, in seconds since 1970; 0 if it has not.
    pub ended_s: u64,
    /// Sectors of blocks that were found, parity included.
    pub scanned_sectors: u64,
    /// Sectors of blocks that were worked off, parity included.
    pub examined_sectors: u64,
    /// Sectors in use when the scan began, parity included: about the number to be examined.
    pub total_sectors: u64,
    /// Bytes that were rewritten because they were bad or missing.
    pub repaired_bytes: u64,
    /// Time at which the scan's work began, without pauses, in microseconds of the clock; 0 if that
    /// was before the pool was opened.
    pub began_us: u64,
    /// Copies and columns that were found bad.
    pub bad: u64,
    /// Bad copies and columns that were rewritten, and blocks that were rebuilt.
    pub repaired: u64,
    /// Blocks of which no right copy was found. A node of a map counts as all the blocks that it
    /// may lead to.
    pub unrecoverable: u64,
}
