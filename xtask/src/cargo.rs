//! The cargo that runs this program, for commands of its own.

use std::process::Command;

/// Beginnings of the names of variables in which cargo describes this program to itself. Build
/// scripts look at some of them: under them, a build differs from the one that a developer makes by
/// hand, and each would be done once more after the other.
const OF_THIS_PROGRAM: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Returns a command that runs cargo as a developer would.
pub(crate) fn command() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    forget_this_program(&mut command);
    command
}

/// Removes what cargo said of this program from the variables of a command.
pub(crate) fn forget_this_program(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OF_THIS_PROGRAM.iter().any(|begin| text.starts_with(begin)) {
            command.env_remove(&name);
        }
    }
}
