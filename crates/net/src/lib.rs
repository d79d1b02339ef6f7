//! Calls to the kernel that sessions need and the standard library lacks: random bytes for logins,
//! and the state of a TCP connection.

pub mod entropy;
pub mod tcp_info;
