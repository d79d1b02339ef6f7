//! Mode pages: the parts of a unit's behaviour that initiators see and may change (SPC-4 7.5, SBC-4
//! 6.5).
//!
//! Initiators can change WCE (caching), and TST, D_SENSE, QERR, SWP and TAS (control). These exist
//! three times: current, saved and default. All else in a page is built from them, so a page cannot
//! drift from the behaviour of the unit.

use crate::logical_unit::config::UnitConfig;
use crate::medium::thin_provisioning::{SoftThreshold, threshold_exponent};
use crate::sense::Sense;
use crate::task_set::TaskSetType;

/// Parameters that can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parameters {
    write_cache: bool,
    descriptor_sense: bool,
    software_write_protect: bool,
    task_aborted_status: bool,
    /// QERR: two bits, never 10b.
    queue_error: u8,
    /// TST: three bits, 000b or 001b.
    task_set_type: u8,
}

/// Values for which MODE SENSE asks: the PC field (SPC-4 table 155).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageControl {
    /// 00b: the values that hold now.
    Current,
    /// 01b: a mask of the bits that MODE SELECT may change.
    Changeable,
    /// 10b: the values that hold before anything was saved.
    Default,
    /// 11b: the values that hold after a reset.
    Saved,
}

impl PageControl {
    /// Returns the page control of a PC field of two bits.
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Current,
            1 => Self::Changeable,
            2 => Self::Default,
            _ => Self::Saved,
        }
    }
}

/// Effect of a command that ends with CHECK CONDITION on the other commands in the task set. It is
/// the QERR field of the control mode page (SPC-4 7.5.8), combined with the task set that TST
/// defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueErrorPolicy {
    /// 00b: no effect.
    LeaveOthers,
    /// 01b, one task set for all I_T nexuses: all are aborted.
    AbortAll,
    /// 11b, or 01b with a task set for each I_T nexus: all commands of that I_T nexus are aborted.
    AbortOfNexus,
}

/// Page code and subpage code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageId(u8, u8);

const READ_WRITE_ERROR_RECOVERY: PageId = PageId(0x01, 0x00);
const DISCONNECT_RECONNECT: PageId = PageId(0x02, 0x00);
const CACHING: PageId = PageId(0x08, 0x00);
const CONTROL: PageId = PageId(0x0a, 0x00);
const CONTROL_EXTENSION: PageId = PageId(0x0a, 0x01);
const INFORMATIONAL_EXCEPTIONS: PageId = PageId(0x1c, 0x00);
const LOGICAL_BLOCK_PROVISIONING: PageId = PageId(0x1c, 0x02);

/// Offset of the one threshold descriptor in the logical block provisioning page. The INFORMATION
/// field also contains it when the threshold is reached.
pub(crate) const THRESHOLD_DESCRIPTOR_AT: u8 = 16;

/// All pages, in the order in which MODE SENSE returns them (ascending).
const PAGES: [PageId; 7] = [
    READ_WRITE_ERROR_RECOVERY,
    DISCONNECT_RECONNECT,
    CACHING,
    CONTROL,
    CONTROL_EXTENSION,
    INFORMATIONAL_EXCEPTIONS,
    LOGICAL_BLOCK_PROVISIONING,
];

/// Page code that asks for all pages, and subpage code that asks for all subpages.
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// Mode pages of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModePages {
    current: Parameters,
    saved: Parameters,
    default: Parameters,
    changeable: Parameters,
    /// WCE of a backend that ignores requests to change it, or `None` if it obeys them.
    fixed_write_cache: Option<bool>,
    /// Threshold that the administrator decides. Initiators see it and cannot change it.
    soft_threshold: SoftThreshold,
    /// IALUAE: whether access states also change without a request of an initiator.
    implicit_alua: bool,
    thin: bool,
    block_len: u32,
}

