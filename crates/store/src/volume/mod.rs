//! What a volume is to those who read and write it: a run of bytes, in blocks of volblocksize.

pub mod blocks;
