//! Outside suites and real clients, run against a real Sandstone server.

fn main() {}
