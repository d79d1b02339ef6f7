//! Alert rules.
