//! Claim rules: the winner among several, the reading of options, and refusals.

use proptest::prelude::*;

use super::super::*;

const NAA: &str = "naa.600144f009d4d236000056918f920002";

fn array(vendor: &str, model: &str, tpgs: u8) -> PathIdentity {
    PathIdentity {
        vendor: vendor.to_owned(),
        model: model.to_owned(),
        tpgs,
        ..PathIdentity::default()
    }
}

/// Reads options as typed: `-V SUN -M COMSTAR`.
fn text(options: &str) -> RuleText {
    let mut text = RuleText::default();
    let mut words = options.split(' ');
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        let field = match option {
            "-s" => &mut text.satp,
            "-d" => &mut text.device,
            "-V" => &mut text.vendor,
            "-M" => &mut text.model,
            "-D" => &mut text.driver,
            "-R" => &mut text.transport,
            "-c" => &mut text.claim_option,
            "-P" => &mut text.psp,
            "-O" => &mut text.psp_option,
            "-e" => &mut text.description,
            other => panic!("{other}"),
        };
        *field = value.replace('_', if option == "-e" { " " } else { "_" });
    }
    text
}

fn rule(options: &str) -> ClaimRule {
    ClaimRule::parse(&text(options)).expect(options)
}

fn rules(all: &[&str]) -> ClaimRules {
    let mut rules = ClaimRules::default();
    for options in all {
        rules.add(rule(options)).expect(options);
    }
    rules
}

/// Returns the array type, policy and limit of I/Os that the rules give to a device.
fn claim(rules: &ClaimRules, identity: &PathIdentity) -> (Satp, Psp, u32) {
    let claim = rules.claim(NAA, identity);
    (claim.satp, claim.psp, claim.round_robin.iops)
}

#[test]
fn writes_settle_as_long_as_the_vendor_may_need_whatever_rule_claims() {
    let user = rules(&["-s VMW_SATP_DEFAULT_AA -V IET -P VMW_PSP_RR"]);
    let base = Settings::default();
    for rules in [ClaimRules::default(), user] {
        for (vendor, us) in [("SNDSTONE", 0), ("IET", 5_000_000), ("NETAPP", 1_000_000)] {
            let claim = rules.claim(NAA, &array(vendor, "DISK", 1));
            let settings = claim.apply(base.clone());
            assert_eq!(settings.fence_settle_us, us, "{vendor}");
        }
    }
}

#[test]
fn without_user_rules_tpgs_decides() {
    let none = ClaimRules::default();
    let alua = claim(&none, &array("SUN", "COMSTAR", 1));
    assert_eq!(alua, (Satp::Alua, Psp::Mru, 1000));
    let plain = claim(&none, &array("SUN", "COMSTAR", 0));
    assert_eq!(plain, (Satp::DefaultAa, Psp::Fixed, 1000));
}

#[test]
fn the_system_knows_arrays() {
    let none = ClaimRules::default();
    for (vendor, model, tpgs, expected) in [
        (
            "NETAPP",
            "LUN C-Mode",
            1,
            (Satp::Alua, Psp::RoundRobin, 1000),
        ),
        ("NETAPP", "LUN", 0, (Satp::DefaultAa, Psp::Fixed, 1000)),
        ("PURE", "FlashArray", 1, (Satp::Alua, Psp::RoundRobin, 1)),
        ("3PARdata", "VV", 1, (Satp::Alua, Psp::RoundRobin, 1)),
        ("EQLOGIC", "100E-00", 0, (Satp::Eql, Psp::Fixed, 1000)),
        ("DGC", "VRAID", 3, (Satp::AluaCx, Psp::RoundRobin, 1000)),
        ("DGC", "VRAID", 0, (Satp::DefaultAa, Psp::Fixed, 1000)),
        ("EMC", "SYMMETRIX", 0, (Satp::Symm, Psp::RoundRobin, 1)),
        (
            "IBM",
            "2810XIV",
            0,
            (Satp::DefaultAa, Psp::RoundRobin, 1000),
        ),
    ] {
        let found = claim(&none, &array(vendor, model, tpgs));
        assert_eq!(found, expected, "{vendor} {model} {tpgs}");
    }
}

#[test]
fn the_rule_of_the_field_report_claims() {
    let rules =
        rules(&["-V SUN -M COMSTAR -P VMW_PSP_RR -s VMW_SATP_ALUA -e OmniOS_Devices -O iops=1"]);
    let found = rules.claim(NAA, &array("SUN", "COMSTAR", 1));
    assert_eq!((found.satp, found.psp), (Satp::Alua, Psp::RoundRobin));
    let limits = RoundRobin {
        iops: 1,
        ..RoundRobin::default()
    };
    assert_eq!(found.round_robin, limits);
    assert_eq!(found.rule.map(|(group, _)| group), Some(RuleGroup::User));
    // Without ALUA, the rule of an ALUA type does not claim.
    let plain = claim(&rules, &array("SUN", "COMSTAR", 0));
    assert_eq!(plain, (Satp::DefaultAa, Psp::Fixed, 1000));
    let line = rules.lines().pop().expect("the user's rule");
    let expected = RuleView {
        satp: "VMW_SATP_ALUA".into(),
        vendor: "SUN".into(),
        model: "COMSTAR".into(),
        group: "user".into(),
        default_psp: "VMW_PSP_RR".into(),
        psp_options: "iops=1".into(),
        description: "OmniOS Devices".into(),
        ..RuleView::default()
    };
    assert_eq!(line, expected);
}

