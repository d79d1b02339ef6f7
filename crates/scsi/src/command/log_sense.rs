//! LOG SENSE and LOG SELECT (SPC-4 6.7 and 6.8), the log pages of SPC-4 7.3 and SBC-4 6.4.
//!
//! Only facts that are really known are reported. A unit has no temperature and no time, so their
//! pages do not exist, and their fields are zero. Each page has all parameters that its standard
//! makes mandatory.

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::medium::thin_provisioning::threshold_exponent;
use crate::sense::Sense;
use crate::{Start, UnitAttention};

const SUPPORTED_LOG_PAGES: u8 = 0x00;
const LOGICAL_BLOCK_PROVISIONING: u8 = 0x0C;
const GENERAL_STATISTICS_AND_PERFORMANCE: u8 = 0x19;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x2F;
const ALL_SUBPAGES: u8 = 0xFF;

/// Code and value of a log parameter. All parameters share one control byte.
type Parameter = (u16, Vec<u8>);

/// Starts LOG SENSE.
pub(crate) fn sense(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    // SP: log parameters are not saved; PPC is obsolete.
    cdb.refuse_bit(1, 0)?;
    cdb.refuse_bit(1, 1)?;
    let page = cdb.u8(2) & 0x3F;
    let subpage = cdb.u8(3);
    // PC: only cumulative values exist; their thresholds and defaults do not.
    if cdb.u8(2) >> 6 != 0b01 {
        return Err(Sense::invalid_bit_in_cdb(2, 7));
    }
    let pages = supported_pages(request.unit);
    let body = match (page, subpage) {
        (SUPPORTED_LOG_PAGES, 0) => pages,
        (SUPPORTED_LOG_PAGES, ALL_SUBPAGES) => with_subpages(&pages),
        (_, 0) if pages.contains(&page) => {
            let parameters = parameters(request.unit, page);
            let pointer = cdb.u16(5);
            if pointer > parameters.last().map_or(0, |parameter| parameter.0) {
                return Err(Sense::invalid_field_in_cdb(5));
            }
            encode(&parameters, pointer)
        }
        (_, 0) => return Err(Sense::invalid_bit_in_cdb(2, 5)),
        _ => return Err(Sense::invalid_field_in_cdb(3)),
    };
    let has_subpage = u8::from(subpage != 0) << 6;
    let mut data = vec![has_subpage | page, subpage];
    // A handful of parameters of at most 68 bytes.
    data.extend_from_slice(&(body.len() as u16).to_be_bytes());
    data.extend_from_slice(&body);
    Ok(Start::data(data, usize::from(cdb.u16(7))))
}

/// Starts LOG SELECT: PCR resets the counters. No parameter can be set.
pub(crate) fn select(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    // SP: log parameters are not saved.
    cdb.refuse_bit(1, 0)?;
    let page = cdb.u8(2) & 0x3F;
    if cdb.u8(3) != 0 {
        return Err(Sense::invalid_field_in_cdb(3));
    }
    if cdb.u16(7) != 0 {
        // Every parameter belongs to the device server, so any list is wrong. Its length shows that
        // before any byte of the list is asked for.
        return Err(Sense::parameter_list_length_error());
    }
    let resets = cdb.bit(1, 1);
    let known = page == 0 || supported_pages(request.unit).contains(&page);
    if !known {
        return Err(Sense::invalid_bit_in_cdb(2, 5));
    }
    if resets && (page == 0 || page == GENERAL_STATISTICS_AND_PERFORMANCE) {
        request.unit.statistics().reset();
        let own = request.nexus.nexus().id;
        request
            .unit
            .raise(UnitAttention::LOG_PARAMETERS_CHANGED, Some(own));
    }
    Ok(Start::good())
}

fn supported_pages(unit: &LogicalUnit) -> Vec<u8> {
    let mut pages = vec![SUPPORTED_LOG_PAGES];
    // The resource counts of the page are mandatory. A backend that does not report them has none.
    if unit.fixed_config().thin && unit.statistics().space().is_some() {
        pages.push(LOGICAL_BLOCK_PROVISIONING);
    }
    pages.extend_from_slice(&[GENERAL_STATISTICS_AND_PERFORMANCE, INFORMATIONAL_EXCEPTIONS]);
    pages
}

/// Builds the supported pages and subpages log page. Page 0 has the subpage FFh, the others none.
fn with_subpages(pages: &[u8]) -> Vec<u8> {
    let mut list = vec![SUPPORTED_LOG_PAGES, 0, SUPPORTED_LOG_PAGES, ALL_SUBPAGES];
    for &page in &pages[1..] {
        list.extend_from_slice(&[page, 0]);
    }
    list
}

fn parameters(unit: &LogicalUnit, page: u8) -> Vec<Parameter> {
    match page {
        LOGICAL_BLOCK_PROVISIONING => provisioning(unit),
        // Idle time, and the length of an interval in which idle and processing time are counted:
        // the last two are mandatory. No time is counted, and an interval of no length says so.
        GENERAL_STATISTICS_AND_PERFORMANCE => vec![
            (0x0001, statistics(unit)),
            (0x0002, vec![0; 8]),
            (0x0003, vec![0; 8]),
        ],
        // There is no informational exception. FFh means no temperature.
        _ => vec![(0x0000, vec![0x00, 0x00, 0xFF, 0x00])],
    }
}

/// Returns the parameters of SBC-4 6.4.5: counts of threshold sets, as the backend last reported
/// them.
fn provisioning(unit: &LogicalUnit) -> Vec<Parameter> {
    /// The resources may be shared with other units.
    const SCOPE_SHARED: u8 = 0b10;
    /// The resources are this unit's.
    const SCOPE_OWN: u8 = 0b01;
    let Some(space) = unit.statistics().space() else {
        return Vec::new();
    };
    let exponent = threshold_exponent(unit.block_len());
    let parameter = |code, blocks: u64, scope| {
        let sets = u32::try_from(blocks >> exponent).unwrap_or(u32::MAX);
        let [a, b, c, d] = sets.to_be_bytes();
        (code, vec![a, b, c, d, scope, 0, 0, 0])
    };
    vec![
        parameter(0x0001, space.available, SCOPE_SHARED),
        // A set that is begun counts as used.
        parameter(
            0x0002,
            space.used.saturating_add((1 << exponent) - 1),
            SCOPE_OWN,
        ),
    ]
}

/// Returns the parameters of SPC-4 7.3.8.2: eight counters, of which the four about time are zero.
fn statistics(unit: &LogicalUnit) -> Vec<u8> {
    let totals = unit.statistics().totals_since_reset();
    [
        totals.read_commands,
        totals.write_commands,
        // Initiators wrote "received" blocks, and read "transmitted" blocks.
        totals.write_blocks,
        totals.read_blocks,
        0,
        0,
        0,
        0,
    ]
    .iter()
    .flat_map(|counter| counter.to_be_bytes())
    .collect()
}

fn encode(parameters: &[Parameter], pointer: u16) -> Vec<u8> {
    /// FORMAT AND LINKING: binary list.
    const CONTROL: u8 = 0x03;
    let mut out = Vec::new();
    for (code, value) in parameters.iter().filter(|(code, _)| *code >= pointer) {
        out.extend_from_slice(&code.to_be_bytes());
        // The value has at most 64 bytes.
        out.extend_from_slice(&[CONTROL, value.len() as u8]);
        out.extend_from_slice(value);
    }
    out
}
