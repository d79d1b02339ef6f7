//! Mode pages: what a unit says of its behaviour and lets initiators change (SPC-4 7.5, SBC-4 6.5).
//!
//! Initiators can change WCE (caching), TST, D_SENSE, QERR, SWP and TAS (control). These exist three times:
//! current, saved and default. Everything else in a page is built from them, so what a page says
//! cannot drift from what the unit does.

use crate::logical_unit::UnitConfig;
use crate::sense::Sense;
use crate::task_set::TaskSetType;
use crate::thin_provisioning::{SoftThreshold, threshold_exponent};

/// The parameters that can change.
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

/// Which values MODE SENSE asks for: the PC field (SPC-4 table 155).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageControl {
    /// 00b: what holds now.
    Current,
    /// 01b: a mask of the bits that MODE SELECT may change.
    Changeable,
    /// 10b: what holds before anything was saved.
    Default,
    /// 11b: what holds after a reset.
    Saved,
}

impl PageControl {
    /// The page control of a PC field of two bits.
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Current,
            1 => Self::Changeable,
            2 => Self::Default,
            _ => Self::Saved,
        }
    }
}

/// What a command that ends with CHECK CONDITION does to the other commands in the task set: the QERR
/// field of the control mode page (SPC-4 7.5.8), with what TST says the task set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueErrorPolicy {
    /// 00b: nothing.
    LeaveOthers,
    /// 01b, one task set for all I_T nexuses: all are aborted.
    AbortAll,
    /// 11b, or 01b with a task set for each I_T nexus: those of the same I_T nexus are aborted.
    AbortOfNexus,
}

/// A page code and subpage code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageId(u8, u8);

const READ_WRITE_ERROR_RECOVERY: PageId = PageId(0x01, 0x00);
const DISCONNECT_RECONNECT: PageId = PageId(0x02, 0x00);
const CACHING: PageId = PageId(0x08, 0x00);
const CONTROL: PageId = PageId(0x0a, 0x00);
const CONTROL_EXTENSION: PageId = PageId(0x0a, 0x01);
const INFORMATIONAL_EXCEPTIONS: PageId = PageId(0x1c, 0x00);
const LOGICAL_BLOCK_PROVISIONING: PageId = PageId(0x1c, 0x02);

/// Where the one threshold descriptor starts in the logical block provisioning page; also what the
/// INFORMATION field tells when the threshold is reached.
pub(crate) const THRESHOLD_DESCRIPTOR_AT: u8 = 16;

/// All pages, in the order MODE SENSE returns them (ascending).
const PAGES: [PageId; 7] = [
    READ_WRITE_ERROR_RECOVERY,
    DISCONNECT_RECONNECT,
    CACHING,
    CONTROL,
    CONTROL_EXTENSION,
    INFORMATIONAL_EXCEPTIONS,
    LOGICAL_BLOCK_PROVISIONING,
];

/// The page code that asks for all pages, the subpage code that asks for all subpages.
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

/// The mode pages of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModePages {
    current: Parameters,
    saved: Parameters,
    default: Parameters,
    changeable: Parameters,
    /// WCE as the backend has it, whatever was asked for; `None` where it does as it is asked.
    fixed_write_cache: Option<bool>,
    /// What the administrator decides: initiators see it and cannot change it.
    soft_threshold: SoftThreshold,
    /// IALUAE: access states change without an initiator's asking, too.
    implicit_alua: bool,
    thin: bool,
    block_len: u32,
}

impl ModePages {
    /// The pages of a unit of this configuration, nothing saved.
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
            // All bits of a field of which any part can change (SPC-4 6.11).
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

    /// The soft threshold of thin provisioning.
    pub(crate) fn soft_threshold(&self) -> &SoftThreshold {
        &self.soft_threshold
    }

    /// As [`Self::soft_threshold`], to change it.
    pub(crate) fn soft_threshold_mut(&mut self) -> &mut SoftThreshold {
        &mut self.soft_threshold
    }

    /// Sets IALUAE. Returns whether it changed.
    pub(crate) fn set_implicit_alua(&mut self, enabled: bool) -> bool {
        std::mem::replace(&mut self.implicit_alua, enabled) != enabled
    }

    /// WCE.
    pub(crate) fn write_cache(&self) -> bool {
        self.fixed_write_cache.unwrap_or(self.current.write_cache)
    }

    /// What WCE would be with [`Self::fix_write_cache`].
    pub(crate) fn write_cache_under(&self, fixed: Option<bool>) -> bool {
        fixed.unwrap_or(self.current.write_cache)
    }

    /// Switches the write cache on for now, without saving that.
    pub(crate) fn keep_write_cache(&mut self) {
        self.current.write_cache = true;
    }

    /// Sets what WCE is whatever was asked for, or leaves it to those who ask. Returns whether what MODE
    /// SENSE tells changed.
    pub(crate) fn fix_write_cache(&mut self, fixed: Option<bool>) -> bool {
        std::mem::replace(&mut self.fixed_write_cache, fixed) != fixed
    }

    /// D_SENSE.
    pub(crate) fn descriptor_sense(&self) -> bool {
        self.current.descriptor_sense
    }

    /// SWP.
    pub(crate) fn software_write_protect(&self) -> bool {
        self.current.software_write_protect
    }

