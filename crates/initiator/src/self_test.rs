//! The self-test of `demo --once`: a real session over TCP writes, reads back and compares.

use std::io;
use std::net::SocketAddr;

use iscsi::initiator::LoginSettings;
use iscsi::negotiation::DigestPolicy;
use iscsi::pdu::Isid;
use scsi::application_client::sense::SenseCode;

use super::connection::{Connection, Outcome};

/// Result of the self-test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes written, read back and compared.
    pub verified_bytes: u64,
    /// Capacity in blocks.
    pub blocks: u64,
    /// Block length in bytes.
    pub block_len: u32,
}

/// Largest transfer of the test in bytes. It is longer than one burst, so that R2Ts are needed too.
const LARGE: u32 = 2 << 20;

/// Logs in with digests and reads the capacity. Writes pieces from one block to [`LARGE`] at both
/// ends of the unit, and flushes. Reads them back in a second session and compares. The previous
/// content is restored.
///
/// # Errors
/// The error describes the failure in words.
pub fn run(portal: SocketAddr, target: &str) -> io::Result<Report> {
    let mut connection = open(portal, target, 1)?;
    let capacity = good(
        connection.read(
            0,
            &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
            32,
        )?,
        "READ CAPACITY(16)",
    )?;
    let Some((last, rest)) = capacity.data_in.split_first_chunk::<8>() else {
        return Err(io::Error::other(
            "READ CAPACITY(16) returned too little data",
        ));
    };
    let blocks = u64::from_be_bytes(*last) + 1;
    let block_len = rest
        .first_chunk::<4>()
        .map_or(512, |length| u32::from_be_bytes(*length));
    let mut report = Report {
        verified_bytes: 0,
        blocks,
        block_len,
    };
    let mut pieces = Vec::new();
    for bytes in [block_len, 4096, 64 * 1024, LARGE] {
        let count = u64::from(bytes.max(block_len) / block_len).min(blocks);
        pieces.push((0, count));
        pieces.push((blocks - count, count));
    }
    for (seed, (lba, count)) in pieces.into_iter().enumerate() {
        let before = read(&mut connection, lba, count, block_len)?;
        let data = pattern(seed as u64 + 1, before.len());
        write(&mut connection, lba, count, data.clone())?;
        good(
            connection.read(0, &[0x91, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0)?,
            "SYNCHRONIZE CACHE(16)",
        )?;
        let mut second = open(portal, target, 2)?;
        let found = read(&mut second, lba, count, block_len)?;
        second.close()?;
        if found != data {
            return Err(io::Error::other(format!(
                "{count} blocks at LBA {lba} read back different from the written data"
            )));
        }
        write(&mut connection, lba, count, before)?;
        report.verified_bytes += data.len() as u64;
    }
    connection.close()?;
    Ok(report)
}

fn open(portal: SocketAddr, target: &str, number: u8) -> io::Result<Connection> {
    let isid = Isid([0x80, 0, 0, 0, 0, number]);
    let mut settings = LoginSettings::new(
        "iqn.2026-01.io.sandstone:self-test",
        Some(target.to_owned()),
        isid,
    );
    settings.limits.header_digest = DigestPolicy::Prefer;
    settings.limits.data_digest = DigestPolicy::Prefer;
    let mut connection = Connection::open(portal, settings)?;
    // A new nexus is told of its power-on (SAM-5 5.14) until a command has been answered GOOD.
    for _ in 0..8 {
        if connection.read(0, &[0; 6], 0)?.status == Some(0) {
            return Ok(connection);
        }
    }
    Err(io::Error::other("the logical unit does not become ready"))
}

fn cdb16(opcode: u8, lba: u64, count: u64) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&(count as u32).to_be_bytes());
    cdb
}

fn read(connection: &mut Connection, lba: u64, count: u64, block_len: u32) -> io::Result<Vec<u8>> {
    let outcome = connection.read(0, &cdb16(0x88, lba, count), count as u32 * block_len)?;
    Ok(good(outcome, "READ(16)")?.data_in)
}

fn write(connection: &mut Connection, lba: u64, count: u64, data: Vec<u8>) -> io::Result<()> {
    let outcome = connection.write(0, &cdb16(0x8a, lba, count), data)?;
    good(outcome, "WRITE(16)").map(drop)
}

fn good(outcome: Outcome, command: &str) -> io::Result<Outcome> {
    if outcome.status == Some(0) {
        return Ok(outcome);
    }
    Err(io::Error::other(refusal(command, &outcome)))
}

/// Returns the sentence about a command that was not carried out.
fn refusal(command: &str, outcome: &Outcome) -> String {
    let reason = match (outcome.status, SenseCode::decode(&outcome.sense)) {
        (None, _) => "it did not reach the device server".to_owned(),
        (Some(_), Some(sense)) => {
            let (reaction, sense) = (sense.reaction().to_string(), sense.to_string());
            match sense.starts_with(&reaction) {
                true => sense,
                false => format!("{reaction} ({sense})"),
            }
        }
        (Some(status), None) => format!("SCSI status {status:02x}h"),
    };
    format!("the target did not carry out {command}: {reason}")
}

/// Returns bytes that never repeat within a piece (xorshift64*).
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    });
    words
        .take(len.div_ceil(8))
        .flat_map(u64::to_le_bytes)
        .take(len)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_in_words_what_the_target_answered() {
        let ended = |status, sense: &[u8]| Outcome {
            status,
            sense: sense.to_vec(),
            ..Outcome::default()
        };
        let failure = [0x70, 0, 4, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x44, 0, 0, 0, 0, 0];
        let told = refusal("WRITE(16)", &ended(Some(2), &failure));
        assert!(
            told.ends_with("WRITE(16): HARDWARE ERROR 4/44/00"),
            "{told}"
        );
        let full = [0x70, 0, 7, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x27, 7, 0, 0, 0, 0];
        let told = refusal("WRITE(16)", &ended(Some(2), &full));
        assert!(told.ends_with(" (DATA PROTECT 7/27/07)"), "{told}");
        let told = refusal("READ(16)", &ended(Some(0x18), &[]));
        assert!(told.ends_with("READ(16): SCSI status 18h"), "{told}");
        let told = refusal("READ(16)", &ended(None, &[]));
        assert!(told.ends_with("did not reach the device server"), "{told}");
    }
}
