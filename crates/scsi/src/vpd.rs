//! Vital product data pages (SPC-4 7.8, SBC-4 6.6): identity, limits and abilities, reported
//! truthfully.

mod third_party_copy;

use crate::command_descriptor::Request;
use crate::inquiry::ascii;
use crate::logical_unit::UnitConfig;
use crate::logical_unit::limits;
use crate::medium::thin_provisioning::threshold_exponent;
use crate::sense::Sense;

/// Code of a page, and the function that builds its content after the four bytes of header.
type Page = (u8, fn(&Request<'_>) -> Vec<u8>);

/// All pages, ascending.
const PAGES: &[Page] = &[
    (0x00, supported_pages),
    (0x80, unit_serial_number),
    (0x83, device_identification),
    (0x86, extended_inquiry_data),
    (0x87, mode_page_policy),
    (0x8f, third_party_copy::page),
    (0xb0, block_limits),
    (0xb1, block_device_characteristics),
    (0xb2, logical_block_provisioning),
];

/// Returns the page with this code, header included, or INVALID FIELD IN CDB if there is none.
pub(crate) fn page(request: &Request<'_>, code: u8) -> Result<Vec<u8>, Sense> {
    let (_, body) = PAGES
        .iter()
        .find(|(known, _)| *known == code)
        .ok_or(Sense::invalid_field_in_cdb(2))?;
    let body = body(request);
    let mut out = vec![0x00, code];
    out.extend_from_slice(&(body.len() as u16).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

fn supported_pages(_: &Request<'_>) -> Vec<u8> {
    PAGES.iter().map(|(code, _)| *code).collect()
}

fn unit_serial_number(request: &Request<'_>) -> Vec<u8> {
    let serial = &config(request).serial;
    let mut out = vec![0; serial.len().min(252)];
    ascii(&mut out, serial);
    out
}

/// Builds the page of SPC-4 7.8.6. It names the unit by NAA and by T10 vendor identification, the
/// port by relative number, group and name, and the device by name. ESXi and Windows identify the
/// unit by the NAA designator.
fn device_identification(request: &Request<'_>) -> Vec<u8> {
    const BINARY: u8 = 1;
    const ASCII: u8 = 2;
    const UTF_8: u8 = 3;
    let config = config(request);
    let port = &request.nexus.nexus().target_port;
    let mut out = Vec::with_capacity(256);
    designator(&mut out, BINARY, Association::Unit, 0x3, &config.naa);
    let mut vendor_and_serial = vec![0; 8];
    ascii(&mut vendor_and_serial, &config.vendor);
    vendor_and_serial.extend(config.serial.bytes().take(64));
    designator(&mut out, ASCII, Association::Unit, 0x1, &vendor_and_serial);
    let [high, low] = port.relative_port_id.to_be_bytes();
    designator(&mut out, BINARY, Association::Port, 0x4, &[0, 0, high, low]);
    let [high, low] = port.target_port_group.to_be_bytes();
    designator(&mut out, BINARY, Association::Port, 0x5, &[0, 0, high, low]);
    let port_name = format!("{},t,0x{:04x}", port.name, port.portal_group_tag);
    designator(
        &mut out,
        UTF_8,
        Association::Port,
        0x8,
        &name_string(&port_name),
    );
    designator(
        &mut out,
        UTF_8,
        Association::Device,
        0x8,
        &name_string(&port.name),
    );
    out
}

/// Object that a designator names (SPC-4 table 596).
#[derive(Clone, Copy)]
enum Association {
    Unit = 0,
    Port = 1,
    Device = 2,
}

fn designator(out: &mut Vec<u8>, code_set: u8, whom: Association, kind: u8, bytes: &[u8]) {
    // Ports and devices have PIV and protocol identifier 5 (iSCSI).
    let (protocol, piv) = match whom {
        Association::Unit => (0, 0),
        Association::Port | Association::Device => (0x50, 0x80),
    };
    // Names are at most 223 + 9 bytes, padded to 236.
    out.extend_from_slice(&[
        protocol | code_set,
        piv | (whom as u8) << 4 | kind,
        0,
        bytes.len().min(255) as u8,
    ]);
    out.extend_from_slice(&bytes[..bytes.len().min(255)]);
}

/// Builds a SCSI name string: NUL terminated and padded to a multiple of four (SPC-4 7.8.6.11).
fn name_string(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Builds the page of SPC-4 7.8.8: all task attributes, a volatile cache, and I_T nexus loss clears
/// unit attentions.
fn extended_inquiry_data(_: &Request<'_>) -> Vec<u8> {
    let mut out = vec![0; 60];
    // HEADSUP, ORDSUP, SIMPSUP.
    out[1] = 0x07;
    // V_SUP.
    out[2] = 0x01;
    // LUICLR.
    out[3] = 0x01;
    out[9] = 64;
    out
}

/// Builds the page of SPC-4 7.8.12: all mode pages are shared by all nexuses.
fn mode_page_policy(_: &Request<'_>) -> Vec<u8> {
    vec![0x3f, 0xff, 0x00, 0x00]
}

/// Builds the page of SBC-4 6.6.4.
fn block_limits(request: &Request<'_>) -> Vec<u8> {
    let config = config(request);
    let mut out = vec![0; 64];
    let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_be_bytes());
    put(8, config.max_transfer);
    put(12, config.optimal_transfer);
    if config.thin {
        put(20, limits::MAX_UNMAP_BLOCKS);
        put(24, limits::MAX_UNMAP_DESCRIPTORS);
        // One block is no granularity, so it is not reported (0). With 4 KiB blocks, reporting it
        // would also abort QEMU and cost its users their machine. `iscsi_co_readv` takes a reported
        // granularity of 4 KiB or more for a cluster size, and asks for the status of
        // BDRV_REQUEST_MAX_BYTES. That is no multiple of 4 KiB, and `iscsi_co_block_status` aborts
        // QEMU over it.
        if config.unmap_granularity > 1 {
            put(28, config.unmap_granularity);
            // UGAVALID, and the alignment.
            put(
                32,
                (config.unmap_alignment).map_or(0, |block| 1 << 31 | block),
            );
        }
    }
    put(40, limits::MAX_WRITE_SAME_BLOCKS);
    put(44, config.max_atomic_write);
    // WSNZ.
    out[4] = 0x01;
    out[5] = limits::max_compare_and_write(config) as u8;
    out[6..8].copy_from_slice(&config.transfer_granularity.to_be_bytes());
    out.split_off(4)
}

/// Builds the page of SBC-4 6.6.2.
fn block_device_characteristics(request: &Request<'_>) -> Vec<u8> {
    let mut out = vec![0; 60];
    out[..2].copy_from_slice(&config(request).rotation_rate.to_be_bytes());
    out
}

/// Builds the page of SBC-4 6.6.6: UNMAP and WRITE SAME deallocate, and deallocated blocks read as
/// zeros.
fn logical_block_provisioning(request: &Request<'_>) -> Vec<u8> {
    if !config(request).thin {
        return vec![0; 4];
    }
    // The threshold exponent of log page 0Ch; LBPU, LBPWS, LBPWS10, LBPRZ = 001b; provisioning
    // type 2 (thin).
    let exponent = threshold_exponent(config(request).block_len);
    vec![exponent, 0xe4, 0x02, 0]
}

fn config<'a>(request: &Request<'a>) -> &'a UnitConfig {
    request.unit.fixed_config()
}
