//! The command line: one verb tree over the control API, and the verbs that work on their own.
//!
//! Most verbs are clients of a daemon: they send their request through [`control::Client`] and
//! print the answer. `serve` and `demo` are daemons. `bench`, `pool check`, `initiator discover`,
//! `attach` of a URL, and the verbs that describe the program itself (`openapi`, `completion`,
//! `man`) need no daemon.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong command line. `status` and `pool status -x`
//! also exit with 3 if something is to be done, and with 4 if something is not served, not
//! redundant, or lost ([`Health`]).

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use hint::Place;
use model::Error;
use model::health::Health;

mod access;
mod bench;
mod config;
mod connection;
pub mod demo;
mod edit;
mod figures;
mod gateway;
mod grammar;
mod health;
mod host;
mod initiator;
mod lu;
mod map;
mod pool;
pub mod print;
mod program;
mod salvage;
mod secret;
pub mod serve;
mod session;
mod share;
mod status;
mod stream;
mod target;
mod target_group;
mod volume;

use self::figures::{history, iostat, top};
use self::grammar::later::Later;
use self::health::{alert, events};
pub use connection::Connection;
pub use initiator::attach;
pub use initiator::configured::configured;
pub use program::Program;

/// A storage area network in one program: logical units over iSCSI, from one command.
#[derive(Debug, Parser)]
#[command(
    name = "sandstone",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
#[command(
    arg_required_else_help = true,
    infer_subcommands = false,
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Try it: make a logical unit, serve it, print how to use it
    Demo(Later<demo::Args>),
    /// Serve the targets of a state folder
    Serve(Later<serve::Args>),
    /// Logical units
    #[command(subcommand)]
    Lu(Later<lu::LuVerb>),
    /// Pools of disks, in zpool's manner
    #[command(subcommand, visible_alias = "zpool")]
    Pool(Later<pool::PoolVerb>),
    /// Volumes, snapshots and folders of pools, in zfs's manner
    #[command(subcommand, visible_alias = "zfs")]
    Volume(Later<volume::VolumeVerb>),
    /// Targets, their portals and their secrets
    #[command(subcommand)]
    Target(Later<target::TargetVerb>),
    /// Target groups: targets that maps name together
    #[command(subcommand)]
    TargetGroup(Later<target_group::TargetGroupVerb>),
    /// Hosts: groups of initiators and their secrets
    #[command(subcommand)]
    Host(Later<host::HostVerb>),
    /// Maps: the logical units that each host sees, and why not
    #[command(subcommand)]
    Map(Later<map::MapVerb>),
    /// Work of this machine as a client, the other end of the wire
    #[command(subcommand)]
    Initiator(Later<initiator::InitiatorVerb>),
    /// Sessions of initiators
    #[command(subcommand)]
    Session(Later<session::SessionVerb>),
    /// Show the commands of logical units, and where their time goes
    Iostat(Later<iostat::Iostat>),
    /// Show figures of the past: of logical units, pools, disks, hosts and port groups
    History(Later<history::History>),
    /// Watch adapters, units, hosts, networks and disks live, in esxtop's manner
    Top(Later<top::Top>),
    /// Give a host a logical unit in one step, and print what to type there
    Share(Later<share::Args>),
    /// Measure storage, and compare results
    #[command(subcommand)]
    Bench(Later<bench::BenchVerb>),
    /// Users of the console
    #[command(subcommand)]
    User(Later<access::UserVerb>),
    /// Tokens of programs
    #[command(subcommand)]
    Token(Later<access::TokenVerb>),
    /// Roles of users and groups of this machine at the control socket
    #[command(subcommand)]
    Role(Later<access::RoleVerb>),
    /// Audit log: who changed what, or tried to
    #[command(subcommand)]
    Audit(Later<access::AuditVerb>),
    /// Certificate of the console
    #[command(subcommand)]
    Tls(Later<access::TlsVerb>),
    /// The configuration as a whole
    #[command(subcommand)]
    Config(Later<config::ConfigVerb>),
    /// Show the state of the daemon and its pools
    ///
    /// The exit status is 0 if all is well, 3 if something is to be done, and 4 if something is not
    /// served, not redundant, or lost: a pool that is not ONLINE or is full, a faulted logical
    /// unit, a portal that does not listen.
    Status(Later<status::Args>),
    /// Alerts: states that somebody should know of
    #[command(subcommand)]
    Alert(Later<alert::AlertVerb>),
    /// Show what happened to the daemon and all that it serves
    Events(Later<events::Events>),
    /// Print the OpenAPI document of the control API
    Openapi,
    /// Print the script with which a shell completes verbs, options and names
    Completion(Later<grammar::completion::Args>),
    /// Show the manual page of a verb, or write the pages of all verbs to a folder
    Man(Later<grammar::manual::Args>),
}

