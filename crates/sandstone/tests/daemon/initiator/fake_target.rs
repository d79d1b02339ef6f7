//! Scripted target: login completes, a small disk answers, and the script may break every rule.

#[path = "fake_target/disk.rs"]
mod disk;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use iscsi::chap::Entropy;
use iscsi::negotiation::TargetLimits;
use iscsi::pdu::{
    BHS_LENGTH, Bhs, DataIn, DataOut, LoginRequest, LoginStatus, LogoutRequest, LogoutResponse,
    LogoutResult, NopIn, NopOut, Opcode, RESERVED_TAG, ReadyToTransfer, ScsiCommand, ScsiResponse,
    ServiceResponse, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
    TextRequest, TextResponse,
};
use iscsi::target::login::{
    Authentication, Authorization, ExistingSession, Login, LoginIdentity, LoginOutcome,
    LoginPolicy, LoginResult, LoginTerms,
};

pub(crate) use disk::World;

/// iSCSI name of every fake.
pub(crate) const NAME: &str = "iqn.2026-01.org.example:fake";

/// Function that sees each SCSI command first, and returns whether it has handled the command.
type Script = dyn Fn(&mut Peer, &Command) -> io::Result<bool> + Send + Sync;

/// Function that sees each login request and its text first, and decides its fate.
type Gate = dyn Fn(&LoginRequest, &str) -> Admission + Send + Sync;

/// Fate of a login request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Admission {
    /// The request is handled as usual.
    Usual,
    /// The request is refused.
    Refused(LoginStatus),
    /// The connection is closed without a word.
    Closed,
}

/// Portal of a scripted target.
pub(crate) struct FakeTarget {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    world: Arc<Mutex<World>>,
    authorization: Mutex<Authorization>,
    gate: Mutex<Option<Box<Gate>>>,
    /// Text that answers SendTargets.
    told: Mutex<Vec<u8>>,
    script: Box<Script>,
    /// Numbers of bytes after which each of the next connections is closed.
    budgets: Mutex<VecDeque<usize>>,
    /// Largest number of bytes of one write to the socket.
    piece: AtomicUsize,
    pause: Mutex<Duration>,
    lives: AtomicUsize,
    /// Number of sessions that were logged out of.
    logouts: AtomicUsize,
    connections: AtomicUsize,
    /// Whether task management functions are answered.
    aborts: AtomicBool,
    over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// SCSI command with its immediate data, or with all data of a write.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) header: ScsiCommand,
    pub(crate) data: Vec<u8>,
}

impl Command {
    pub(crate) fn opcode(&self) -> u8 {
        self.header.cdb[0]
    }

    /// Reports whether the command is READ (16) or WRITE (16).
    pub(crate) fn is_io(&self) -> bool {
        matches!(self.opcode(), 0x88 | 0x8a)
    }

    /// Reports whether the command is INQUIRY for this page; `None` is the standard data.
    pub(crate) fn is_inquiry(&self, page: Option<u8>) -> bool {
        let cdb = &self.header.cdb;
        cdb[0] == 0x12 && (cdb[1] & 1 == 1).then_some(cdb[2]) == page
    }

    fn field(&self, range: std::ops::Range<usize>) -> u64 {
        let bytes = &self.header.cdb[range];
        bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}

pub(crate) fn allowed(authentication: Authentication) -> Authorization {
    in_group(1, authentication)
}

/// Returns these portal settings in a portal group of that tag.
pub(crate) fn in_group(portal_group_tag: u16, authentication: Authentication) -> Authorization {
    Authorization::Allowed(LoginTerms {
        authentication,
        limits: TargetLimits::default(),
        portal_group_tag,
        target_alias: String::new(),
        command_window: 64,
    })
}

struct Policy(Authorization);

impl LoginPolicy for Policy {
    fn authorize(&mut self, _: &LoginIdentity) -> Authorization {
        self.0.clone()
    }

    fn existing_session(&mut self, _: &LoginIdentity) -> Option<ExistingSession> {
        None
    }

    fn admit(&mut self, _: &LoginResult) -> Result<u16, LoginStatus> {
        Ok(1)
    }
}

struct KernelEntropy;

impl Entropy for KernelEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).unwrap();
    }
}

