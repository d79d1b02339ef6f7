//! The volatile write cache of a logical unit, read and set by its Caching mode page (WCE, SBC-4
//! 6.5.6). Users of arrays turn the cache on and off to see its effect.
//!
//! Each question has a session of its own, so no other I/O is affected.

use std::io;
use std::net::ToSocketAddrs as _;

use scsi::application_client::report_luns;
use scsi::application_client::sense::{Reaction, SenseCode};

use super::connection::{Connection, Outcome};
use model::initiator::settings::{DeviceSettings, Route, SessionSettings, TargetSettings};
use model::initiator::url::{LunUrl, UrlError};
use model::initiator::view::InitiatorDevice;
use net::entropy::{KernelEntropy, random_isid};

const CACHING: u8 = 0x08;
/// WCE bit, in byte 2 of the page.
const WCE: u8 = 0x04;
/// Allocation length with room for the header and any page.
const LENGTH: u16 = 255;
/// Number of times that a unit may report a change instead of answering.
const TRIES: u32 = 16;

/// Write cache of one logical unit.
#[derive(Debug)]
pub struct WriteCache {
    target: TargetSettings,
    lun: u64,
}

impl WriteCache {
    /// Names the write cache of the logical unit at a URL, without asking the target.
    ///
    /// # Errors
    /// The URL is malformed.
    pub fn of(url: &str) -> Result<Self, UrlError> {
        let session = SessionSettings::new(super::own_name::initiator_name());
        let LunUrl { target, .. } = LunUrl::parse(url, session, DeviceSettings::default())?;
        let lun = report_luns::from_number(target.lun.unwrap_or(0));
        Ok(Self { target, lun })
    }

    /// Names the write cache of an open device, over its first path that works. `targets` are the
    /// targets of its configuration.
    pub fn reached_by(device: &InitiatorDevice, targets: &[TargetSettings]) -> Option<Self> {
        let mut ways = device.ways.iter();
        ways.find_map(|way| {
            let mut target = targets.iter().find(|it| it.name == way.target)?.clone();
            target.routes = vec![Route {
                portal: way.portal.clone(),
                bind: None,
            }];
            let lun = report_luns::from_number(way.lun?);
            Some(Self { target, lun })
        })
    }

    /// Reports whether the write cache is on.
    ///
    /// # Errors
    /// The target cannot be reached, or tells nothing of a write cache.
    pub fn is_on(&self) -> io::Result<bool> {
        let mut connection = self.connect()?;
        let page = self.page(&mut connection)?;
        connection.close()?;
        Ok(page[2] & WCE != 0)
    }

    /// Turns the write cache on or off, until the target forgets the setting.
    ///
    /// # Errors
    /// The target cannot be reached, or the unit does not allow the change.
    pub fn turn(&self, on: bool) -> io::Result<()> {
        let mut connection = self.connect()?;
        let mut page = self.page(&mut connection)?;
        if (page[2] & WCE != 0) != on {
            page[2] ^= WCE;
            // PS says only that the page can be saved (SPC-4 7.5.7); the bit is reserved in MODE
            // SELECT.
            page[0] &= 0x3f;
            let mut list = vec![0; 8];
            list.extend(&page);
            let [high, low] = (list.len() as u16).to_be_bytes();
            // MODE SELECT (10), PF = 1, SP = 0.
            let cdb = [0x55, 0x10, 0, 0, 0, 0, 0, high, low, 0];
            let answer = ask(|| connection.write(self.lun, &cdb, list.clone()))?;
            good(&answer, "MODE SELECT of the write cache")?;
            if (self.page(&mut connection)?[2] & WCE != 0) != on {
                return Err(io::Error::other(
                    "the unit accepted a change of its write cache, but did not make it",
                ));
            }
        }
        connection.close()
    }

    fn connect(&self) -> io::Result<Connection> {
        let route = self.target.routes.first();
        let portal = route.map_or("", |route| route.portal.as_str());
        let mut addresses = portal.to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        let session = &self.target.session;
        Connection::open(
            address,
            session.login(&self.target.name, random_isid(&mut KernelEntropy)),
        )
    }

    /// Reads the current Caching mode page.
    fn page(&self, connection: &mut Connection) -> io::Result<Vec<u8>> {
        let [high, low] = LENGTH.to_be_bytes();
        // MODE SENSE (10), DBD = 1, current values.
        let cdb = [0x5a, 0x08, CACHING, 0, 0, 0, 0, high, low, 0];
        let answer = ask(|| connection.read(self.lun, &cdb, LENGTH.into()))?;
        good(&answer, "MODE SENSE of the write cache")?;
        caching_page(&answer.data_in).ok_or_else(|| {
            io::Error::other("the unit does not report a write cache (no Caching mode page)")
        })
    }
}

/// Extracts the page from the data of MODE SENSE (10).
fn caching_page(data: &[u8]) -> Option<Vec<u8>> {
    let descriptors = u16::from_be_bytes([*data.get(6)?, *data.get(7)?]);
    let page = data.get(8 + usize::from(descriptors)..)?;
    let length = usize::from(*page.get(1)?) + 2;
    let is_it = page[0] & 0x3f == CACHING && length > 2;
    is_it.then(|| page.get(..length).map(<[u8]>::to_vec))?
}

/// Repeats a command while the unit only reports unit attentions.
fn ask(mut command: impl FnMut() -> io::Result<Outcome>) -> io::Result<Outcome> {
    let mut answer = command()?;
    for _ in 0..TRIES {
        let reaction = SenseCode::decode(&answer.sense).map(|code| code.reaction());
        let is_news = matches!(
            reaction,
            Some(
                Reaction::UnitAttention
                    | Reaction::CapacityChanged
                    | Reaction::LunsChanged
                    | Reaction::IdentityChanged
                    | Reaction::AccessStateChanged
                    | Reaction::ReservationsChanged
            )
        );
        if answer.status != Some(2) || !is_news {
            break;
        }
        answer = command()?;
    }
    Ok(answer)
}

fn good(answer: &Outcome, what: &str) -> io::Result<()> {
    let why = match (answer.status, SenseCode::decode(&answer.sense)) {
        (Some(0), _) => return Ok(()),
        (Some(2), Some(code)) => code.to_string(),
        (Some(status), _) => format!("status {status:02x}h"),
        (None, _) => "no answer".to_owned(),
    };
    Err(io::Error::other(format!("{what} was refused: {why}")))
}

#[cfg(test)]
mod tests {
    use super::caching_page;

    #[test]
    fn the_page_is_found_behind_descriptors_and_only_whole() {
        let mut data = vec![0, 30, 0, 0, 0, 0, 0, 8];
        data.extend([0xaa; 8]);
        data.extend([0x88, 0x12, 0x04]);
        data.extend([0; 17]);
        let page = caching_page(&data).unwrap();
        assert_eq!((page.len(), page[2]), (20, 4));
        for length in 0..data.len() {
            assert_eq!(caching_page(&data[..length]), None, "{length}");
        }
        data[16] = 0x0a;
        assert_eq!(caching_page(&data), None, "another page");
    }
}