/// Function that asks a question and returns the answer, including its line end.
pub type Ask<'a> = dyn FnMut(&str) -> io::Result<String> + 'a;

/// Terminal that a command reads from and writes to. Tests pass their own.
pub struct Terminal<'a> {
    /// Receives the output that the user asked for.
    pub out: &'a mut dyn Write,
    /// Receives everything else.
    pub err: &'a mut dyn Write,
    /// Asks a question and returns the answer; `None` if nobody can answer.
    pub ask: Option<&'a mut Ask<'a>>,
    /// Columns of the terminal behind `out`; `None` if `out` is a file or a pipe.
    pub width: Option<usize>,
}

/// Reason for which a command ended without success.
enum Failure {
    /// The command failed, and the error is still to be printed.
    Refused(Error),
    /// The command failed, and the error was printed already.
    Said,
    /// The command succeeded, and reported a thing that is not well.
    Unwell(Health),
    /// The reader of the output went away. Nothing is wrong and nobody listens.
    Closed,
}

type Done = Result<(), Failure>;

/// Returns the end of a command that reported the health of something.
fn unwell(health: Health) -> Done {
    match health {
        Health::Healthy => Ok(()),
        unwell => Err(Failure::Unwell(unwell)),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Refused(Error::system(Place::Output, "write the output", error)),
        }
    }
}

/// Returns the verb tree, with all that its help shows beyond options.
fn command() -> clap::Command {
    grammar::help::complete(Cli::command(), "")
}

/// Runs the command line of this process.
pub fn run(program: &Program) -> ExitCode {
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let mut ask = |question: &str| {
        eprint_question(question)?;
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    };
    let verb = match parse(std::env::args_os(), &mut out, &mut err) {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    match verb.verb {
        Noun::Serve(Later(args)) => {
            drop((out, err));
            (program.serve)(&args, &verb.connection)
        }
        Noun::Demo(Later(args)) => {
            drop((out, err));
            (program.demo)(&args, &verb.connection)
        }
        Noun::Initiator(Later(initiator::InitiatorVerb::Attach(args))) => {
            drop((out, err));
            (program.attach)(&args, &verb.connection)
        }
        _ => {
            let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
            drop(err);
            let mut err = io::stderr();
            let terminal = Terminal {
                out: &mut out,
                err: &mut err,
                ask: if interactive { Some(&mut ask) } else { None },
                width: width(),
            };
            ExitCode::from(client(program, verb, terminal))
        }
    }
}

/// Returns the columns of the terminal behind standard output, if it is one.
fn width() -> Option<usize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let told = rustix::termios::tcgetwinsize(&out).map_or(0, |size| size.ws_col);
    // A serial console reports 0. It has 80, as terminals always had.
    Some(if told == 0 { 80 } else { told.into() })
}

fn eprint_question(question: &str) -> io::Result<()> {
    let mut err = io::stderr();
    write!(err, "{question}")?;
    err.flush()
}

/// Runs one client command line, program name first, and returns its exit code. `serve` and `demo`
/// are not clients and are refused.
pub fn run_client(
    program: &Program,
    args: impl IntoIterator<Item = OsString>,
    mut terminal: Terminal<'_>,
) -> u8 {
    match parse(args, &mut terminal.out, &mut terminal.err) {
        Ok(cli) => client(program, cli, terminal),
        Err(code) => code,
    }
}