impl FakeTarget {
    /// Starts a target that behaves.
    pub(crate) fn honest(world: World) -> Self {
        Self::start(world, |_, _| Ok(false))
    }

    pub(crate) fn start(
        world: World,
        script: impl Fn(&mut Peer, &Command) -> io::Result<bool> + Send + Sync + 'static,
    ) -> Self {
        Self::portal(Arc::new(Mutex::new(world)), script)
    }

    /// Adds another portal of this world.
    pub(crate) fn portal(
        world: Arc<Mutex<World>>,
        script: impl Fn(&mut Peer, &Command) -> io::Result<bool> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            world,
            authorization: Mutex::new(allowed(Authentication::None)),
            gate: Mutex::default(),
            told: Mutex::default(),
            script: Box::new(script),
            budgets: Mutex::default(),
            piece: AtomicUsize::new(usize::MAX),
            pause: Mutex::default(),
            lives: AtomicUsize::new(0),
            logouts: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            aborts: AtomicBool::new(true),
            over: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.over.load(Ordering::Relaxed) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), Arc::clone(&accepting));
                shared.connections.fetch_add(1, Ordering::Relaxed);
                shared
                    .streams
                    .lock()
                    .unwrap()
                    .push(stream.try_clone().unwrap());
                std::thread::spawn(move || {
                    // Whatever the result, the connection is over; the other side is the one under
                    // test.
                    let _ = serve(stream, &shared);
                });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("iscsi://{}/{NAME}/0{rest}", self.address)
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap()
    }

    pub(crate) fn authorize(&self, authorization: Authorization) {
        *self.shared.authorization.lock().unwrap() = authorization;
    }

    /// Lets this function decide about each login request from now on.
    pub(crate) fn guard(
        &self,
        gate: impl Fn(&LoginRequest, &str) -> Admission + Send + Sync + 'static,
    ) {
        *self.shared.gate.lock().unwrap() = Some(Box::new(gate));
    }

    /// Answers SendTargets with this text.
    pub(crate) fn tell(&self, text: &[u8]) {
        *self.shared.told.lock().unwrap() = text.to_vec();
    }

    /// Closes the next connection after this number of bytes.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.shared.budgets.lock().unwrap().push_back(bytes);
    }

    /// Writes at most this number of bytes at once.
    pub(crate) fn dribble(&self, bytes: usize) {
        self.shared.piece.store(bytes, Ordering::Relaxed);
    }

    /// Lets new connections read 4 KiB at a time with this pause, and hold little unread data.
    pub(crate) fn crawl(&self, pause: Duration) {
        *self.shared.pause.lock().unwrap() = pause;
    }

    /// Returns the number of sessions so far that were logged out of.
    pub(crate) fn logouts(&self) -> usize {
        self.shared.logouts.load(Ordering::Relaxed)
    }

    /// Returns the number of sessions so far.
    pub(crate) fn lives(&self) -> usize {
        self.shared.lives.load(Ordering::Relaxed)
    }

    /// Returns the number of connections so far, logged in or not.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Answers no task management function any more.
    pub(crate) fn ignore_aborts(&self) {
        self.shared.aborts.store(false, Ordering::Relaxed);
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for FakeTarget {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.cut();
        let _ = TcpStream::connect(self.address);
    }
}

