//! A volume, as its readers and writers see it: a run of bytes, in blocks of volblocksize.

pub mod blocks;