fn parse(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Cli, u8> {
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = command()
        .try_get_matches_from(&args)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let parsed = parsed.map(|(mut cli, matches)| {
        if matches!(cli.verb, Noun::Demo(_)) {
            cli.connection.forget_environment(&matches);
        }
        cli
    });
    let typed = parsed.map(|mut cli| {
        cli.connection.command = Some(grammar::typed::line(&args));
        cli
    });
    typed.map_err(|mut error| {
        let next = if error.use_stderr() {
            let mut root = command();
            root.build();
            grammar::elsewhere::next(&mut error, &root, &args)
        } else {
            None
        };
        let rendered = error.render();
        // If even this cannot be written, nothing is left to do.
        let _ = if error.use_stderr() {
            write!(err, "{rendered}")
        } else {
            write!(out, "{rendered}")
        };
        if let Some(next) = next {
            let _ = writeln!(err, "  next:  {next}");
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

fn client(program: &Program, cli: Cli, mut terminal: Terminal<'_>) -> u8 {
    let t = &mut terminal;
    let connection = &cli.connection;
    let done = match cli.verb {
        Noun::Lu(Later(verb)) => lu::run(verb, connection, t),
        Noun::Pool(Later(verb)) => pool::run(program, verb, connection, t),
        Noun::Volume(Later(verb)) => volume::run(verb, connection, t),
        Noun::Target(Later(verb)) => target::run(verb, connection, t),
        Noun::TargetGroup(Later(verb)) => target_group::run(verb, connection, t),
        Noun::Host(Later(verb)) => host::run(verb, connection, t),
        Noun::Map(Later(verb)) => map::run(verb, connection, t),
        Noun::Session(Later(verb)) => session::run(verb, connection, t),
        Noun::Iostat(Later(args)) => iostat::run(&args, connection, t),
        Noun::History(Later(args)) => history::run(&args, connection, t),
        Noun::Top(Later(args)) => top::run(&args, connection, t),
        Noun::Share(Later(args)) => share::run(&args, connection, t),
        Noun::Bench(Later(verb)) => bench::run(verb, connection, t),
        Noun::Config(Later(verb)) => config::run(program, verb, connection, t),
        Noun::User(Later(verb)) => access::user(verb, connection, t),
        Noun::Token(Later(verb)) => access::token(verb, connection, t),
        Noun::Role(Later(verb)) => access::role(verb, connection, t),
        Noun::Audit(Later(verb)) => access::audit(verb, connection, t),
        Noun::Tls(Later(verb)) => access::tls(verb, connection, t),
        Noun::Status(Later(args)) => status::run(&args, connection, t),
        Noun::Alert(Later(verb)) => alert::run(verb, connection, t),
        Noun::Events(Later(args)) => events::run(&args, connection, t),
        Noun::Openapi => status::openapi(t),
        Noun::Completion(Later(args)) => grammar::completion::run(&args, t),
        Noun::Man(Later(args)) => grammar::manual::run(&args, t),
        Noun::Serve(_)
        | Noun::Demo(_)
        | Noun::Initiator(Later(initiator::InitiatorVerb::Attach(_))) => {
            Err(Error::invalid("this verb is a daemon, not a client", "run it from a shell").into())
        }
        Noun::Initiator(Later(verb)) => initiator::run(program, verb, connection, t),
    };
    match done {
        Ok(()) | Err(Failure::Closed) => 0,
        Err(Failure::Said) => 1,
        Err(Failure::Unwell(health)) => health.exit_code(),
        Err(Failure::Refused(error)) => {
            let _ = report(terminal.err, &error);
            1
        }
    }
}

/// Reports an error in the one form that all verbs use: what was wrong, what was not changed, and
/// what to try next.
pub fn report(err: &mut dyn Write, error: &Error) -> io::Result<()> {
    writeln!(err, "sandstone: {}", error.message)?;
    writeln!(err, "  state: {}", error.not_changed)?;
    writeln!(err, "  next:  {}", error.next)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_verb_tree_is_consistent() {
        use clap::CommandFactory as _;
        super::Cli::command().debug_assert();
    }

    #[test]
    fn a_verb_is_described_by_itself_as_in_the_list_of_verbs() {
        use clap::CommandFactory as _;
        let about = |command: &clap::Command| -> Vec<String> {
            let verbs = command
                .get_subcommands()
                .filter(|it| it.get_name() != "help");
            let texts = verbs.map(|it| it.get_about().map(ToString::to_string).unwrap_or_default());
            texts.collect()
        };
        let listed = super::Cli::command();
        let mut defined = super::Cli::command();
        defined.build();
        assert_eq!(about(&listed), about(&defined));
        assert!(about(&listed).iter().all(|text| !text.is_empty()));
    }
}
