//! Developer commands: test, bench, tidy.

fn main() {}