impl ModePages {
    /// Makes the pages of a unit of this configuration, with nothing saved.
    pub(crate) fn new(config: &UnitConfig, implicit_alua: bool) -> Self {
        let default = Parameters {
            write_cache: config.write_cache,
            ..Parameters::default()
        };
        let changeable = Parameters {
            write_cache: config.write_cache_changeable,
            descriptor_sense: true,
            software_write_protect: true,
            task_aborted_status: true,
            queue_error: 0b11,
            // The mask has all bits of a field of which any part can change (SPC-4 6.11).
            task_set_type: 0b111,
        };
        Self {
            current: default,
            saved: default,
            default,
            changeable,
            fixed_write_cache: None,
            soft_threshold: SoftThreshold::default(),
            implicit_alua,
            thin: config.thin,
            block_len: config.block_len,
        }
    }

    /// Returns the soft threshold of thin provisioning.
    pub(crate) fn soft_threshold(&self) -> &SoftThreshold {
        &self.soft_threshold
    }

    /// Returns the soft threshold of thin provisioning, to change it.
    pub(crate) fn soft_threshold_mut(&mut self) -> &mut SoftThreshold {
        &mut self.soft_threshold
    }

    /// Sets IALUAE. Returns whether it changed.
    pub(crate) fn set_implicit_alua(&mut self, enabled: bool) -> bool {
        std::mem::replace(&mut self.implicit_alua, enabled) != enabled
    }

    /// Returns WCE.
    pub(crate) fn write_cache(&self) -> bool {
        self.fixed_write_cache.unwrap_or(self.current.write_cache)
    }

    /// Returns the WCE that would hold after [`Self::fix_write_cache`].
    pub(crate) fn write_cache_under(&self, fixed: Option<bool>) -> bool {
        fixed.unwrap_or(self.current.write_cache)
    }

    /// Switches the write cache on for now, without saving the change.
    pub(crate) fn keep_write_cache(&mut self) {
        self.current.write_cache = true;
    }

    /// Fixes WCE in spite of requests, or leaves WCE to the initiators. Returns whether the value
    /// in MODE SENSE changed.
    pub(crate) fn fix_write_cache(&mut self, fixed: Option<bool>) -> bool {
        std::mem::replace(&mut self.fixed_write_cache, fixed) != fixed
    }

    /// Returns D_SENSE.
    pub(crate) fn descriptor_sense(&self) -> bool {
        self.current.descriptor_sense
    }

    /// Returns SWP.
    pub(crate) fn software_write_protect(&self) -> bool {
        self.current.software_write_protect
    }

    /// Switches SWP off, for now and after a reset. Returns whether the value in MODE SENSE
    /// changed.
    pub(crate) fn end_software_write_protect(&mut self) -> bool {
        self.saved.software_write_protect = false;
        std::mem::replace(&mut self.current.software_write_protect, false)
    }

    /// Returns TAS.
    pub(crate) fn task_aborted_status(&self) -> bool {
        self.current.task_aborted_status
    }

    /// Returns the policy of QERR. 01b and 11b differ only if nexuses share a task set.
    pub(crate) fn queue_error_policy(&self) -> QueueErrorPolicy {
        match (self.current.queue_error, self.task_set_type()) {
            (0b01, TaskSetType::Shared) => QueueErrorPolicy::AbortAll,
            (0b01, TaskSetType::PerNexus) | (0b11, _) => QueueErrorPolicy::AbortOfNexus,
            _ => QueueErrorPolicy::LeaveOthers,
        }
    }

    /// Returns TST.
    pub(crate) fn task_set_type(&self) -> TaskSetType {
        if self.current.task_set_type == TASK_SET_PER_NEXUS {
            TaskSetType::PerNexus
        } else {
            TaskSetType::Shared
        }
    }

    /// Sets WCE for now, after a reset and by default. Returns whether the current value changed.
    pub(crate) fn set_write_cache(&mut self, enabled: bool) -> bool {
        let before = self.write_cache();
        for values in [&mut self.current, &mut self.saved, &mut self.default] {
            values.write_cache = enabled;
        }
        self.write_cache() != before
    }

