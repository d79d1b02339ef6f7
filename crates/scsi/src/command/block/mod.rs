//! Commands of SBC-4 that read, write, compare, verify or free blocks.

pub(crate) mod compare_and_write;
pub(crate) mod get_lba_status;
pub(crate) mod orwrite;
pub(crate) mod part_write;
pub(crate) mod prefetch;
pub(crate) mod read_capacity;
pub(crate) mod read_defect_data;
pub(crate) mod read_write;
pub(crate) mod synchronize_cache;
pub(crate) mod unmap;
pub(crate) mod verify;
pub(crate) mod write_atomic;
pub(crate) mod write_same;
