//! Measures the capacity of the network, before any storage is measured on it.
//!
//! Both ends speak one protocol: iperf3's. So the other end may be any iperf3 server, and any
//! iperf3 client may measure against Sandstone's server.
//!
//! | subject | where |
//! |---|---|
//! | messages of the control connection, and their limits | [`message`] |
//! | sending and receiving them in time | `control.rs` |
//! | sockets with the requested settings | `socket.rs` |
//! | TCP's facts about a connection | [`net::tcp_info`] |
//! | data connections | `stream.rs` |
//! | one direction measured, as the client | [`client`] |
//! | the server | [`server`] |
//! | round trips through a program, datagrams that pass whole | [`echo`], [`path_mtu`] |
//! | the interface, and the capacity of its wire | [`interface`], [`wire`] |
//! | all measurements, one after the other | [`survey`] |
//! | the measurements as a file | [`result`] |

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