/// Connection from the target's side.
pub(crate) struct Peer {
    stream: TcpStream,
    world: Arc<Mutex<World>>,
    piece: usize,
    /// Pause before each 4 KiB that the peer reads.
    pause: Duration,
    /// Number of bytes that the peer may still send.
    pub(crate) budget: usize,
    /// Number of the session, from 0 on.
    pub(crate) life: usize,
    pub(crate) stat_sn: u32,
    pub(crate) exp_cmd_sn: u32,
    /// Number of commands that the peer takes beyond the next one.
    pub(crate) window: u32,
    /// Writes whose data has not all come, by ITT.
    collecting: HashMap<u32, Command>,
    /// Command that is answered only when its abort is asked for, just in time.
    pub(crate) stashed: Option<Command>,
    /// Abort that came too late for the stashed command: it is answered with the next command.
    owed: Option<u32>,
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let pause = *shared.pause.lock().unwrap();
    if !pause.is_zero() {
        socket2::SockRef::from(&stream).set_recv_buffer_size(64 << 10)?;
    }
    let budget = shared.budgets.lock().unwrap().pop_front();
    let mut peer = Peer {
        stream,
        world: Arc::clone(&shared.world),
        piece: shared.piece.load(Ordering::Relaxed),
        pause,
        budget: budget.unwrap_or(usize::MAX),
        life: 0,
        stat_sn: 0,
        exp_cmd_sn: 0,
        window: 63,
        collecting: HashMap::new(),
        stashed: None,
        owed: None,
    };
    let mut policy = Policy(shared.authorization.lock().unwrap().clone());
    let mut login = Login::new();
    loop {
        let (bhs, data) = peer.read_pdu()?;
        let request = LoginRequest::parse(&bhs).map_err(io::Error::other)?;
        let gate = shared.gate.lock().unwrap();
        let text = String::from_utf8_lossy(&data).replace('\0', " ");
        let admission = gate.as_ref().map(|gate| gate(&request, &text));
        drop(gate);
        match admission {
            None | Some(Admission::Usual) => {}
            Some(Admission::Refused(status)) => return peer.refuse(&request, status),
            Some(Admission::Closed) => {
                peer.close();
                return Ok(());
            }
        }
        let reply = login.receive(&bhs, &data, &mut policy, &mut KernelEntropy);
        if let LoginOutcome::Connected(result) = &reply.outcome {
            (peer.stat_sn, peer.exp_cmd_sn) = (result.stat_sn, result.exp_cmd_sn);
            peer.life = shared.lives.fetch_add(1, Ordering::Relaxed);
        }
        peer.send(&reply.pdu)?;
        match reply.outcome {
            LoginOutcome::Pending => {}
            LoginOutcome::Connected(_) => break,
            LoginOutcome::Refused(_) => return Ok(()),
        }
    }
    while peer.turn(shared)? {}
    Ok(())
}

impl Peer {
    fn read_pdu(&mut self) -> io::Result<([u8; BHS_LENGTH], Vec<u8>)> {
        let mut bhs = [0; BHS_LENGTH];
        self.stream.read_exact(&mut bhs)?;
        let header = Bhs::new(&bhs);
        let mut data = vec![0; header.total_ahs_length() + header.padded_data_segment_length()];
        for piece in data.chunks_mut(4096) {
            self.stream.read_exact(piece)?;
            // A target that reads slowly, if its test wants one.
            std::thread::sleep(self.pause);
        }
        data.drain(..header.total_ahs_length());
        data.truncate(header.data_segment_length());
        Ok((bhs, data))
    }

