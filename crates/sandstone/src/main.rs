//! The `sandstone` command.

fn main() {}
