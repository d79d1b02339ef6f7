//! Initiator's session with many commands under way, whose connection can be cut and made again.
//!
//! One thread drives all of these sessions.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use iscsi::chap::Entropy;
use iscsi::initiator::{
    Command, CommandEnd, Direction, Login, LoginProgress, LoginSettings, Residual, Session,
    SessionEvent, SessionUser,
};
use iscsi::pdu::{
    AsyncEvent, BHS_LENGTH, Bhs, TaskAttribute, TaskManagementFunction, TaskManagementResult,
};
use rustix::event::{PollFd, PollFlags, poll};
use testing::wait;

/// Time longer than anything takes: a wait of this length would never end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Command that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) cookie: u64,
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    pub(crate) data_in: Vec<u8>,
    pub(crate) residual: Residual,
}

impl Ended {
    /// Returns ASC and ASCQ of fixed-format sense data.
    pub(crate) fn asc(&self) -> Option<(u8, u8)> {
        Some((*self.sense.get(12)?, *self.sense.get(13)?))
    }
}

/// Session with many commands under way.
#[derive(Debug)]
pub(crate) struct PipelinedSession {
    pub(crate) portal: SocketAddr,
    pub(crate) settings: LoginSettings,
    link: Option<Link>,
    /// Announcements of the target.
    announced: Vec<AsyncEvent>,
}

/// Connection of a session.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    session: Session,
    tsih: u16,
    /// CmdSN of the next command.
    next_cmd_sn: u32,
    out: Vec<u8>,
    commands: Commands,
}

/// Commands under way.
#[derive(Debug, Default)]
struct Commands {
    data_out: HashMap<u64, Vec<u8>>,
    data_in: HashMap<u64, Vec<u8>>,
    ended: Vec<Ended>,
    /// Bytes of data-out that were sent.
    sent: u64,
    /// Task management functions that were answered.
    managed: Vec<(u64, TaskManagementResult)>,
    /// Announcements of the target.
    announced: Vec<AsyncEvent>,
}

impl SessionUser for Commands {
    fn data_out(&mut self, cookie: u64, offset: u32, length: u32, out: &mut Vec<u8>) {
        self.sent += u64::from(length);
        let data = &self.data_out[&cookie];
        out.extend_from_slice(&data[offset as usize..(offset + length) as usize]);
    }

    fn data_in(&mut self, cookie: u64, offset: u32, bytes: &[u8]) {
        let data = self.data_in.entry(cookie).or_default();
        let end = offset as usize + bytes.len();
        data.resize(data.len().max(end), 0);
        data[offset as usize..end].copy_from_slice(bytes);
    }

    fn ended(&mut self, cookie: u64, end: CommandEnd<'_>) {
        let CommandEnd::Status {
            status,
            sense,
            residual,
            ..
        } = end
        else {
            panic!("command {cookie} did not reach the device server: {end:?}");
        };
        self.data_out.remove(&cookie);
        self.ended.push(Ended {
            cookie,
            status,
            sense: sense.to_vec(),
            data_in: self.data_in.remove(&cookie).unwrap_or_default(),
            residual,
        });
    }

    fn event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Rejected(_) => panic!("the target rejected a PDU: {event:?}"),
            SessionEvent::TaskManagement { cookie, result } => self.managed.push((cookie, result)),
            SessionEvent::Async { message, .. } => self.announced.push(message.async_event),
            _ => {}
        }
    }
}

struct KernelEntropy;

impl Entropy for KernelEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the kernel has random numbers");
    }
}

