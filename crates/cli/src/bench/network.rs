//! `bench network`: measures the path before storage is measured on it.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args as ClapArgs;

use super::run::{interrupt, now_unix_s};
use super::saved;
use crate::grammar::completion::size;
use crate::print::table;
use crate::{Done, Failure, Terminal};
use bench::machine::this_machine;
use bench::network::NetworkError;
use bench::network::client::{Direction, TestSettings, Throughput};
use bench::network::echo::RoundTrips;
use bench::network::message::{DEFAULT_PORT, MAX_PARALLEL};
use bench::network::result::NetworkResult;
use bench::network::server::Server;
use bench::network::survey::{self, OtherEnd, Step};
use hint::Place;
use model::initiator::url::bind;
use model::{Error, ErrorKind};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Host at the other end: `iperf3 -s`, or `sandstone bench network --serve`; port 5201 if none
    /// is named
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "serve")]
    host: Option<String>,
    /// Serve as the other end, for this program and for `iperf3 -c`
    #[arg(long, conflicts_with_all = ["host", "bind", "seconds", "parallel", "reverse", "forward", "window", "save", "json"])]
    serve: bool,
    /// Address to listen at [default: port 5201 of every address]
    #[arg(long, value_name = "ADDR:PORT", requires = "serve")]
    listen: Option<SocketAddr>,
    /// Start from this source address or interface
    #[arg(long, value_name = "ADDR|IFACE")]
    bind: Option<String>,
    /// Measure each direction for this long
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_PARALLEL as i64))]
    parallel: u32,
    /// Measure only from the other end to here
    #[arg(long)]
    reverse: bool,
    /// Measure only from here to the other end
    #[arg(long, conflicts_with = "reverse")]
    forward: bool,
    /// Socket buffers, which bound the TCP window [default: the kernel's own tuning]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    window: Option<u64>,
    /// Save the findings to this file, for bench report --network
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print JSON, with every second
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    match &args.host {
        Some(host) => measure(args, host, t),
        None => serve(args.listen, t),
    }
}

fn serve(listen: Option<SocketAddr>, t: &mut Terminal<'_>) -> Done {
    let address = listen.unwrap_or((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT).into());
    let failed = |error| {
        let message = format!("cannot listen for iperf3 on {address}: {error}");
        let next = Place::Address(address).next(&error);
        Error::new(ErrorKind::Unavailable, message, next).caused_by(error)
    };
    let server = match listen {
        Some(listen) => Server::bind(listen),
        // Both families, or the only one that exists.
        None => Server::bind((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into())
            .or_else(|_| Server::bind((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT).into())),
    };
    let server = server.map_err(failed)?;
    let address = server.address().map_err(failed)?;
    let stop = interrupt()?;
    writeln!(
        t.out,
        "serving bench network and iperf3 at {address}; Ctrl-C ends it"
    )?;
    t.out.flush()?;
    let report = |outcome: Result<_, NetworkError>| {
        // The output is optional: nobody has to read it.
        let _ = match outcome {
            Ok(served) => {
                let served: bench::network::server::Served = served;
                let rate = |bytes: u64| bytes as f64 / 1e6 / served.seconds.max(1e-9);
                writeln!(
                    std::io::stderr(),
                    "{}: received {:.1} MB/s, sent {:.1} MB/s for {:.1} s",
                    served.client,
                    rate(served.received),
                    rate(served.sent),
                    served.seconds
                )
            }
            Err(error) => writeln!(std::io::stderr(), "a test ended early: {error}"),
        };
    };
    server.run(&stop, &report).map_err(failed)?;
    Ok(())
}

fn measure(args: &Args, host: &str, t: &mut Terminal<'_>) -> Done {
    let window = args.window.map(u32::try_from).transpose();
    let settings = TestSettings {
        server: resolve(host)?,
        bind: args.bind.as_deref().map(bind),
        parallel: args.parallel,
        seconds: args.seconds,
        window: window.map_err(|_| {
            Error::invalid(
                "the window is larger than a socket can have",
                "choose a smaller window",
            )
        })?,
    };
    let directions: &[Direction] = match (args.forward, args.reverse) {
        (true, _) => &[Direction::Send],
        (false, true) => &[Direction::Receive],
        (false, false) => &[Direction::Send, Direction::Receive],
    };
    let stop = interrupt()?;
    let started_unix_s = now_unix_s();
    let err = &mut *t.err;
    let mut watch = |step: Step<'_>| {
        if !args.json {
            // If the seconds cannot be shown, the result still is.
            let _ = say(err, step);
        }
    };
    let survey = survey::survey(&settings, directions, &stop, &mut watch);
    let survey = survey.map_err(|error| refused(error, host))?;
    let result = NetworkResult::of(survey, this_machine(), started_unix_s);
    if args.json {
        table::json(t, &result)?;
    } else {
        print(&result, t.out)?;
    }
    if let Some(path) = &args.save {
        saved::write(path, &result)?;
    }
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Said),
        false => Ok(()),
    }
}