    /// Switches SWP off, for now and after a reset. Returns whether what MODE SENSE tells changed.
    pub(crate) fn end_software_write_protect(&mut self) -> bool {
        self.saved.software_write_protect = false;
        std::mem::replace(&mut self.current.software_write_protect, false)
    }

    /// TAS.
    pub(crate) fn task_aborted_status(&self) -> bool {
        self.current.task_aborted_status
    }

    /// QERR: 01b and 11b differ only where nexuses share a task set.
    pub(crate) fn queue_error_policy(&self) -> QueueErrorPolicy {
        match (self.current.queue_error, self.task_set_type()) {
            (0b01, TaskSetType::Shared) => QueueErrorPolicy::AbortAll,
            (0b01, TaskSetType::PerNexus) | (0b11, _) => QueueErrorPolicy::AbortOfNexus,
            _ => QueueErrorPolicy::LeaveOthers,
        }
    }

    /// TST.
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

    /// A reset: current values become the saved ones.
    pub(crate) fn reset(&mut self) {
        self.current = self.saved;
    }

    /// MODE SELECT with SP = 1: what holds now also holds after a reset.
    pub(crate) fn save_current(&mut self) {
        self.saved = self.current;
    }

    /// Undoes [`Self::save_current`] and the changes with it, after saving failed.
    pub(crate) fn revert_to(&mut self, before: &Self) {
        self.current = before.current;
        self.saved = before.saved;
    }

    /// The saved values as a byte, and the default WCE under which they were saved.
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

    /// Takes over what [`Self::to_bytes`] gave; `None` where the bytes are not that.
    ///
    /// WCE is taken over only where initiators may change it, and only while the administrator's word is
    /// still the one under which it was saved: who has changed the configuration since, has decided
    /// anew. Images of earlier versions do not say under which word they were saved. Of them only a cache
    /// that is off is believed.
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
    /// The pages MODE SENSE asks for (SPC-4 6.11), one after the other.
    ///
    /// # Errors
    /// INVALID FIELD IN CDB where there is no such page .
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
    /// Nothing is applied where any page is refused.
    ///
    /// # Errors
    /// INVALID FIELD IN PARAMETER LIST for an unknown page, a wrong length, a changed bit that cannot
    /// change or a reserved value; PARAMETER LIST LENGTH ERROR where a page is cut short (SPC-4 6.9).
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

    /// The pages of this unit.
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

    /// One page with its header.
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
        // PS: only these pages have anything to save.
        if id == CACHING || id == CONTROL {
            page[0] |= 0x80;
        }
        page
    }
}

impl ModePages {
    /// SBC-4 6.5.9: one soft threshold (type 0) on the available LBA mapping resource count
    /// (resource 1), armed while that count decreases; told to all nexuses (SITUA = 0).
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

/// A page of zeros of `len` bytes with its header.
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

/// SBC-4 6.5.8: blocks are reallocated below (AWRE, ARRE); no limits are told; a thin unit tells of
/// its soft threshold (LBPERE).
fn read_write_error_recovery(fixed: bool, thin: bool) -> Vec<u8> {
    let mut page = titled(READ_WRITE_ERROR_RECOVERY, 12);
    if fixed {
        page[2] = 0xc0;
        page[7] = u8::from(thin) << 7;
    }
    page
}

/// SBC-4 6.5.6: WCE and nothing else; reads may come from the cache (RCD = 0).
fn caching(parameters: Parameters) -> Vec<u8> {
    let mut page = titled(CACHING, 20);
    page[2] = u8::from(parameters.write_cache) << 2;
    page
}

/// The value of QERR that the standard keeps for itself.
const RESERVED_QUEUE_ERROR: u8 = 0b10;

/// QERR in a control page.
fn queue_error(page: &[u8]) -> u8 {
    page[3] >> 1 & 0b11
}

/// The value of TST that stands for a task set for each I_T nexus; above it are reserved ones.
const TASK_SET_PER_NEXUS: u8 = 0b001;

/// TST in a control page.
fn task_set_type(page: &[u8]) -> u8 {
    page[2] >> 5
}

/// The first byte of a control page that holds a value which the standard keeps for itself.
fn reserved_control_value(page: &[u8]) -> Option<usize> {
    if task_set_type(page) > TASK_SET_PER_NEXUS {
        Some(2)
    } else if queue_error(page) == RESERVED_QUEUE_ERROR {
        Some(3)
    } else {
        None
    }
}

/// SPC-4 7.5.8: unrestricted reordering (QAM = 1), no target save of log parameters (GLTSD = 1).
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

/// SPC-4 7.5.9: IALUAE; sense data is never longer than 64 bytes.
fn control_extension(fixed: bool, implicit_alua: bool) -> Vec<u8> {
    let mut page = titled(CONTROL_EXTENSION, 32);
    if fixed {
        page[4] = u8::from(implicit_alua);
        page[6] = 64;
    }
    page
}

/// SBC-4 6.5.7: no exceptions are reported (DEXCPT = 1, MRIE = 0).
fn informational_exceptions(fixed: bool) -> Vec<u8> {
    let mut page = titled(INFORMATIONAL_EXCEPTIONS, 12);
    if fixed {
        page[2] = 0x08;
    }
    page
}