    /// Resets the pages: current values become the saved ones.
    pub(crate) fn reset(&mut self) {
        self.current = self.saved;
    }

    /// Saves for MODE SELECT with SP = 1: the present values also hold after a reset.
    pub(crate) fn save_current(&mut self) {
        self.saved = self.current;
    }

    /// Undoes [`Self::save_current`] and the changes with it, after saving failed.
    pub(crate) fn revert_to(&mut self, before: &Self) {
        self.current = before.current;
        self.saved = before.saved;
    }

    /// Returns the saved values as a byte, and the default WCE under which they were saved.
    pub(crate) fn to_bytes(&self) -> [u8; 2] {
        let saved = self.saved;
        let bits = u8::from(saved.write_cache)
            | u8::from(saved.descriptor_sense) << 1
            | u8::from(saved.software_write_protect) << 2
            | u8::from(saved.task_aborted_status) << 3
            | saved.queue_error << 4
            | saved.task_set_type << 6;
        [bits, u8::from(self.default.write_cache)]
    }

    /// Takes over the bytes of [`Self::to_bytes`], or returns `None` for other bytes.
    ///
    /// WCE is taken over only if initiators may change it, and only if the administrator's setting
    /// is still the one under which it was saved. An administrator who changed the configuration
    /// since has decided anew. Images of earlier versions do not hold the setting under which they
    /// were saved. From them, only a cache that is off is taken over.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Option<()> {
        let configured = self.default.write_cache;
        let (bits, write_cache) = match *bytes {
            [bits @ 0..=0x7f] => (bits, configured && bits & 1 != 0),
            [bits @ 0..=0x7f, then @ 0..=1] if (then == 1) == configured => (bits, bits & 1 != 0),
            [bits @ 0..=0x7f, 0..=1] => (bits, configured),
            _ => return None,
        };
        let queue_error = bits >> 4 & 0b11;
        if queue_error == RESERVED_QUEUE_ERROR {
            return None;
        }
        self.saved.queue_error = queue_error;
        self.saved.task_set_type = bits >> 6;
        if self.changeable.write_cache {
            self.saved.write_cache = write_cache;
        }
        self.saved.descriptor_sense = bits & 2 != 0;
        self.saved.software_write_protect = bits & 4 != 0;
        self.saved.task_aborted_status = bits & 8 != 0;
        self.current = self.saved;
        Some(())
    }
}

impl ModePages {
    /// Returns the pages for which MODE SENSE asks (SPC-4 6.11), one after the other.
    ///
    /// # Errors
    /// INVALID FIELD IN CDB if there is no page of this code.
    pub(crate) fn sense(
        &self,
        control: PageControl,
        page: u8,
        subpage: u8,
    ) -> Result<Vec<u8>, Sense> {
        if page == ALL_PAGES && subpage != 0 && subpage != ALL_SUBPAGES {
            // Reserved (SPC-4 6.11).
            return Err(Sense::invalid_field_in_cdb(3));
        }
        let wanted = |id: &PageId| {
            (page == ALL_PAGES || page == id.0) && (subpage == ALL_SUBPAGES || subpage == id.1)
        };
        let mut out = Vec::with_capacity(128);
        for id in self.pages().filter(wanted) {
            out.extend_from_slice(&self.page(id, control));
        }
        if out.is_empty() {
            let subpage_is_wrong = self.pages().any(|id| id.0 == page);
            return Err(Sense::invalid_field_in_cdb(if subpage_is_wrong {
                3
            } else {
                2
            }));
        }
        Ok(out)
    }