impl PipelinedSession {
    /// Returns a session that is not logged in yet.
    pub(crate) fn new(portal: SocketAddr, settings: LoginSettings) -> Self {
        Self {
            portal,
            settings,
            link: None,
            announced: Vec::new(),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Logs in, as often as it takes: the daemon may be starting.
    pub(crate) fn log_in(&mut self) {
        wait::until_ok("it logs in", || self.try_log_in(PATIENCE));
    }

    /// Logs in, but gives up after this time, and does not stay.
    pub(crate) fn log_in_and_go(&mut self, patience: Duration) {
        // The initiator goes anyway, whether or not it was answered in time.
        let _ = self.try_log_in(patience);
        self.cut();
    }

    /// Logs in once.
    pub(crate) fn try_log_in(&mut self, patience: Duration) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.portal, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        let (mut login, request) = Login::start(self.settings.clone());
        stream.write_all(&request)?;
        loop {
            let mut bhs = [0; BHS_LENGTH];
            stream.read_exact(&mut bhs)?;
            let mut data = vec![0; Bhs::new(&bhs).padded_data_segment_length()];
            stream.read_exact(&mut data)?;
            data.truncate(Bhs::new(&bhs).data_segment_length());
            let progress = login.receive(&bhs, &data, &mut KernelEntropy);
            match progress.map_err(io::Error::other)? {
                LoginProgress::Send(bytes) => stream.write_all(&bytes)?,
                LoginProgress::Connected(logged_in) => {
                    stream.set_nonblocking(true)?;
                    self.link = Some(Link {
                        stream,
                        session: Session::new(&logged_in),
                        tsih: logged_in.tsih,
                        next_cmd_sn: logged_in.cmd_sn,
                        out: Vec::new(),
                        commands: Commands::default(),
                    });
                    return Ok(());
                }
            }
        }
    }

    /// Returns a second connection of this session (MC/S), not logged in yet.
    ///
    /// Its commands come after the next `ahead` commands of this connection.
    pub(crate) fn second_connection(&self, ahead: u32) -> Self {
        let link = self.link.as_ref().expect("the session is logged in");
        let settings = LoginSettings {
            tsih: link.tsih,
            cid: 1,
            cmd_sn: link.next_cmd_sn.wrapping_add(ahead),
            ..self.settings.clone()
        };
        Self::new(self.portal, settings)
    }

    /// Cuts the connection; commands under way will not be answered.
    pub(crate) fn cut(&mut self) {
        if let Some(link) = self.link.take() {
            // The other side may have cut it first.
            let _ = link.stream.shutdown(Shutdown::Both);
        }
    }

    /// Starts a command that writes, or one without data.
    pub(crate) fn write(&mut self, cookie: u64, lun: u8, cdb: [u8; 16], data: Vec<u8>) {
        let direction = if data.is_empty() {
            Direction::None
        } else {
            Direction::Write
        };
        let simple = TaskAttribute::Simple;
        self.command(cookie, lun, cdb, simple, direction, data.len(), data);
    }

    /// Starts a command that writes after everything before it and before everything after it.
    pub(crate) fn write_ordered(&mut self, cookie: u64, lun: u8, cdb: [u8; 16], data: Vec<u8>) {
        let ordered = TaskAttribute::Ordered;
        self.command(
            cookie,
            lun,
            cdb,
            ordered,
            Direction::Write,
            data.len(),
            data,
        );
    }

    /// Starts a command that writes before everything that has not started (HEAD OF QUEUE).
    pub(crate) fn write_first(&mut self, cookie: u64, lun: u8, cdb: [u8; 16], data: Vec<u8>) {
        let first = TaskAttribute::HeadOfQueue;
        self.command(cookie, lun, cdb, first, Direction::Write, data.len(), data);
    }

    /// Starts a TEST UNIT READY with the ACA attribute.
    pub(crate) fn test_with_aca(&mut self, cookie: u64, lun: u8) {
        let aca = TaskAttribute::Aca;
        self.command(cookie, lun, [0; 16], aca, Direction::None, 0, Vec::new());
    }

    /// Returns the number of data-out bytes that the commands of this connection have sent.
    pub(crate) fn sent(&self) -> u64 {
        let link = self.link.as_ref().expect("the session is logged in");
        link.commands.sent
    }

    /// Starts a command that reads.
    pub(crate) fn read(&mut self, cookie: u64, lun: u8, cdb: [u8; 16], length: usize) {
        let simple = TaskAttribute::Simple;
        self.command(
            cookie,
            lun,
            cdb,
            simple,
            Direction::Read,
            length,
            Vec::new(),
        );
    }

    #[allow(clippy::too_many_arguments, reason = "all that a command is")]
    fn command(
        &mut self,
        cookie: u64,
        lun: u8,
        cdb: [u8; 16],
        attribute: TaskAttribute,
        direction: Direction,
        length: usize,
        data: Vec<u8>,
    ) {
        let link = self.link.as_mut().expect("the session is logged in");
        link.commands.data_out.insert(cookie, data);
        link.next_cmd_sn = link.next_cmd_sn.wrapping_add(1);
        let command = Command {
            lun: u64::from(lun) << 48,
            cdb,
            attribute,
            direction,
            length: length as u32,
        };
        link.session
            .command(cookie, &command, &mut link.commands, &mut link.out);
    }

    /// Asks for a task management function; `task` is the command that ABORT TASK means.
    pub(crate) fn manage(
        &mut self,
        cookie: u64,
        function: TaskManagementFunction,
        lun: u8,
        task: Option<u64>,
    ) {
        let link = self.link.as_mut().expect("the session is logged in");
        let lun = u64::from(lun) << 48;
        let sent = link
            .session
            .task_management(cookie, function, lun, task, &mut link.out);
        assert!(sent, "{function:?} could not be sent");
    }

    /// Takes the task management functions that were answered.
    pub(crate) fn take_managed(&mut self) -> Vec<(u64, TaskManagementResult)> {
        let link = self.link.as_mut().expect("the session is logged in");
        std::mem::take(&mut link.commands.managed)
    }

    /// Logs the session out; the answer is not waited for.
    pub(crate) fn log_out(&mut self) {
        let link = self.link.as_mut().expect("the session is logged in");
        link.session.logout(&mut link.out);
    }

    /// Waits until the target announces something.
    pub(crate) fn wait_until_told(&mut self) -> Vec<AsyncEvent> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            self.pump(&mut Vec::new()).expect("the connection stays");
            if !self.announced.is_empty() {
                return std::mem::take(&mut self.announced);
            }
            assert!(Instant::now() < give_up, "nothing is announced");
            wait_for_traffic(std::slice::from_ref(self));
        }
    }

    /// Waits until the target closes the connection; returns its announcements until then.
    pub(crate) fn wait_for_end(&mut self) -> Vec<AsyncEvent> {
        // Pings may come all the while.
        let give_up = Instant::now() + PATIENCE;
        while self.pump(&mut Vec::new()).is_ok() {
            assert!(Instant::now() < give_up, "the connection stays");
            wait_for_traffic(std::slice::from_ref(self));
        }
        std::mem::take(&mut self.announced)
    }

    /// Moves the data that can be moved without waiting, and takes the commands that ended.
    ///
    /// # Errors
    /// The connection is gone; the commands that ended before were taken.
    pub(crate) fn pump(&mut self, ended: &mut Vec<Ended>) -> io::Result<()> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let moved = link.exchange();
        ended.append(&mut link.commands.ended);
        self.announced.append(&mut link.commands.announced);
        if moved.is_err() {
            self.link = None;
        }
        moved
    }

    /// Returns the connection, for a caller that goes on alone, and CmdSN of the next command.
    pub(crate) fn into_stream(mut self) -> (TcpStream, u32) {
        let link = self.link.take().expect("the session is logged in");
        (link.stream, link.next_cmd_sn)
    }

    /// Sends bytes that no initiator would.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let link = self.link.as_mut().expect("the session is logged in");
        link.stream.write_all(bytes).expect("the socket has room");
    }

    /// Sends bytes that no initiator would, as far as the target takes them. Returns how many it
    /// took.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> usize {
        let link = self.link.as_mut().expect("the session is logged in");
        let mut sent = 0;
        while sent < bytes.len() {
            match link.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("the target hung up: {error}"),
            }
        }
        sent
    }

    /// Sends waiting data until the target takes no more, and reads nothing.
    pub(crate) fn send_only(&mut self) {
        let link = self.link.as_mut().expect("the session is logged in");
        while !link.out.is_empty() {
            match link.stream.write(&link.out) {
                Ok(count) => drop(link.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => panic!("the target hung up: {error}"),
            }
        }
    }

    /// Runs one command to its end while no other is under way.
    pub(crate) fn run(&mut self, lun: u8, cdb: [u8; 16], length: usize, data: Vec<u8>) -> Ended {
        let cookie = u64::MAX;
        if length > 0 {
            self.read(cookie, lun, cdb, length);
        } else {
            self.write(cookie, lun, cdb, data);
        }
        let mut ended = Vec::new();
        loop {
            self.pump(&mut ended).expect("the connection stays");
            if let Some(ended) = ended.pop() {
                assert_eq!(ended.cookie, cookie);
                return ended;
            }
            wait_for_traffic(std::slice::from_ref(self));
        }
    }

    /// Asks until the unit has told everything it had to tell a new nexus.
    pub(crate) fn wait_until_ready(&mut self, lun: u8) {
        for _ in 0..8 {
            if self.run(lun, [0; 16], 0, Vec::new()).status == 0 {
                return;
            }
        }
        panic!("logical unit {lun} does not become ready");
    }
}

impl Link {
    fn exchange(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            while !self.out.is_empty() {
                match self.stream.write(&self.out) {
                    Ok(count) => drop(self.out.drain(..count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self
                    .session
                    .receive(&buffer[..count], &mut self.commands, &mut self.out)
                    .expect("the target keeps to the protocol"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Sleeps until one of the sessions has something to read, or room to write.
pub(crate) fn wait_for_traffic(sessions: &[PipelinedSession]) {
    let mut fds: Vec<PollFd<'_>> = Vec::new();
    for link in sessions.iter().filter_map(|session| session.link.as_ref()) {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, !link.out.is_empty());
        fds.push(PollFd::new(&link.stream, flags));
    }
    let patience = PATIENCE.try_into().expect("a short time");
    let ready = poll(&mut fds, Some(&patience)).expect("poll works");
    assert!(ready > 0, "no command has ended for {PATIENCE:?}");
}
