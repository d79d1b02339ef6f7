//! `initiator claimrule` and `initiator satp`: the commands `esxcli storage nmp satp rule` and
//! `satp`, with the option letters of esxcli.

use clap::{Args, Subcommand};

use super::super::edit::{EditArgs, Request, make, remove};
use super::super::{Connection, Done, Terminal};
use crate::print::table::{Column, ListArgs, extra, left, or_dash, print};
use control::answer::SatpView;
use control::endpoint::rules;
use control::endpoint::rules::PspChoice;
use multipath::{RuleText, RuleView};

#[derive(Debug, Subcommand)]
pub(in super::super) enum ClaimRuleVerb {
    /// List the rules, the system's first
    #[command(visible_alias = "show")]
    List(List),
    /// Add a user rule, which goes before the system's
    Add(Add),
    /// Remove the user rule with this array type and these criteria
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(in super::super) struct List {
    /// List the user's rules alone
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    list: ListArgs,
}

/// Rule to add. It has no `--version`, because its short form is ESXi's letter for the vendor.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(in super::super) struct Add {
    #[command(flatten)]
    rule: Rule,
    /// Path selection [default: the array type's]
    #[arg(short = 'P', long, default_value = "", hide_default_value = true)]
    psp: String,
    /// Options of the path selection, such as iops=1
    #[arg(short = 'O', long, default_value = "", hide_default_value = true)]
    psp_option: String,
    /// Description for people
    #[arg(short = 'e', long, default_value = "", hide_default_value = true)]
    description: String,
    #[command(flatten)]
    edit: EditArgs,
}

#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(in super::super) struct Remove {
    #[command(flatten)]
    rule: Rule,
    #[command(flatten)]
    removal: EditArgs,
}

/// Claim rule: an array type, and the devices that it claims.
#[derive(Debug, Args)]
struct Rule {
    /// Storage array type, such as VMW_SATP_ALUA
    #[arg(short, long)]
    satp: String,
    /// Name of a single device
    #[arg(short, long, default_value = "", hide_default_value = true)]
    device: String,
    /// T10 vendor, or ^PREFIX*
    #[arg(short = 'V', long, default_value = "", hide_default_value = true)]
    vendor: String,
    /// Product, or ^PREFIX*
    #[arg(short = 'M', long, default_value = "", hide_default_value = true)]
    model: String,
    /// Driver of the paths
    #[arg(short = 'D', long, default_value = "", hide_default_value = true)]
    driver: String,
    /// Transport of the paths
    #[arg(short = 'R', long, default_value = "", hide_default_value = true)]
    transport: String,
    /// tpgs_on or tpgs_off
    #[arg(short = 'c', long, default_value = "", hide_default_value = true)]
    claim_option: String,
}

impl Rule {
    fn text(self) -> RuleText {
        RuleText {
            satp: self.satp,
            device: self.device,
            vendor: self.vendor,
            model: self.model,
            driver: self.driver,
            transport: self.transport,
            claim_option: self.claim_option,
            ..RuleText::default()
        }
    }
}

pub(super) fn run(verb: ClaimRuleVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        ClaimRuleVerb::List(args) => {
            let mut rules: Vec<RuleView> = client.call(&rules::LIST, &[])?;
            rules.retain(|rule| !args.user || rule.group == "user");
            let none = "no user rules; add one with `sandstone initiator claimrule add`";
            print(t, &args.list, &COLUMNS, &rules, none)
        }
        ClaimRuleVerb::Add(args) => {
            let body = RuleText {
                psp: args.psp,
                psp_option: args.psp_option,
                description: args.description,
                ..args.rule.text()
            };
            let request = Request::with(&rules::ADD, &[], &body);
            make(t, &client, &args.edit, &request)
        }
        ClaimRuleVerb::Remove(args) => {
            let body = args.rule.text();
            let request = Request::with(&rules::REMOVE, &[], &body);
            remove(t, &client, &args.removal, &request, false)
        }
    }
}

const COLUMNS: [Column<RuleView>; 12] = [
    left("name", |r, _| r.satp.clone()),
    left("device", |r, _| or_dash(&r.device)),
    left("vendor", |r, _| or_dash(&r.vendor)),
    left("model", |r, _| or_dash(&r.model)),
    left("driver", |r, _| or_dash(&r.driver)),
    left("transport", |r, _| or_dash(&r.transport)),
    extra(left("options", |r, _| or_dash(&r.options))),
    left("rule-group", |r, _| r.group.clone()),
    left("claim-options", |r, _| or_dash(&r.claim_options)),
    left("default-psp", |r, _| or_dash(&r.default_psp)),
    left("psp-options", |r, _| or_dash(&r.psp_options)),
    left("description", |r, _| or_dash(&r.description)),
];

#[derive(Debug, Subcommand)]
pub(in super::super) enum SatpVerb {
    /// List the array types
    #[command(visible_alias = "show")]
    List(ListArgs),
    /// Set the path selection of devices whose rule names none
    Set(SetSatp),
}

#[derive(Debug, Args)]
pub(in super::super) struct SetSatp {
    /// Storage array type, such as VMW_SATP_ALUA
    #[arg(short, long)]
    satp: String,
    /// Path selection
    #[arg(short = 'P', long, visible_alias = "default-psp")]
    psp: String,
    #[command(flatten)]
    edit: EditArgs,
}

pub(super) fn run_satp(verb: SatpVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    let client = connection.client();
    match verb {
        SatpVerb::List(args) => {
            let types: Vec<SatpView> = client.call(&rules::SATPS, &[])?;
            print(t, &args, &SATP_COLUMNS, &types, "no storage array types")
        }
        SatpVerb::Set(args) => {
            let body = PspChoice { psp: args.psp };
            make(
                t,
                &client,
                &args.edit,
                &Request::with(&rules::SET_SATP, &[&args.satp], &body),
            )
        }
    }
}

const SATP_COLUMNS: [Column<SatpView>; 3] = [
    left("name", |s, _| s.name.clone()),
    left("default-psp", |s, _| s.default_psp.clone()),
    left("description", |s, _| s.description.clone()),
];