#[test]
fn the_users_rules_go_before_the_systems() {
    let rules = rules(&["-s VMW_SATP_ALUA -c tpgs_on -P VMW_PSP_FIXED"]);
    let found = claim(&rules, &array("PURE", "FlashArray", 1));
    assert_eq!(found.1, Psp::Fixed);
}

#[test]
fn the_more_specific_rule_wins_in_any_order() {
    let by_iops = [
        "-s VMW_SATP_ALUA -R iscsi -P rr -O iops=1",
        "-s VMW_SATP_ALUA -c tpgs_on -P rr -O iops=2",
        "-s VMW_SATP_ALUA -M COMSTAR -P rr -O iops=3",
        "-s VMW_SATP_ALUA -V ^S* -P rr -O iops=4",
        "-s VMW_SATP_ALUA -V ^SU* -P rr -O iops=5",
        "-s VMW_SATP_ALUA -V SUN -P rr -O iops=6",
        "-s VMW_SATP_ALUA -V SUN -M ^COM* -P rr -O iops=7",
        "-s VMW_SATP_ALUA -V SUN -M COMSTAR -P rr -O iops=8",
        "-s VMW_SATP_ALUA -V SUN -M COMSTAR -c tpgs_on -P rr -O iops=9",
        "-s VMW_SATP_ALUA -D sandstone -P rr -O iops=10",
        "-s VMW_SATP_ALUA -d naa.600144f009d4d236000056918f920002 -P rr -O iops=11",
    ];
    for count in 1..=by_iops.len() {
        let mut some = by_iops[..count].to_vec();
        let device = array("SUN", "COMSTAR", 1);
        let wins = (Satp::Alua, Psp::RoundRobin, count as u32);
        assert_eq!(claim(&rules(&some), &device), wins);
        some.reverse();
        assert_eq!(claim(&rules(&some), &device), wins);
    }
}

#[test]
fn an_array_type_may_have_another_default() {
    let mut rules = ClaimRules::default();
    rules.set_default_psp(Satp::Alua, Psp::RoundRobin);
    let found = claim(&rules, &array("SUN", "COMSTAR", 1));
    assert_eq!(found, (Satp::Alua, Psp::RoundRobin, 1000));
    assert_eq!(rules.satp_lines()[0][1], "VMW_PSP_RR");
    rules.set_default_psp(Satp::Alua, Psp::Mru);
    assert_eq!(rules, ClaimRules::default(), "only what differs is kept");
}

#[test]
fn rules_survive_being_stored() {
    let mut rules = rules(&[
        "-V SUN -M ^COM* -P lowest-latency -s vmw_satp_alua -e Ours",
        "-c tpgs_off -s VMW_SATP_DEFAULT_AA -P VMW_PSP_RR -O policy=iops;iops=1,useANO=1",
    ]);
    rules.set_default_psp(Satp::Alua, Psp::LeastQueue);
    let json = serde_json::to_string(&rules).expect("can be stored");
    assert_eq!(
        serde_json::from_str::<ClaimRules>(&json).expect(&json),
        rules
    );
    assert_eq!(
        serde_json::to_string(&ClaimRules::default()).expect("empty"),
        "{}"
    );
}

