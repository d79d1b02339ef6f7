//! placeholder while compiling
use crate::lab::Lab;
/// none
pub const LABS: &[Lab] = &[];
