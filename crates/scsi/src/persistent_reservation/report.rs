//! PERSISTENT RESERVE IN parameter data (SPC-4 6.15), in full length. The command cuts it to the
//! allocation length.

use super::{PersistentReservations, Registrant, TransportId};

impl PersistentReservations {
    /// Builds the data of READ KEYS (SPC-4 6.15.2).
    pub fn read_keys(&self) -> Vec<u8> {
        let mut list = Vec::with_capacity(self.registrations.len() * 8);
        for key in self.registrations.values() {
            list.extend_from_slice(&key.to_be_bytes());
        }
        self.with_header(list)
    }

    /// Builds the data of READ RESERVATION (SPC-4 6.15.3). The key is zero if all registrants hold.
    pub fn read_reservation(&self) -> Vec<u8> {
        let mut descriptor = Vec::new();
        if let Some(reservation) = &self.reservation {
            let holder = reservation.holder.as_ref();
            let key = holder
                .and_then(|holder| self.registrations.get(holder))
                .copied()
                .unwrap_or(0);
            descriptor.extend_from_slice(&key.to_be_bytes());
            descriptor.extend_from_slice(&[0, 0, 0, 0, 0, reservation.kind as u8, 0, 0]);
        }
        self.with_header(descriptor)
    }

    /// Builds the data of REPORT CAPABILITIES (SPC-4 6.15.4): CRH, SIP_C, ATP_C, PTPL_C, and all
    /// six types.
    pub fn report_capabilities(&self) -> Vec<u8> {
        let persists = u8::from(self.activate_through_power_loss);
        vec![0, 8, 0x1D, 0x80 | persists, 0xEA, 0x01, 0, 0]
    }

    /// Builds the data of READ FULL STATUS (SPC-4 6.15.5).
    pub fn read_full_status(&self) -> Vec<u8> {
        let mut list = Vec::new();
        for (registrant, key) in &self.registrations {
            self.full_status_descriptor(registrant, *key, &mut list);
        }
        self.with_header(list)
    }

    fn full_status_descriptor(&self, registrant: &Registrant, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&key.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        let held = self.reservation.as_ref().filter(|_| self.holds(registrant));
        match held {
            Some(reservation) => out.extend_from_slice(&[0x01, reservation.kind as u8]),
            None => out.extend_from_slice(&[0, 0]),
        }
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&registrant.relative_port_id.to_be_bytes());
        let mut transport_id = Vec::new();
        TransportId::encode(&registrant.initiator, &mut transport_id);
        // A TransportID has at most 4 + 65 532 bytes.
        out.extend_from_slice(&(transport_id.len() as u32).to_be_bytes());
        out.extend_from_slice(&transport_id);
    }

    /// Puts PRGENERATION and ADDITIONAL LENGTH before the list.
    fn with_header(&self, list: Vec<u8>) -> Vec<u8> {
        let mut data = Vec::with_capacity(8 + list.len());
        data.extend_from_slice(&self.generation.to_be_bytes());
        // The list is bounded by MAX_REGISTRATIONS descriptors of a few hundred bytes.
        data.extend_from_slice(&(list.len() as u32).to_be_bytes());
        data.extend_from_slice(&list);
        data
    }
}