fn resolve(host: &str) -> Result<SocketAddr, Error> {
    let bare: Option<std::net::IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let has_port = bare.is_none() && host.contains(':');
    let failed = |reason: String| {
        Error::not_found(
            format!("{host} cannot be looked up: {reason}"),
            "name the other end as HOST, HOST:PORT or [IPV6]:PORT",
        )
    };
    if let Some(address) = bare {
        return Ok(SocketAddr::new(address, DEFAULT_PORT));
    }
    let addresses = match has_port {
        true => host.to_socket_addrs(),
        false => (host, DEFAULT_PORT).to_socket_addrs(),
    };
    let mut addresses = addresses.map_err(|error| failed(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| failed("it has no address".to_owned()))
}

fn refused(error: NetworkError, host: &str) -> Error {
    let next = match &error {
        NetworkError::Socket { .. } => {
            "run `sandstone bench network --serve` or `iperf3 -s` on that host, and let TCP port 5201 through"
        }
        NetworkError::Busy => "try again when the other client is done",
        NetworkError::Refused(_) => "choose other options",
        NetworkError::Ended | NetworkError::Interrupted => "run it again",
        NetworkError::Protocol(_) => {
            "name the port of an iperf3 server (version 3) or of `bench network --serve`"
        }
    };
    Error::new(ErrorKind::Unavailable, format!("{host}: {error}"), next).caused_by(error)
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Send => "to the other end",
        Direction::Receive => "from the other end",
    }
}

fn say(err: &mut dyn Write, step: Step<'_>) -> std::io::Result<()> {
    match step {
        Step::RoundTrips => writeln!(err, "round trips…"),
        Step::PathMtu => writeln!(err, "packet sizes…"),
        Step::Begin(direction) => writeln!(err, "throughput {}…", way(direction)),
        Step::Second(_, second) => {
            write!(
                err,
                "  {:>5.1} s  {:>8.1} MB/s",
                second.at_s,
                second.bytes_per_s() / 1e6
            )?;
            if let Some(count) = second.retransmits {
                write!(err, "  {count} sent again")?;
            }
            if let Some(rtt) = second.rtt_us {
                write!(err, "  round trip {rtt:.0} µs")?;
            }
            writeln!(err)
        }
    }
}

fn print(result: &NetworkResult, out: &mut dyn Write) -> std::io::Result<()> {
    let survey = &result.survey;
    let kind = match survey.other_end {
        OtherEnd::Iperf3 => "an iperf3 server",
        OtherEnd::Sandstone => "sandstone",
    };
    writeln!(out, "other end   {} ({kind})", survey.server)?;
    if let Some(interface) = &survey.interface {
        let speed = match (interface.bits_per_s, interface.hardware) {
            (Some(bits), _) => format!("{} Gb/s", bits as f64 / 1e9),
            (None, true) => "speed unknown".to_owned(),
            (None, false) => "no hardware, so no nominal speed".to_owned(),
        };
        let name = &interface.name;
        writeln!(out, "interface   {name}, MTU {}, {speed}", interface.mtu)?;
    }
    round_trips(out, "programs", survey.program.as_ref())?;
    round_trips(out, "kernels", survey.kernel.as_ref())?;
    if survey.program.is_none() {
        let answer = survey.first_answer_ns as f64 / 1e3;
        writeln!(out, "round trip  program, once: {answer:.0} µs")?;
    }
    for one in &survey.throughput {
        throughput(out, one)?;
    }
    if let Some(tcp) = survey.throughput.first().map(|one| one.tcp) {
        writeln!(
            out,
            "segments    {} bytes, path MTU according to TCP {}",
            tcp.mss, tcp.path_mtu
        )?;
    }
    for finding in &result.findings {
        let word = if finding.is_wrong { "WRONG" } else { "note" };
        writeln!(out, "{word:<11} {}", finding.text)?;
    }
    Ok(())
}

fn round_trips(
    out: &mut dyn Write,
    between: &str,
    times: Option<&RoundTrips>,
) -> std::io::Result<()> {
    let Some(times) = times else { return Ok(()) };
    let us = |ns: u64| ns as f64 / 1e3;
    writeln!(
        out,
        "round trip  {between}: min {:.0} µs, median {:.0} µs, p99 {:.0} µs ({} measured)",
        us(times.min_ns),
        us(times.median_ns),
        us(times.p99_ns),
        times.count
    )
}

fn throughput(out: &mut dyn Write, one: &Throughput) -> std::io::Result<()> {
    let bytes_per_s = one.bytes_per_s();
    let again = match one.retransmits {
        Some(count) => format!("{count} segments sent again"),
        None => "segments sent again: unknown".to_owned(),
    };
    writeln!(
        out,
        "throughput  {}: {:.1} MB/s = {:.3} Gb/s over {} connection{}, {again}",
        way(one.direction),
        bytes_per_s / 1e6,
        bytes_per_s * 8.0 / 1e9,
        one.parallel,
        if one.parallel == 1 { "" } else { "s" },
    )
}
