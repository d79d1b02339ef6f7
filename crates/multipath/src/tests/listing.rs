//! Administrators' listings, in the words of the field reports.

use scsi::application_client::target_port_groups::AccessState;

use super::super::*;
use super::host::{Host, settings};

/// Returns the host of the report: two paths in one group, without explicit ALUA.
fn omnios(psp: Psp) -> Host {
    let mut host = Host::new(0, settings(psp));
    for number in 0..2 {
        let identity = PathIdentity {
            tpgs: 1,
            target_port_group: 0,
            ..super::host::identity(number)
        };
        host.device.add_path(PathId(number), identity);
        host.up(number);
    }
    host
}

#[test]
fn a_device_reads_as_esxcli_prints_it() {
    let device = omnios(Psp::Mru).device.snapshot();
    assert_eq!(
        device.display_name,
        "SUN iSCSI Disk (naa.600144f009d4d236000056918f920002)"
    );
    assert_eq!(device.satp.name(), "VMW_SATP_ALUA");
    assert_eq!(
        device.satp_device_config,
        "{implicit_support=on;explicit_support=off; explicit_allow=on;alua_followover=on; \
         action_OnRetryErrors=off; {TPG_id=0,TPG_state=AO}}"
    );
    assert_eq!(device.psp.name(), "VMW_PSP_MRU");
    assert_eq!(device.psp_device_config, "Current Path=vmhba64:C0:T0:L4");
    assert_eq!(device.working_paths, ["vmhba64:C0:T0:L4"]);
}

#[test]
fn round_robin_reads_as_esxcli_prints_it() {
    let device = omnios(Psp::RoundRobin).device.snapshot();
    assert_eq!(
        device.psp_device_config,
        "{policy=rr,iops=1000,bytes=10485760,useANO=0; lastPathIndex=0: \
         NumIOsPending=0,numBytesPending=0}"
    );
    assert_eq!(
        device.working_paths,
        ["vmhba64:C0:T0:L4", "vmhba64:C1:T0:L4"]
    );
    let lines = device.round_robin_lines();
    let lines: Vec<_> = lines.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    assert_eq!(
        lines,
        [
            "Byte Limit: 10485760",
            "Device: naa.600144f009d4d236000056918f920002",
            "IOOperation Limit: 1000",
            "Limit Type: Default",
            "Use Active Unoptimized Paths: false"
        ]
    );
}

#[test]
fn fixed_reads_as_esxcli_prints_it() {
    let mut host = omnios(Psp::Fixed);
    host.dead(0);
    let device = host.device.snapshot();
    assert_eq!(
        device.psp_device_config,
        "{preferred=vmhba64:C0:T0:L4;current=vmhba64:C1:T0:L4}"
    );
    let paths = device
        .paths
        .iter()
        .map(|path| path.psp_path_config.as_str());
    assert_eq!(
        paths.collect::<Vec<_>>(),
        [
            "{current: no; preferred: yes}",
            "{current: yes; preferred: no}"
        ]
    );
}

#[test]
fn a_path_reads_as_esxcli_prints_it() {
    let mut host = omnios(Psp::Mru);
    host.alua(1, AccessState::ActiveNonOptimized);
    let device = host.device.snapshot();
    let [first, second] = &device.paths[..] else {
        panic!("two paths");
    };
    assert_eq!(
        first.uid,
        "iqn.1998-01.com.vmware:macm-00023d000000,iqn.2010-09.org.napp-it:zfs,t,1-\
         naa.600144f009d4d236000056918f920002"
    );
    assert_eq!(first.runtime_name, "vmhba64:C0:T0:L4");
    assert_eq!(first.group_state, "active");
    assert_eq!(
        first.satp_path_config,
        "{TPG_id=0,TPG_state=AO,RTP_id=1,RTP_health=UP}"
    );
    assert_eq!(first.psp_path_config, "{current path; rank: 0}");
    assert_eq!(second.group_state, "active unoptimized");
    assert_eq!(second.psp_path_config, "{non-current path; rank: 0}");
}

#[test]
fn every_state_of_a_path_has_its_word() {
    let mut host = omnios(Psp::Mru);
    let mut word = |event: &dyn Fn(&mut Host)| {
        event(&mut host);
        host.device.snapshot().paths[0].group_state.clone()
    };
    assert_eq!(word(&|h| h.alua(0, AccessState::Standby)), "standby");
    assert_eq!(
        word(&|h| h.alua(0, AccessState::Unavailable)),
        "unavailable"
    );
    assert_eq!(word(&|h| h.alua(0, AccessState::Offline)), "offline");
    assert_eq!(
        word(&|h| h.alua(0, AccessState::Transitioning)),
        "transitioning"
    );
    assert_eq!(word(&|h| h.alua(0, AccessState::ActiveOptimized)), "active");
    assert_eq!(word(&|h| h.suspect(0)), "suspect");
    assert_eq!(word(&|h| h.dead(0)), "dead");
}

#[test]
fn array_types_read_as_esxcli_prints_them() {
    let lines = ClaimRules::default().satp_lines();
    assert_eq!(
        lines[0],
        [
            "VMW_SATP_ALUA",
            "VMW_PSP_MRU",
            "Supports non-specific arrays that use the ALUA protocol"
        ]
    );
    assert_eq!(
        lines[1],
        [
            "VMW_SATP_MSA",
            "VMW_PSP_MRU",
            "Placeholder (plugin not loaded)"
        ]
    );
    assert_eq!(
        lines[11],
        [
            "VMW_SATP_DEFAULT_AA",
            "VMW_PSP_FIXED",
            "Supports non-specific active/active arrays"
        ]
    );
}

#[test]
fn policies_have_short_names() {
    for (name, psp) in [
        ("VMW_PSP_RR", Psp::RoundRobin),
        ("rr", Psp::RoundRobin),
        ("mru", Psp::Mru),
        ("Fixed", Psp::Fixed),
        ("least-queue", Psp::LeastQueue),
        ("lowest_latency", Psp::LowestLatency),
    ] {
        assert_eq!(Psp::from_name(name), Some(psp));
    }
    assert_eq!(Psp::from_name("VMW_PSP"), None);
}
