//! Load generator that costs less CPU than the target under test. It compares the abilities of
//! targets. An ordinary client would be the bottleneck, and so would itself be measured.
//!
//! It has one thread. Headers are built once per command slot and patched. A whole batch of
//! commands goes out in one `writev`, and all writes share one payload. Received bytes go into one
//! large buffer, of which only the headers are read. It shares no code with the `iscsi` crate, so
//! that a mistake there cannot be hidden by an equal mistake here.
//!
//! It does not verify data digests of received data (header digests are verified). It knows no
//! authentication and no error recovery, and one connection per session.

mod connection;
mod load;
mod login;
mod storm;
mod wire;

use std::net::SocketAddr;

/// Options from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub portal: SocketAddr,
    pub target: String,
    pub lun: u8,
    pub mode: Mode,
    pub is_write: bool,
    pub is_random: bool,
    /// Bytes of one transfer.
    pub block: u32,
    /// Number of commands outstanding per session.
    pub depth: usize,
    pub sessions: usize,
    pub digests: bool,
    pub warmup_s: f64,
    pub seconds: f64,
    /// Core to run on.
    pub core: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Runs transfers for a time.
    Load,
    /// Writes every block of the unit once.
    Fill,
    /// Logs all sessions in at once, then keeps them until standard input ends.
    Hold,
}

/// Runs the lean client as the child process of `bench target`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let options = parse(arguments)?;
    if let Some(core) = options.core {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|e| format!("cannot pin to core {core}: {e}"))?;
    }
    match options.mode {
        Mode::Load | Mode::Fill => load::run(&options),
        Mode::Hold => storm::run(&options),
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        portal: SocketAddr::from(([127, 0, 0, 1], 3260)),
        target: String::new(),
        lun: 0,
        mode: Mode::Load,
        is_write: false,
        is_random: true,
        block: 4096,
        depth: 64,
        sessions: 1,
        digests: false,
        warmup_s: 0.5,
        seconds: 4.0,
        core: None,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--portal" => options.portal = number(word, value()?)?,
            "--target" => options.target = value()?.clone(),
            "--lun" => options.lun = number(word, value()?)?,
            "--mode" => {
                options.mode = match value()?.as_str() {
                    "load" => Mode::Load,
                    "fill" => Mode::Fill,
                    "hold" => Mode::Hold,
                    other => {
                        return Err(format!("mode '{other}' is unknown: use load, fill or hold"));
                    }
                }
            }
            "--op" => options.is_write = value()? == "write",
            "--pattern" => options.is_random = value()? == "random",
            "--block" => options.block = number(word, value()?)?,
            "--depth" => options.depth = number(word, value()?)?,
            "--sessions" => options.sessions = number(word, value()?)?,
            "--digests" => options.digests = true,
            "--warmup" => options.warmup_s = number(word, value()?)?,
            "--seconds" => options.seconds = number(word, value()?)?,
            "--core" => options.core = Some(number(word, value()?)?),
            other => return Err(format!("unknown option '{other}'")),
        }
    }
    if options.target.is_empty() {
        return Err("--target IQN is needed".into());
    }
    if options.depth == 0
        || options.sessions == 0
        || options.block == 0
        || !options.block.is_multiple_of(512)
    {
        return Err("--depth and --sessions start at 1; --block is a multiple of 512".into());
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{option} cannot be {text}"))
}

/// Returns the CPU time that this process has used, in seconds.
fn own_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
