//! A session over one TCP connection that waits for each command. It serves self-tests and tools,
//! and is not built for speed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use iscsi::initiator::{
    Command, CommandEnd, Direction, LoggedIn, Login, LoginError, LoginProgress, LoginSettings,
    Residual, Session, SessionEvent, SessionUser,
};
use iscsi::pdu::{BHS_LENGTH, Bhs, TaskAttribute};

use net::entropy::KernelEntropy;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The end of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// SCSI status; `None` if the command did not reach the device server.
    pub status: Option<u8>,
    /// Sense data.
    pub sense: Vec<u8>,
    /// Data-in.
    pub data_in: Vec<u8>,
    /// Amount of data that did not move; `None` if the command did not reach the device server.
    pub residual: Option<Residual>,
}

/// A logged-in session.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    session: Session,
    exchange: Exchange,
}

/// Command under way.
#[derive(Debug, Default)]
struct Exchange {
    data_out: Vec<u8>,
    outcome: Outcome,
    ended: bool,
    logged_out: bool,
}

impl SessionUser for Exchange {
    fn data_out(&mut self, _cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.data_out[offset as usize..(offset + length) as usize]);
    }

    fn data_in(&mut self, _cookie: u64, offset: u32, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.outcome.data_in.len() < end {
            self.outcome.data_in.resize(end, 0);
        }
        self.outcome.data_in[offset as usize..end].copy_from_slice(bytes);
    }

    fn ended(&mut self, _cookie: u64, end: CommandEnd<'_>) {
        if let CommandEnd::Status {
            status,
            sense,
            residual,
        } = end
        {
            self.outcome.status = Some(status);
            self.outcome.sense = sense.to_vec();
            self.outcome.residual = Some(residual);
        }
        self.ended = true;
    }

    fn event(&mut self, event: SessionEvent) {
        self.logged_out |= matches!(event, SessionEvent::LoggedOut(_));
    }
}

impl Connection {
    /// Connects and logs in. If a login fails because of its offer, the next one offers less.
    ///
    /// # Errors
    /// The connection fails or the target refuses.
    pub fn open(portal: SocketAddr, mut settings: LoginSettings) -> io::Result<Self> {
        let mut first = None;
        loop {
            let mut stream = TcpStream::connect_timeout(&portal, TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let (mut login, request) = Login::start(settings.clone());
            let error = match log_in(&mut stream, &mut login, request) {
                Ok(logged_in) => {
                    return Ok(Self {
                        stream,
                        session: Session::new(&logged_in),
                        exchange: Exchange::default(),
                    });
                }
                Err(error) => error,
            };
            let refusal = error
                .get_ref()
                .and_then(|error| error.downcast_ref::<LoginError>());
            let has_closed = matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            );
            let may_go_on = refusal.is_some() || has_closed;
            match login.second_offer(refusal).filter(|_| may_go_on) {
                Some(offer) => settings.offer = offer,
                None => {
                    let Some(first) = first else {
                        return Err(error);
                    };
                    let offer = settings.offer.words(&settings);
                    return Err(io::Error::other(format!(
                        "{first}; another attempt that offered {offer} failed too: {error}"
                    )));
                }
            }
            first.get_or_insert(error);
        }
    }

    /// Runs a command that reads up to `length` bytes.
    ///
    /// # Errors
    /// The session is broken.
    pub fn read(&mut self, lun: u64, cdb: &[u8], length: u32) -> io::Result<Outcome> {
        let direction = if length == 0 {
            Direction::None
        } else {
            Direction::Read
        };
        self.run(lun, cdb, direction, length, Vec::new())
    }

    /// Runs a command that writes.
    ///
    /// # Errors
    /// The session is broken.
    pub fn write(&mut self, lun: u64, cdb: &[u8], data: Vec<u8>) -> io::Result<Outcome> {
        let length = u32::try_from(data.len()).map_err(io::Error::other)?;
        self.run(lun, cdb, Direction::Write, length, data)
    }

    fn run(
        &mut self,
        lun: u64,
        cdb: &[u8],
        direction: Direction,
        length: u32,
        data: Vec<u8>,
    ) -> io::Result<Outcome> {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        let command = Command {
            lun,
            cdb: padded,
            attribute: TaskAttribute::Simple,
            direction,
            length,
        };
        self.exchange = Exchange {
            data_out: data,
            ..Exchange::default()
        };
        let mut out = Vec::new();
        self.session
            .command(0, &command, &mut self.exchange, &mut out);
        self.exchange_until(out, |exchange| exchange.ended)?;
        Ok(std::mem::take(&mut self.exchange.outcome))
    }

    fn exchange_until(
        &mut self,
        mut out: Vec<u8>,
        done: impl Fn(&Exchange) -> bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while !done(&self.exchange) {
            self.stream.write_all(&out)?;
            out.clear();
            let count = match self.stream.read(&mut buffer) {
                // A sweep that is told to end still restores what it changed.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.session
                .receive(&buffer[..count], &mut self.exchange, &mut out)
                .map_err(io::Error::other)?;
        }
        self.stream.write_all(&out)
    }

    /// Logs out.
    ///
    /// # Errors
    /// The session is broken.
    pub fn close(mut self) -> io::Result<()> {
        let mut out = Vec::new();
        self.session.logout(&mut out);
        self.exchange_until(out, |exchange| exchange.logged_out)
    }
}

/// Exchanges the PDUs of a login.
fn log_in(
    stream: &mut TcpStream,
    login: &mut Login,
    mut request: Vec<u8>,
) -> io::Result<Box<LoggedIn>> {
    loop {
        stream.write_all(&request)?;
        let mut bhs = [0; BHS_LENGTH];
        stream.read_exact(&mut bhs)?;
        let header = Bhs::new(&bhs);
        let mut data = vec![0; header.total_ahs_length() + header.padded_data_segment_length()];
        stream.read_exact(&mut data)?;
        let data = &data[header.total_ahs_length()..][..header.data_segment_length()];
        match login
            .receive(&bhs, data, &mut KernelEntropy)
            .map_err(io::Error::other)?
        {
            LoginProgress::Send(bytes) => request = bytes,
            LoginProgress::Connected(logged_in) => return Ok(logged_in),
        }
    }
}
