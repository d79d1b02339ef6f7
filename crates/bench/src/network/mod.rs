//! What the network carries before any storage is measured on it.
//!
//! One protocol serves both ends: that of iperf3. So the other end may be any iperf3 server, and
//! any iperf3 client may measure against ours.
//!
//! | what | where |
//! |---|---|
//! | the words of the control connection, and their limits | [`message`] |
//! | sending and receiving them in time | `control.rs` |
//! | sockets as asked for | `socket.rs` |
//! | what TCP knows of a connection | [`net::tcp_info`] |
//! | data connections | `stream.rs` |
//! | one direction measured, as the client | [`client`] |
//! | the server | [`server`] |
//! | round trips through a program, and which datagrams pass whole | [`echo`], [`path_mtu`] |
//! | the interface, and what its wire can carry | [`interface`], [`wire`] |
//! | all of it, one after the other | [`survey`] |
//! | the same as a file | [`result`] |

pub mod client;
mod control;
pub mod echo;
mod error;
pub mod interface;
pub mod message;
pub mod path_mtu;
pub mod result;
pub mod server;
mod socket;
mod stream;
pub mod survey;
pub mod wire;

#[cfg(test)]
mod tests;

pub use error::NetworkError;
