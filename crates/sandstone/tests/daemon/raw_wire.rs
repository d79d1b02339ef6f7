//! Initiator of bare PDUs: it can announce lengths and flags that no sane initiator does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use iscsi::pdu::{
    BHS_LENGTH, Bhs, DataIn, DataOut, Isid, LoginRequest, LogoutReason, LogoutRequest, Opcode,
    RawBhs, ReadyToTransfer, ScsiCommand, ScsiResponse, TaskAttribute, padded,
};

/// End of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// SCSI status.
    pub(crate) status: u8,
    /// Additional sense code and qualifier; zeros without sense data.
    pub(crate) asc: (u8, u8),
    /// Data-in of the command.
    pub(crate) data: Vec<u8>,
    /// Residual: overflow is positive, underflow negative.
    pub(crate) residual: i64,
}

/// Session in the full-feature phase.
pub(crate) struct Wire {
    stream: TcpStream,
    cmd_sn: u32,
    exp_stat_sn: u32,
}

impl Wire {
    /// Logs in to a target of this name. Immediate data is allowed, other data is asked for.
    pub(crate) fn log_in(portal: SocketAddr, target: &str) -> Self {
        let stream = TcpStream::connect(portal).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut wire = Self {
            stream,
            cmd_sn: 1,
            exp_stat_sn: 0,
        };
        let text = format!(
            "InitiatorName=iqn.2026-01.io.sandstone:raw\0SessionType=Normal\0TargetName={target}\0\
             InitialR2T=Yes\0ImmediateData=Yes\0MaxRecvDataSegmentLength=262144\0"
        );
        let request = LoginRequest {
            immediate: true,
            transit: true,
            continues: false,
            csg: 1,
            nsg: 3,
            version_max: 0,
            version_min: 0,
            total_ahs_length: 0,
            data_segment_length: text.len() as u32,
            isid: Isid([0x80, 0, 0, 0, 0, 9]),
            tsih: 0,
            itt: 0,
            cid: 0,
            cmd_sn: 1,
            exp_stat_sn: 0,
        };
        let mut bhs = [0; BHS_LENGTH];
        request.encode(&mut bhs);
        wire.send(&bhs, text.as_bytes());
        let (bhs, _) = wire.receive();
        assert_eq!(bhs[36..38], [0, 0], "the login is refused");
        assert_eq!(bhs[1] & 0x87, 0x87, "it ends in the full-feature phase");
        wire
    }

    fn send(&mut self, bhs: &RawBhs, data: &[u8]) {
        let mut pdu = bhs.to_vec();
        pdu.extend_from_slice(data);
        pdu.resize(BHS_LENGTH + padded(data.len()), 0);
        self.stream.write_all(&pdu).unwrap();
    }

    fn receive(&mut self) -> (RawBhs, Vec<u8>) {
        let mut bhs = [0; BHS_LENGTH];
        self.stream.read_exact(&mut bhs).unwrap();
        let header = Bhs::new(&bhs);
        let mut data = vec![0; header.padded_data_segment_length()];
        self.stream.read_exact(&mut data).unwrap();
        data.truncate(header.data_segment_length());
        // R2T tells the next StatSN and takes none.
        if header.opcode() != Ok(Opcode::ReadyToTransfer) {
            let stat_sn = u32::from_be_bytes(bhs[24..28].try_into().unwrap());
            self.exp_stat_sn = self.exp_stat_sn.max(stat_sn.wrapping_add(1));
        }
        (bhs, data)
    }

    /// Sends a command to LUN 0 with any header.
    ///
    /// The data-out of `offer` is sent as immediate data, or as far as the target asks for it.
    pub(crate) fn command(
        &mut self,
        cdb: [u8; 16],
        (read, write): (bool, bool),
        edtl: u32,
        offer: &[u8],
        immediate: bool,
    ) -> Answer {
        let sent = if immediate { offer } else { &[] };
        let itt = self.send_command(cdb, (read, write), edtl, sent);
        self.answer(itt, offer)
    }

    /// Asks for this much data, and does not wait for it.
    pub(crate) fn ask_for(&mut self, cdb: [u8; 16], edtl: u32) {
        self.send_command(cdb, (true, false), edtl, &[]);
    }

    /// Asks for the end of the session, and does not wait for it.
    pub(crate) fn ask_to_log_out(&mut self) {
        let request = LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseSession,
            itt: u32::MAX - 1,
            cid: 0,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        let mut bhs = [0; BHS_LENGTH];
        request.encode(&mut bhs);
        self.send(&bhs, &[]);
    }

    fn send_command(
        &mut self,
        cdb: [u8; 16],
        (read, write): (bool, bool),
        edtl: u32,
        sent: &[u8],
    ) -> u32 {
        let itt = self.cmd_sn;
        let command = ScsiCommand {
            immediate: false,
            is_final: true,
            read,
            write,
            attribute: TaskAttribute::Simple,
            total_ahs_length: 0,
            data_segment_length: sent.len() as u32,
            lun: 0,
            itt,
            expected_data_transfer_length: edtl,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb,
        };
        self.cmd_sn += 1;
        let mut bhs = [0; BHS_LENGTH];
        command.encode(&mut bhs);
        self.send(&bhs, sent);
        itt
    }

    fn answer(&mut self, itt: u32, offer: &[u8]) -> Answer {
        let mut data = Vec::new();
        loop {
            let (bhs, segment) = self.receive();
            assert_eq!(Bhs::new(&bhs).itt(), itt, "{bhs:02x?}");
            match Bhs::new(&bhs).opcode().unwrap() {
                Opcode::ReadyToTransfer => {
                    self.send_solicited(&ReadyToTransfer::parse(&bhs).unwrap(), offer);
                }
                Opcode::DataIn => {
                    let pdu = DataIn::parse(&bhs).unwrap();
                    data.extend_from_slice(&segment);
                    if pdu.status_present {
                        let residual = signed(pdu.overflow, pdu.underflow, pdu.residual_count);
                        return Answer {
                            status: pdu.status,
                            asc: (0, 0),
                            data,
                            residual,
                        };
                    }
                }
                Opcode::ScsiResponse => {
                    let pdu = ScsiResponse::parse(&bhs).unwrap();
                    let asc = segment.get(14..16).map_or((0, 0), |asc| (asc[0], asc[1]));
                    return Answer {
                        status: pdu.status,
                        asc,
                        data,
                        residual: signed(pdu.overflow, pdu.underflow, pdu.residual_count),
                    };
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn send_solicited(&mut self, r2t: &ReadyToTransfer, offer: &[u8]) {
        let from = r2t.buffer_offset as usize;
        let data = &offer[from..from + r2t.desired_data_transfer_length as usize];
        let pdu = DataOut {
            is_final: true,
            data_segment_length: data.len() as u32,
            lun: r2t.lun,
            itt: r2t.itt,
            ttt: r2t.ttt,
            exp_stat_sn: self.exp_stat_sn,
            data_sn: 0,
            buffer_offset: r2t.buffer_offset,
        };
        let mut bhs = [0; BHS_LENGTH];
        pdu.encode(&mut bhs);
        self.send(&bhs, data);
    }
}

fn signed(overflow: bool, underflow: bool, count: u32) -> i64 {
    assert!(!(overflow && underflow));
    match (overflow, underflow) {
        (true, _) => i64::from(count),
        (_, true) => -i64::from(count),
        _ => 0,
    }
}
