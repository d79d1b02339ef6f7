//! Login of one session: straight to the operational stage, with all keys in the first request.

use super::wire::{Header, IMMEDIATE, opcode};

/// Negotiated parameters that the load needs.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    /// Longest data segment that the target takes.
    pub target_segment: u32,
    pub first_burst: u32,
    pub immediate_data: bool,
    pub initial_r2t: bool,
    pub digests: bool,
    pub cmd_sn: u32,
    pub max_cmd_sn: u32,
    pub exp_stat_sn: u32,
}

/// Next step after a login response.
pub(super) enum Progress {
    /// Send these bytes and wait for the next response.
    Send(Vec<u8>),
    /// Full feature phase is reached.
    Done(Parameters),
}

/// State of one login.
pub(super) struct Login {
    isid: u32,
    parameters: Parameters,
    rounds: u32,
}

/// Declared MaxRecvDataSegmentLength: one PDU for any transfer of the benchmark.
const OWN_SEGMENT: u32 = 262_144;

impl Login {
    /// Returns the state and the first request.
    pub(super) fn start(number: u32, target: &str, digests: bool) -> (Self, Vec<u8>) {
        let digest = if digests { "CRC32C" } else { "None" };
        let text = [
            format!("InitiatorName=iqn.2026-01.org.example:lean-{number}"),
            format!("TargetName={target}"),
            "SessionType=Normal".into(),
            format!("HeaderDigest={digest}"),
            format!("DataDigest={digest}"),
            format!("MaxRecvDataSegmentLength={OWN_SEGMENT}"),
            "InitialR2T=No".into(),
            "ImmediateData=Yes".into(),
            "FirstBurstLength=262144".into(),
            "MaxBurstLength=1048576".into(),
            "MaxOutstandingR2T=8".into(),
            "MaxConnections=1".into(),
            "ErrorRecoveryLevel=0".into(),
            "DefaultTime2Wait=0".into(),
            "DefaultTime2Retain=0".into(),
            "DataPDUInOrder=Yes".into(),
            "DataSequenceInOrder=Yes".into(),
        ];
        // The standard's defaults hold if the target does not answer.
        let parameters = Parameters {
            target_segment: 8192,
            first_burst: 65_536,
            immediate_data: true,
            initial_r2t: true,
            digests: false,
            cmd_sn: 1,
            max_cmd_sn: 1,
            exp_stat_sn: 0,
        };
        let login = Self {
            isid: number,
            parameters,
            rounds: 0,
        };
        let request = login.request(
            text.iter()
                .flat_map(|pair| pair.bytes().chain([0]))
                .collect(),
        );
        (login, request)
    }

    /// Builds a request of the operational stage that asks for full feature phase (RFC 7143 11.12).
    fn request(&self, text: Vec<u8>) -> Vec<u8> {
        let mut header = Header::new(opcode::LOGIN | IMMEDIATE, 0x87);
        header.set_data_len(text.len() as u32);
        header.0[8] = 0x80; // ISID of the random format
        header.0[10..14].copy_from_slice(&self.isid.to_be_bytes());
        header.set_u32(16, 1);
        header.set_u32(24, self.parameters.cmd_sn);
        header.set_u32(28, self.parameters.exp_stat_sn);
        let mut bytes = header.0.to_vec();
        bytes.extend_from_slice(&text);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Takes a login response.
    pub(super) fn answer(&mut self, header: &Header, text: &[u8]) -> Result<Progress, String> {
        if header.opcode() != opcode::LOGIN_RESPONSE {
            return Err(format!(
                "opcode {:#04x} where a login response was expected",
                header.opcode()
            ));
        }
        let status = u16::from_be_bytes([header.0[36], header.0[37]]);
        if status != 0 {
            return Err(format!("login refused with status {status:#06x}"));
        }
        self.rounds += 1;
        if self.rounds > 5 {
            return Err("login does not end".into());
        }
        let parameters = &mut self.parameters;
        parameters.exp_stat_sn = header.u32(24).wrapping_add(1);
        parameters.cmd_sn = header.u32(28);
        parameters.max_cmd_sn = header.u32(32);
        for pair in text
            .split(|byte| *byte == 0)
            .filter(|pair| !pair.is_empty())
        {
            parameters.take(&String::from_utf8_lossy(pair));
        }
        if header.flags() & 0x83 == 0x83 {
            return Ok(Progress::Done(parameters.clone()));
        }
        Ok(Progress::Send(self.request(Vec::new())))
    }
}

impl Parameters {
    fn take(&mut self, pair: &str) {
        let Some((key, value)) = pair.split_once('=') else {
            return;
        };
        let number = value.parse::<u32>().ok();
        match (key, number) {
            ("MaxRecvDataSegmentLength", Some(n)) => self.target_segment = n,
            ("FirstBurstLength", Some(n)) => self.first_burst = n,
            ("ImmediateData", _) => self.immediate_data = value == "Yes",
            ("InitialR2T", _) => self.initial_r2t = value == "Yes",
            ("HeaderDigest", _) => self.digests = value == "CRC32C",
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(flags: u8, status: u16) -> Header {
        let mut header = Header::new(opcode::LOGIN_RESPONSE, flags);
        header.set_u32(24, 9);
        header.set_u32(28, 1);
        header.set_u32(32, 129);
        header.0[36..38].copy_from_slice(&status.to_be_bytes());
        header
    }

    #[test]
    fn a_login_may_take_several_rounds() {
        let (mut login, request) = Login::start(5, "iqn.2026-01.org.example:t", true);
        assert_eq!(request.len() % 4, 0);
        assert!(request.windows(19).any(|w| w == b"HeaderDigest=CRC32C"));
        let first = login.answer(
            &response(0x04, 0),
            b"HeaderDigest=CRC32C\0MaxRecvDataSegmentLength=65536\0",
        );
        assert!(matches!(first, Ok(Progress::Send(_))));
        let Ok(Progress::Done(parameters)) = login.answer(&response(0x87, 0), b"InitialR2T=No\0")
        else {
            panic!("not done")
        };
        assert!(parameters.digests && !parameters.initial_r2t && parameters.immediate_data);
        assert_eq!(
            (parameters.target_segment, parameters.first_burst),
            (65_536, 65_536)
        );
        assert_eq!(
            (
                parameters.exp_stat_sn,
                parameters.cmd_sn,
                parameters.max_cmd_sn
            ),
            (10, 1, 129)
        );
    }

    #[test]
    fn a_refusal_is_an_error() {
        let (mut login, _) = Login::start(5, "iqn.2026-01.org.example:t", false);
        assert!(login.answer(&response(0x87, 0x0203), b"").is_err());
    }
}