#[test]
fn what_can_never_claim_is_refused_with_advice() {
    for (options, message) in [
        ("-V SUN", "the rule has no storage array type"),
        (
            "-V SUN -s VMW_SATP_NONE",
            "there is no storage array type 'VMW_SATP_NONE'",
        ),
        (
            "-V DGC -s VMW_SATP_CX",
            "VMW_SATP_CX needs commands of its vendor, which Sandstone does not support",
        ),
        ("-s VMW_SATP_ALUA", "the rule would claim every device"),
        (
            "-s VMW_SATP_ALUA -P VMW_PSP_RR",
            "the rule would claim every device",
        ),
        (
            "-s VMW_SATP_ALUA -c tpgs_off",
            "VMW_SATP_ALUA never claims a device with tpgs_off",
        ),
        (
            "-s VMW_SATP_ALUA -c tpgs",
            "there is no claim option 'tpgs'",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P VMW_PSP_X",
            "there is no path selection policy 'VMW_PSP_X'",
        ),
        (
            "-s VMW_SATP_ALUA -V 123456789",
            "the vendor '123456789' is longer than a device can report (8 characters)",
        ),
        (
            "-s VMW_SATP_ALUA -M COM*",
            "'COM*' is neither a model nor a pattern",
        ),
        (
            "-s VMW_SATP_ALUA -V ^*^*",
            "'^*^*' is neither a vendor nor a pattern",
        ),
        (
            "-s VMW_SATP_ALUA -d sda",
            "'sda' is not the name of a device",
        ),
        ("-s VMW_SATP_ALUA -R fc", "no path has the transport 'fc'"),
        ("-s VMW_SATP_ALUA -D lpfc", "no path has the driver 'lpfc'"),
        (
            "-s VMW_SATP_ALUA -d naa.6 -V SUN",
            "a rule for one device cannot also have a vendor, model or driver",
        ),
        (
            "-s VMW_SATP_ALUA -D sandstone -V SUN",
            "a rule for a driver cannot also have a vendor or model",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -O iops=1",
            "VMW_PSP_MRU has no options",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P rr -O iops",
            "PSP option 'iops' is not NAME=VALUE",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P rr -O iops=0",
            "iops=0 is refused",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P rr -O bytes=x",
            "bytes=x is refused",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P rr -O policy=latency",
            "policy=latency is refused",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P rr -O useANO=2",
            "useANO=2 is refused",
        ),
        (
            "-s VMW_SATP_ALUA -V SUN -P rr -O x=1",
            "VMW_PSP_RR has no option 'x'",
        ),
    ] {
        let error = ClaimRule::parse(&text(options)).expect_err(options);
        assert_eq!(error.kind, RuleErrorKind::Invalid);
        assert_eq!(error.message, message);
        assert!(!error.next.is_empty());
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        vendor in ".{0,12}",
        model in "\\^?[A-Z]{0,18}\\*?",
        options in "(iops|bytes|policy|useANO|x)?=?[0-9a-z]{0,21}[;,]?",
        tpgs in 0_u8..4,
    ) {
        let text = RuleText {
            satp: "VMW_SATP_ALUA".to_owned(),
            psp: "VMW_PSP_RR".to_owned(),
            psp_option: options,
            vendor,
            model,
            ..RuleText::default()
        };
        if let Ok(rule) = ClaimRule::parse(&text) {
            prop_assert!(!rule.criteria().is_empty());
            let mut rules = ClaimRules::default();
            rules.add(rule.clone()).expect("the first rule");
            let claim = rules.claim(NAA, &array(&rule.vendor, &rule.model, tpgs));
            prop_assert!(claim.round_robin.iops > 0 && claim.round_robin.bytes > 0);
        }
    }
}

#[test]
fn rules_with_the_same_criteria_are_refused() {
    let mut rules = rules(&["-V SUN -M COMSTAR -s VMW_SATP_ALUA"]);
    let before = rules.clone();
    let again = rule("-V SUN -M COMSTAR -s VMW_SATP_DEFAULT_AA -P VMW_PSP_RR");
    let error = rules.add(again).expect_err("a duplicate");
    assert_eq!(error.kind, RuleErrorKind::Exists);
    assert_eq!(
        error.message,
        "duplicate user rule found for SATP VMW_SATP_ALUA matching vendor SUN model COMSTAR"
    );
    assert_eq!(rules, before);
    rules
        .add(rule("-V SUN -M COMSTAR -c tpgs_on -s VMW_SATP_ALUA"))
        .expect("other criteria");
}

#[test]
fn only_the_users_rules_can_be_removed() {
    let mut rules = rules(&["-V SUN -M COMSTAR -s VMW_SATP_ALUA -e Mine"]);
    let system = rule("-V EQLOGIC -s VMW_SATP_EQL");
    let error = rules.remove(&system).expect_err("a system rule");
    assert_eq!(error.kind, RuleErrorKind::System);
    let other = rule("-V SUN -s VMW_SATP_ALUA");
    let error = rules.remove(&other).expect_err("not there");
    assert_eq!(error.kind, RuleErrorKind::NotFound);
    assert_eq!(
        error.message,
        "no user rule found for SATP VMW_SATP_ALUA matching vendor SUN"
    );
    let removed = rules.remove(&rule("-V SUN -M COMSTAR -s VMW_SATP_ALUA"));
    assert_eq!(removed.expect("there").description, "Mine");
    assert!(rules.user.is_empty());
}

#[test]
fn every_system_rule_can_claim_something() {
    let none = ClaimRules::default();
    for rule in none.lines() {
        assert_eq!(rule.group, "system");
        let (satp, vendor, model) = (&rule.satp, &rule.vendor, &rule.model);
        let tpgs = u8::from(rule.claim_options != "tpgs_off" && satp.contains("ALUA"));
        let found = none.claim(NAA, &array(vendor, model, tpgs));
        assert_eq!(found.satp.name(), satp, "{vendor} {model}");
        assert!(rule.default_psp.is_empty() || found.psp.name() == rule.default_psp);
    }
}
