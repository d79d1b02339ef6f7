//! Figures of commands and devices: live, since the start, and of the past.

pub(crate) mod history;
pub(crate) mod iostat;
pub(crate) mod rates;
pub(crate) mod top;
