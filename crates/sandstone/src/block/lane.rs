//! A loop's own I/O lane: its io_uring (or thread pool), its timers, its completion queue.
