//! Many logins at once, then silence, as from a rack of hosts after a power cut.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use rustix::event::{Timespec, epoll};
use rustix::process::{Resource, Rlimit};

use super::Options;
use super::connection::pong;
use super::login::{Login, Parameters, Progress};
use super::wire::{HEADER_LEN, Header, RESERVED_TAG, opcode};

/// Token of standard input in epoll.
const STDIN: u64 = u64::MAX;

struct Session {
    stream: TcpStream,
    login: Login,
    /// Parameters of the session, `Some` after login.
    parameters: Option<Parameters>,
    received: Vec<u8>,
}

/// Logs in all sessions, prints the time taken as one line of JSON, and answers pings until
/// standard input ends.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let wanted = options.sessions as u64 + 64;
    let limit = Rlimit {
        current: Some(wanted),
        maximum: Some(wanted),
    };
    if rustix::process::getrlimit(Resource::Nofile)
        .current
        .is_some_and(|now| now < wanted)
    {
        rustix::process::setrlimit(Resource::Nofile, limit)
            .map_err(|e| format!("cannot open {wanted} files: {e}"))?;
    }
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| format!("epoll: {e}"))?;
    epoll::add(
        &poll,
        rustix::stdio::stdin(),
        epoll::EventData::new_u64(STDIN),
        epoll::EventFlags::IN,
    )
    .map_err(|e| format!("standard input must be a pipe: {e}"))?;
    let start = Instant::now();
    let mut sessions = Vec::with_capacity(options.sessions);
    for number in 0..options.sessions {
        let session = open(options, number as u32).map_err(|e| format!("session {number}: {e}"))?;
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&poll, &session.stream, data, epoll::EventFlags::IN)
            .map_err(|e| format!("epoll: {e}"))?;
        sessions.push(session);
    }
    let mut logged_in = 0;
    let mut ready = [epoll::Event {
        flags: epoll::EventFlags::empty(),
        data: epoll::EventData::new_u64(0),
    }; 64];
    let patience = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    loop {
        let count = match epoll::wait(&poll, &mut ready, Some(&patience)) {
            Ok(0) if logged_in < sessions.len() => {
                return Err(format!(
                    "only {logged_in} of {} sessions logged in within 60 s",
                    sessions.len()
                ));
            }
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(format!("epoll: {e}")),
        };
        for event in &ready[..count] {
            if event.data.u64() == STDIN {
                return Ok(());
            }
            let number = event.data.u64() as usize;
            if sessions[number]
                .serve()
                .map_err(|e| format!("session {number}: {e}"))?
            {
                logged_in += 1;
                if logged_in == sessions.len() {
                    println!(
                        "{{\"sessions\":{logged_in},\"seconds\":{:.6}}}",
                        start.elapsed().as_secs_f64()
                    );
                    std::io::stdout().flush().map_err(|e| e.to_string())?;
                }
            }
        }
    }
}

fn open(options: &Options, number: u32) -> std::io::Result<Session> {
    let mut stream = TcpStream::connect(options.portal)?;
    stream.set_nodelay(true)?;
    let (login, request) = Login::start(number, &options.target, options.digests);
    stream.write_all(&request)?;
    stream.set_nonblocking(true)?;
    Ok(Session {
        stream,
        login,
        parameters: None,
        received: Vec::new(),
    })
}

impl Session {
    /// Takes the bytes that arrived. Returns `true` if they ended the login.
    fn serve(&mut self) -> Result<bool, String> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err("the target closed the session".into()),
            Ok(read) => self.received.extend_from_slice(&buffer[..read]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(e) => return Err(e.to_string()),
        }
        let mut completed = false;
        while let Some((header, data)) = self.next_pdu() {
            let reply = if self.parameters.is_none() {
                match self.login.answer(&header, &data)? {
                    Progress::Send(request) => Some(request),
                    Progress::Done(parameters) => {
                        self.parameters = Some(parameters);
                        completed = true;
                        None
                    }
                }
            } else {
                self.pong(&header)?
            };
            if let Some(bytes) = reply {
                self.stream.write_all(&bytes).map_err(|e| e.to_string())?;
            }
        }
        Ok(completed)
    }

    /// Returns the next PDU, which has no digests: the storm does not offer them in the full
    /// feature phase.
    fn next_pdu(&mut self) -> Option<(Header, Vec<u8>)> {
        if self.received.len() < HEADER_LEN {
            return None;
        }
        let header = Header::at(&self.received);
        let len = header.data_len() as usize;
        let whole = HEADER_LEN + len.next_multiple_of(4);
        if self.received.len() < whole {
            return None;
        }
        let data = self.received[HEADER_LEN..HEADER_LEN + len].to_vec();
        self.received.drain(..whole);
        Some((header, data))
    }

    fn pong(&self, header: &Header) -> Result<Option<Vec<u8>>, String> {
        match (header.opcode(), &self.parameters) {
            (opcode::NOP_IN, Some(parameters)) if header.u32(20) != RESERVED_TAG => Ok(Some(
                pong(header, header.u32(28), parameters.exp_stat_sn)
                    .0
                    .to_vec(),
            )),
            (opcode::NOP_IN, _) => Ok(None),
            (other, _) => Err(format!(
                "the target sent opcode {other:#04x} to a silent session"
            )),
        }
    }
}
