//! ESXi's built-in claim rules, as far as they can match here: arrays reached by iSCSI whose array
//! type is loaded.

use super::claim_rule::{ClaimOption, ClaimRule};
use super::path_selection::Psp;
use super::satp::Satp;

/// Rule of the group "system".
pub(super) struct SystemRule {
    satp: Satp,
    vendor: &'static str,
    model: &'static str,
    transport: &'static str,
    /// The column "Options": options for ESXi's reservations, without effect here.
    pub(super) options: &'static str,
    claim_option: Option<ClaimOption>,
    psp: Option<Psp>,
    psp_options: &'static str,
    description: &'static str,
}

/// Rule that matches everything; the rules below narrow it.
const ANY: SystemRule = SystemRule {
    satp: Satp::DefaultAa,
    vendor: "",
    model: "",
    transport: "",
    options: "",
    claim_option: None,
    psp: None,
    psp_options: "",
    description: "",
};

const TPGS_ON: Option<ClaimOption> = Some(ClaimOption::TpgsOn);
const TPGS_OFF: Option<ClaimOption> = Some(ClaimOption::TpgsOff);
const ROUND_ROBIN: Option<Psp> = Some(Psp::RoundRobin);

/// All system rules, in the order of listings.
pub(super) const SYSTEM_RULES: &[SystemRule] = &[
    SystemRule {
        satp: Satp::Alua,
        vendor: "NETAPP",
        options: "reset_on_attempted_reserve",
        claim_option: TPGS_ON,
        psp: ROUND_ROBIN,
        description: "NetApp arrays with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        vendor: "IBM",
        model: "2810XIV",
        claim_option: TPGS_ON,
        psp: ROUND_ROBIN,
        description: "IBM 2810XIV arrays with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        vendor: "IBM",
        model: "2145",
        claim_option: TPGS_ON,
        psp: ROUND_ROBIN,
        description: "IBM SVC and Storwize arrays with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        vendor: "3PARdata",
        model: "VV",
        claim_option: TPGS_ON,
        psp: ROUND_ROBIN,
        psp_options: "iops=1",
        description: "HPE 3PAR arrays with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        vendor: "PURE",
        model: "FlashArray",
        psp: ROUND_ROBIN,
        psp_options: "iops=1",
        description: "Pure Storage FlashArray",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        vendor: "COMPELNT",
        model: "Compellent Vol",
        claim_option: TPGS_ON,
        psp: ROUND_ROBIN,
        description: "Dell Compellent arrays with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        vendor: "HUAWEI",
        model: "XSG1",
        claim_option: TPGS_ON,
        psp: ROUND_ROBIN,
        description: "Huawei arrays with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Alua,
        claim_option: TPGS_ON,
        description: "Any array with ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::Eql,
        vendor: "EQLOGIC",
        description: "All EqualLogic Arrays",
        ..ANY
    },
    SystemRule {
        satp: Satp::AluaCx,
        vendor: "DGC",
        claim_option: TPGS_ON,
        description: "CLARiiON array in ALUA mode",
        ..ANY
    },
    SystemRule {
        satp: Satp::Symm,
        vendor: "EMC",
        model: "SYMMETRIX",
        psp: ROUND_ROBIN,
        psp_options: "iops=1",
        description: "EMC Symmetrix",
        ..ANY
    },
    SystemRule {
        satp: Satp::DefaultAa,
        vendor: "IBM",
        model: "2810XIV",
        claim_option: TPGS_OFF,
        psp: ROUND_ROBIN,
        description: "IBM 2810XIV arrays without ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::DefaultAa,
        vendor: "HUAWEI",
        model: "XSG1",
        claim_option: TPGS_OFF,
        psp: ROUND_ROBIN,
        description: "Huawei arrays without ALUA support",
        ..ANY
    },
    SystemRule {
        satp: Satp::DefaultAa,
        transport: super::claim_rule::TRANSPORT,
        description: "iSCSI Devices",
        ..ANY
    },
];

impl SystemRule {
    /// Returns the rule in the form of a user's rule.
    pub(super) fn rule(&self) -> ClaimRule {
        ClaimRule {
            satp: self.satp,
            device: String::new(),
            vendor: self.vendor.to_owned(),
            model: self.model.to_owned(),
            driver: String::new(),
            transport: self.transport.to_owned(),
            claim_option: self.claim_option,
            psp: self.psp,
            psp_options: self.psp_options.to_owned(),
            description: self.description.to_owned(),
        }
    }
}
