//! Deterministic simulation of the protocol crates: seeded network, clock and faults.
