//! Verbs whose options are defined only when the user types the verb. Defining the options of all
//! verbs takes several times as long as those of one, and scripts start this program anew for each
//! verb.

use clap::builder::{Resettable, StyledStr};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

use super::help::complete;

/// Verbs or options that are defined when they are needed.
#[derive(Debug)]
pub(crate) struct Later<T>(pub(crate) T);

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Subcommand> Subcommand for Later<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| as_listed(command, T::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(|command| as_listed(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

impl<T: Args> Args for Later<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| as_listed(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| as_listed(command, T::augment_args_for_update))
    }
}

/// Defines a verb, and describes it as the list of verbs does.
fn as_listed(command: Command, define: fn(Command) -> Command) -> Command {
    let listed = |text: Option<&StyledStr>| match text {
        Some(text) => Resettable::Value(text.clone()),
        None => Resettable::Reset,
    };
    let about = listed(command.get_about());
    let long_about = listed(command.get_long_about());
    let verb = command.get_name().to_owned();
    let defined = define(command).about(about).long_about(long_about);
    complete(defined, &verb)
}
