//! The `sandstone` command; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandstone::run()
}
