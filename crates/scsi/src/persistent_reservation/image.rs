//! State that survives a power loss (APTPL, SPC-4 5.13.5): registrations and reservation as bytes.
//!
//! PRGENERATION is not part of it: a power on sets it to zero whatever APTPL says (SPC-4 6.15.2).

use std::collections::BTreeMap;

use super::{MAX_REGISTRATIONS, PersistentReservations, Registrant, Reservation, ReservationType};
use crate::nexus::InitiatorPort;

/// First byte of an image. Another layout gets another number.
const VERSION: u8 = 1;
/// Index of the holder if all registrants hold, or if no one does.
const NO_HOLDER: u32 = u32::MAX;

/// Error for a saved image that [`PersistentReservations::to_bytes`] did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedImage;

impl std::fmt::Display for DamagedImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the saved persistent reservations are damaged or of an unknown version")
    }
}

impl std::error::Error for DamagedImage {}

impl PersistentReservations {
    /// Returns the state that must survive a power loss, empty if APTPL is off.
    ///
    /// ```text
    /// version u8 | type u8 (0: no reservation) | holder u32 (index, FFFF FFFFh: none) | count u32
    /// count × ( key u64 | relative target port u16 | ISID 6 bytes | name length u16 | name )
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        if !self.activate_through_power_loss || self.registrations.is_empty() {
            return Vec::new();
        }
        let holder = self
            .reservation
            .as_ref()
            .and_then(|reservation| reservation.holder.as_ref())
            .and_then(|holder| self.registrations.keys().position(|entry| entry == holder))
            // The index is bounded by MAX_REGISTRATIONS.
            .map_or(NO_HOLDER, |index| index as u32);
        let kind = self.reservation.as_ref().map_or(0, |it| it.kind as u8);
        let mut bytes = vec![VERSION, kind];
        bytes.extend_from_slice(&holder.to_be_bytes());
        bytes.extend_from_slice(&(self.registrations.len() as u32).to_be_bytes());
        for (registrant, key) in &self.registrations {
            let name = registrant.initiator.name.as_bytes();
            bytes.extend_from_slice(&key.to_be_bytes());
            bytes.extend_from_slice(&registrant.relative_port_id.to_be_bytes());
            bytes.extend_from_slice(&registrant.initiator.isid);
            // An iSCSI name has at most 223 bytes.
            bytes.extend_from_slice(&(name.len() as u16).to_be_bytes());
            bytes.extend_from_slice(name);
        }
        bytes
    }

    /// Returns the state after a power on, from the bytes of [`PersistentReservations::to_bytes`].
    ///
    /// # Errors
    /// [`DamagedImage`]. The unit must then not be served as if it were unreserved.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DamagedImage> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader(bytes);
        let [version, kind] = reader.array()?;
        let holder = u32::from_be_bytes(reader.array()?);
        let count = u32::from_be_bytes(reader.array()?) as usize;
        if version != VERSION || count == 0 || count > MAX_REGISTRATIONS {
            return Err(DamagedImage);
        }
        let mut registrations = BTreeMap::new();
        let mut order = Vec::with_capacity(count);
        for _ in 0..count {
            let (registrant, key) = reader.registration()?;
            order.push(registrant.clone());
            if key == 0 || registrations.insert(registrant, key).is_some() {
                return Err(DamagedImage);
            }
        }
        if !reader.0.is_empty() {
            return Err(DamagedImage);
        }
        let reservation = match (kind, ReservationType::from_code(kind)) {
            (0, _) if holder == NO_HOLDER => None,
            (_, Some(kind)) if kind.is_all_registrants() && holder == NO_HOLDER => {
                Some(Reservation { kind, holder: None })
            }
            (_, Some(kind)) if !kind.is_all_registrants() => {
                let holder = order.get(holder as usize).ok_or(DamagedImage)?;
                Some(Reservation::new(kind, holder))
            }
            _ => return Err(DamagedImage),
        };
        Ok(Self {
            generation: 0,
            registrations,
            reservation,
            activate_through_power_loss: true,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DamagedImage> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(DamagedImage)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn registration(&mut self) -> Result<(Registrant, u64), DamagedImage> {
        let key = u64::from_be_bytes(self.array()?);
        let relative_port_id = u16::from_be_bytes(self.array()?);
        let isid = self.array()?;
        let name_len = usize::from(u16::from_be_bytes(self.array()?));
        let (name, rest) = self.0.split_at_checked(name_len).ok_or(DamagedImage)?;
        self.0 = rest;
        let name = String::from_utf8(name.to_vec()).map_err(|_| DamagedImage)?;
        let registrant = Registrant {
            initiator: InitiatorPort { name, isid },
            relative_port_id,
        };
        Ok((registrant, key))
    }
}