    /// Applies the pages of a MODE SELECT parameter list that starts at byte `offset` of the list.
    /// Nothing is applied if any page is refused.
    ///
    /// # Errors
    /// INVALID FIELD IN PARAMETER LIST for an unknown page, a wrong length, a changed bit that
    /// cannot change, or a reserved value. PARAMETER LIST LENGTH ERROR if a page is cut short
    /// (SPC-4 6.9).
    pub(crate) fn select(&mut self, mut list: &[u8], mut offset: usize) -> Result<(), Sense> {
        let mut next = self.clone();
        while !list.is_empty() {
            let has_subpage = list[0] & 0x40 != 0;
            let header = if has_subpage { 4 } else { 2 };
            if list.len() < header {
                return Err(Sense::parameter_list_length_error());
            }
            let id = PageId(list[0] & 0x3f, if has_subpage { list[1] } else { 0 });
            if !self.pages().any(|known| known == id) || has_subpage != (id.1 != 0) {
                return Err(Sense::invalid_field_in_parameter_list(offset as u16));
            }
            let now = next.page(id, PageControl::Current);
            if list[header - 1] != now[header - 1] || (has_subpage && list[2] != now[2]) {
                let at = if has_subpage { 2 } else { 1 };
                return Err(Sense::invalid_field_in_parameter_list((offset + at) as u16));
            }
            let Some((page, rest)) = list.split_at_checked(now.len()) else {
                return Err(Sense::parameter_list_length_error());
            };
            let changeable = next.page(id, PageControl::Changeable);
            for at in header..page.len() {
                if (page[at] ^ now[at]) & !changeable[at] != 0 {
                    return Err(Sense::invalid_field_in_parameter_list((offset + at) as u16));
                }
            }
            if id == CONTROL
                && let Some(at) = reserved_control_value(page)
            {
                return Err(Sense::invalid_field_in_parameter_list((offset + at) as u16));
            }
            next.take_over(id, page);
            offset += page.len();
            list = rest;
        }
        *self = next;
        Ok(())
    }

    /// Returns the pages of this unit.
    fn pages(&self) -> impl Iterator<Item = PageId> {
        let thin = self.thin;
        let offered = move |id: &PageId| thin || *id != LOGICAL_BLOCK_PROVISIONING;
        PAGES.into_iter().filter(offered)
    }

    fn take_over(&mut self, id: PageId, page: &[u8]) {
        let bit = |at: usize, bit: u8| page[at] >> bit & 1 != 0;
        if id == CACHING {
            if self.fixed_write_cache.is_none() {
                self.current.write_cache = bit(2, 2);
            }
        } else if id == CONTROL {
            self.current.descriptor_sense = bit(2, 2);
            self.current.queue_error = queue_error(page);
            self.current.task_set_type = task_set_type(page);
            self.current.software_write_protect = bit(4, 3);
            self.current.task_aborted_status = bit(5, 6);
        }
    }

    /// Builds one page with its header.
    fn page(&self, id: PageId, control: PageControl) -> Vec<u8> {
        let (fixed, mut parameters) = match control {
            PageControl::Current => (true, self.current),
            PageControl::Changeable => (false, self.changeable),
            PageControl::Default => (true, self.default),
            PageControl::Saved => (true, self.saved),
        };
        if let Some(enabled) = self.fixed_write_cache {
            parameters.write_cache = fixed && enabled;
        }
        let mut page = match id {
            READ_WRITE_ERROR_RECOVERY => read_write_error_recovery(fixed, self.thin),
            DISCONNECT_RECONNECT => titled(id, 16),
            CACHING => caching(parameters),
            CONTROL => self::control(fixed, parameters),
            CONTROL_EXTENSION => control_extension(fixed, self.implicit_alua),
            LOGICAL_BLOCK_PROVISIONING => self.logical_block_provisioning(fixed),
            _ => informational_exceptions(fixed),
        };
        // PS is set only for pages with anything to save.
        if id == CACHING || id == CONTROL {
            page[0] |= 0x80;
        }
        page
    }
}