    /// Sends bytes, as far as the budget goes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let within = &bytes[..bytes.len().min(self.budget)];
        for piece in within.chunks(self.piece) {
            self.stream.write_all(piece)?;
        }
        self.budget -= within.len();
        if within.len() < bytes.len() {
            self.close();
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Handles one PDU, and returns whether the session goes on.
    fn turn(&mut self, shared: &Shared) -> io::Result<bool> {
        let (bhs, data) = self.read_pdu()?;
        match Bhs::new(&bhs).opcode().map_err(io::Error::other)? {
            Opcode::ScsiCommand => {
                let header = ScsiCommand::parse(&bhs).map_err(io::Error::other)?;
                self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
                if let Some(itt) = self.owed.take() {
                    self.managed(itt, TaskManagementResult::TaskDoesNotExist)?;
                }
                let command = Command { header, data };
                if !(shared.script)(self, &command)? {
                    self.take(command)?;
                }
            }
            Opcode::DataOut => {
                let header = DataOut::parse(&bhs).map_err(io::Error::other)?;
                let Some(mut command) = self.collecting.remove(&header.itt) else {
                    return Ok(true);
                };
                assert_eq!(
                    command.data.len(),
                    header.buffer_offset as usize,
                    "in order"
                );
                command.data.extend_from_slice(&data);
                let is_whole =
                    command.data.len() as u32 == command.header.expected_data_transfer_length;
                match (is_whole, header.is_final) {
                    (true, _) => self.perform(&command)?,
                    (false, true) => self.take(command)?,
                    (false, false) => drop(self.collecting.insert(header.itt, command)),
                }
            }
            Opcode::NopOut => {
                let ping = NopOut::parse(&bhs).map_err(io::Error::other)?;
                if ping.itt != RESERVED_TAG {
                    self.pong(ping.itt)?;
                }
            }
            Opcode::TaskManagementRequest if shared.aborts.load(Ordering::Relaxed) => {
                let request = TaskManagementRequest::parse(&bhs).map_err(io::Error::other)?;
                match self.stashed.take() {
                    None => self.managed(request.itt, TaskManagementResult::Complete)?,
                    Some(command) => {
                        self.take(command)?;
                        self.owed = Some(request.itt);
                    }
                }
            }
            Opcode::TextRequest => {
                let told = shared.told.lock().unwrap().clone();
                self.tell(&bhs, &told)?;
            }
            Opcode::LogoutRequest => {
                let request = LogoutRequest::parse(&bhs).map_err(io::Error::other)?;
                shared.logouts.fetch_add(1, Ordering::Relaxed);
                let response = LogoutResponse {
                    response: LogoutResult::Closed,
                    time2wait_s: 0,
                    time2retain_s: 0,
                    itt: request.itt,
                    stat_sn: self.next_stat_sn(),
                    exp_cmd_sn: self.exp_cmd_sn,
                    max_cmd_sn: self.max_cmd_sn(),
                };
                let mut bhs = [0; BHS_LENGTH];
                response.encode(&mut bhs);
                self.send(&bhs)?;
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    }

    /// Answers a login request with a refusal.
    fn refuse(&mut self, request: &LoginRequest, status: LoginStatus) -> io::Result<()> {
        let mut bhs = [0; BHS_LENGTH];
        bhs[0] = 0x23;
        bhs[8..14].copy_from_slice(&request.isid.0);
        bhs[16..20].copy_from_slice(&request.itt.to_be_bytes());
        bhs[36..38].copy_from_slice(&status.0.to_be_bytes());
        self.send(&bhs)
    }

    /// Answers SendTargets, in one piece.
    fn tell(&mut self, bhs: &[u8; BHS_LENGTH], text: &[u8]) -> io::Result<()> {
        let request = TextRequest::parse(bhs).map_err(io::Error::other)?;
        let response = TextResponse {
            is_final: true,
            continues: false,
            data_segment_length: text.len() as u32,
            lun: 0,
            itt: request.itt,
            ttt: RESERVED_TAG,
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        let mut answer = [0; BHS_LENGTH];
        response.encode(&mut answer);
        let mut answer = answer.to_vec();
        answer.extend_from_slice(text);
        answer.resize(answer.len().next_multiple_of(4), 0);
        self.send(&answer)
    }

    /// Answers a task management function.
    fn managed(&mut self, itt: u32, result: TaskManagementResult) -> io::Result<()> {
        let response = TaskManagementResponse {
            response: result,
            additional_response_information: [0; 3],
            itt,
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        let mut bhs = [0; BHS_LENGTH];
        response.encode(&mut bhs);
        self.send(&bhs)
    }

    pub(crate) fn next_stat_sn(&mut self) -> u32 {
        self.stat_sn = self.stat_sn.wrapping_add(1);
        self.stat_sn.wrapping_sub(1)
    }

    pub(crate) fn max_cmd_sn(&self) -> u32 {
        self.exp_cmd_sn.wrapping_add(self.window)
    }

    /// Answers a ping, asked or not.
    pub(crate) fn pong(&mut self, itt: u32) -> io::Result<()> {
        let pong = NopIn {
            data_segment_length: 0,
            lun: 0,
            itt,
            ttt: RESERVED_TAG,
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        let mut bhs = [0; BHS_LENGTH];
        pong.encode(&mut bhs);
        self.send(&bhs)
    }

    /// Returns a NOP-In that wants an answer.
    pub(crate) fn ping(&self) -> [u8; BHS_LENGTH] {
        let ping = NopIn {
            data_segment_length: 0,
            lun: 0,
            itt: RESERVED_TAG,
            ttt: 77,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        let mut bhs = [0; BHS_LENGTH];
        ping.encode(&mut bhs);
        bhs
    }

    /// Performs a command, after the rest of its data was asked for.
    fn take(&mut self, command: Command) -> io::Result<()> {
        let (have, whole) = (
            command.data.len() as u32,
            command.header.expected_data_transfer_length,
        );
        if command.header.write && have < whole {
            if command.header.is_final || have > command.header.data_segment_length {
                let r2t = self.r2t(&command.header, 0, have, whole - have);
                self.send(&r2t)?;
            }
            self.collecting.insert(command.header.itt, command);
            return Ok(());
        }
        self.perform(&command)
    }

    pub(crate) fn r2t(
        &self,
        command: &ScsiCommand,
        r2t_sn: u32,
        offset: u32,
        length: u32,
    ) -> [u8; BHS_LENGTH] {
        let r2t = ReadyToTransfer {
            lun: command.lun,
            itt: command.itt,
            ttt: 5,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            r2t_sn,
            buffer_offset: offset,
            desired_data_transfer_length: length,
        };
        let mut bhs = [0; BHS_LENGTH];
        r2t.encode(&mut bhs);
        bhs
    }

    /// Returns the SCSI Response PDU of a status.
    pub(crate) fn response(&mut self, itt: u32, status: u8, sense: &[u8]) -> Vec<u8> {
        let length = if sense.is_empty() { 0 } else { sense.len() + 2 };
        let response = ScsiResponse {
            bidirectional_read_overflow: false,
            bidirectional_read_underflow: false,
            overflow: false,
            underflow: false,
            response: ServiceResponse::Completed,
            status,
            data_segment_length: length as u32,
            itt,
            snack_tag: 0,
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            exp_data_sn: 0,
            bidirectional_read_residual_count: 0,
            residual_count: 0,
        };
        let mut bhs = [0; BHS_LENGTH];
        response.encode(&mut bhs);
        let mut pdu = bhs.to_vec();
        if length > 0 {
            pdu.extend_from_slice(&(sense.len() as u16).to_be_bytes());
            pdu.extend_from_slice(sense);
            pdu.resize(pdu.len().next_multiple_of(4), 0);
        }
        pdu
    }

    pub(crate) fn status(&mut self, command: &Command, status: u8) -> io::Result<bool> {
        let pdu = self.response(command.header.itt, status, &[]);
        self.send(&pdu)?;
        Ok(true)
    }

    /// Sends CHECK CONDITION with key, additional code and qualifier.
    pub(crate) fn sense(&mut self, command: &Command, code: [u8; 3]) -> io::Result<bool> {
        let mut sense = [0; 18];
        (sense[0], sense[2], sense[7]) = (0x70, code[0], 10);
        (sense[12], sense[13]) = (code[1], code[2]);
        let pdu = self.response(command.header.itt, 2, &sense);
        self.send(&pdu)?;
        Ok(true)
    }

    /// Sends GOOD with this data, cut to the expected length.
    pub(crate) fn answer(&mut self, command: &Command, data: &[u8]) -> io::Result<bool> {
        let asked = command.header.expected_data_transfer_length as usize;
        let data = &data[..data.len().min(asked)];
        let left = (asked - data.len()) as u32;
        let mut header = self.data_in(command, data.len() as u32);
        header.underflow = left > 0;
        header.residual_count = left;
        self.send_data(&header, data)?;
        Ok(true)
    }

    /// Returns the header of a command's only Data-In, with status.
    pub(crate) fn data_in(&mut self, command: &Command, length: u32) -> DataIn {
        DataIn {
            is_final: true,
            acknowledge: false,
            overflow: false,
            underflow: false,
            status_present: true,
            status: 0,
            data_segment_length: length,
            lun: 0,
            itt: command.header.itt,
            ttt: RESERVED_TAG,
            stat_sn: self.next_stat_sn(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            data_sn: 0,
            buffer_offset: 0,
            residual_count: 0,
        }
    }

    pub(crate) fn send_data(&mut self, header: &DataIn, data: &[u8]) -> io::Result<()> {
        let mut bhs = [0; BHS_LENGTH];
        header.encode(&mut bhs);
        let mut pdu = bhs.to_vec();
        pdu.extend_from_slice(data);
        pdu.resize(pdu.len().next_multiple_of(4), 0);
        self.send(&pdu)
    }
}