impl ModePages {
    /// Builds the page of SBC-4 6.5.9. It has one soft threshold (type 0) on the available LBA
    /// mapping resource count (resource 1), armed while that count decreases. All nexuses are told
    /// (SITUA = 0).
    fn logical_block_provisioning(&self, fixed: bool) -> Vec<u8> {
        /// ENABLED.
        const ENABLED: u8 = 0x80;
        const AVAILABLE: u8 = 0x01;
        let mut page = titled(LOGICAL_BLOCK_PROVISIONING, THRESHOLD_DESCRIPTOR_AT + 8);
        if fixed {
            let descriptor = &mut page[usize::from(THRESHOLD_DESCRIPTOR_AT)..];
            descriptor[1] = AVAILABLE;
            let exponent = threshold_exponent(self.block_len);
            if let Some(count) = self.soft_threshold.count(exponent) {
                descriptor[0] = ENABLED;
                descriptor[4..8].copy_from_slice(&count.to_be_bytes());
            }
        }
        page
    }
}

/// Builds a page of zeros of `len` bytes with its header.
fn titled(PageId(page, subpage): PageId, len: u8) -> Vec<u8> {
    let mut out = vec![0; usize::from(len)];
    if subpage == 0 {
        out[0] = page;
        out[1] = len - 2;
    } else {
        out[0] = 0x40 | page;
        out[1] = subpage;
        out[3] = len - 4;
    }
    out
}

/// Builds the page of SBC-4 6.5.8. Blocks are reallocated below (AWRE, ARRE), and no limits are
/// reported. A thin unit reports its soft threshold (LBPERE).
fn read_write_error_recovery(fixed: bool, thin: bool) -> Vec<u8> {
    let mut page = titled(READ_WRITE_ERROR_RECOVERY, 12);
    if fixed {
        page[2] = 0xc0;
        page[7] = u8::from(thin) << 7;
    }
    page
}

/// Builds the page of SBC-4 6.5.6: WCE and nothing else. Reads may come from the cache (RCD = 0).
fn caching(parameters: Parameters) -> Vec<u8> {
    let mut page = titled(CACHING, 20);
    page[2] = u8::from(parameters.write_cache) << 2;
    page
}

/// Reserved value of QERR in the standard.
const RESERVED_QUEUE_ERROR: u8 = 0b10;

/// Returns QERR in a control page.
fn queue_error(page: &[u8]) -> u8 {
    page[3] >> 1 & 0b11
}

/// Value of TST for one task set for each I_T nexus. Values above it are reserved.
const TASK_SET_PER_NEXUS: u8 = 0b001;

/// Returns TST in a control page.
fn task_set_type(page: &[u8]) -> u8 {
    page[2] >> 5
}

/// Returns the first byte of a control page that holds a value reserved by the standard.
fn reserved_control_value(page: &[u8]) -> Option<usize> {
    if task_set_type(page) > TASK_SET_PER_NEXUS {
        Some(2)
    } else if queue_error(page) == RESERVED_QUEUE_ERROR {
        Some(3)
    } else {
        None
    }
}

/// Builds the page of SPC-4 7.5.8: unrestricted reordering (QAM = 1), no target save of log
/// parameters (GLTSD = 1).
fn control(fixed: bool, parameters: Parameters) -> Vec<u8> {
    let mut page = titled(CONTROL, 12);
    page[2] = parameters.task_set_type << 5 | u8::from(parameters.descriptor_sense) << 2;
    if fixed {
        page[2] |= 0x02;
        page[3] = 0x10;
    }
    page[3] |= parameters.queue_error << 1;
    page[4] = u8::from(parameters.software_write_protect) << 3;
    page[5] = u8::from(parameters.task_aborted_status) << 6;
    page
}

/// Builds the page of SPC-4 7.5.9: IALUAE. Sense data is never longer than 64 bytes.
fn control_extension(fixed: bool, implicit_alua: bool) -> Vec<u8> {
    let mut page = titled(CONTROL_EXTENSION, 32);
    if fixed {
        page[4] = u8::from(implicit_alua);
        page[6] = 64;
    }
    page
}

/// Builds the page of SBC-4 6.5.7: no exceptions are reported (DEXCPT = 1, MRIE = 0).
fn informational_exceptions(fixed: bool) -> Vec<u8> {
    let mut page = titled(INFORMATIONAL_EXCEPTIONS, 12);
    if fixed {
        page[2] = 0x08;
    }
    page
}
