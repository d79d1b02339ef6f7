//! The options of a URL after `--backend`. Options of the login and of the device are honoured, as
//! far as they change nothing for other users of the target. All others are refused by name, and
//! the error names the command that sets them.

use super::super::edit::{EditArgs, tell};
use super::super::{Failure, Terminal};
use config::change::SetDevice;
use control::Client;
use control::endpoint::initiator;
use control::transaction::Commit;
use model::initiator::configured::target_settings;
use model::initiator::settings::TargetSettings;
use model::initiator::url::LunUrl;
use model::initiator::{AdapterTimes, LoginSpec};
use model::{Error, name};

/// Options that a single unit cannot have for itself, each with the option of `initiator adapter
/// set` that sets it.
const ADAPTER_WIDE: [(&str, &str); 4] = [
    ("apd_timeout", "--apd-timeout TIME"),
    ("fence_timeout", "--fence-timeout TIME|never"),
    ("fence_settle", "--fence-settle TIME"),
    ("initiator_name", "--name IQN"),
];

/// Refuses options that all targets and devices of the daemon share.
pub(super) fn refuse_adapter_wide(url: &LunUrl) -> Result<(), Error> {
    let mut wide = ADAPTER_WIDE.iter();
    let Some((option, flag)) = wide.find(|(option, _)| url.options.contains(option)) else {
        return Ok(());
    };
    Err(Error::invalid(
        format!("{option} cannot be set in the URL: all logins of the daemon share it"),
        format!(
            "omit it in the URL, and set it for all logins with sandstone initiator adapter set {flag}"
        ),
    ))
}

/// Refuses login options that differ from the existing login of the target, because others use that
/// login too.
pub(super) fn refuse_other_login(url: &LunUrl, login: &LoginSpec) -> Result<(), Error> {
    let (wanted, has) = (
        &url.target,
        target_settings("", &AdapterTimes::default(), login),
    );
    let other_user = wanted.session.credential.as_ref().is_some_and(|wanted| {
        let has = has.session.credential.as_ref();
        has.is_none_or(|has| has.name != wanted.name)
    });
    let mut options = url.options.iter();
    let what = match options.find(|option| differs(option, wanted, &has)) {
        Some(option) => *option,
        None if other_user => "the CHAP user",
        None => return Ok(()),
    };
    let iqn = name::shown(&login.iqn);
    Err(Error::invalid(
        format!("the daemon is logged in to {iqn} already, and {what} differs from the URL"),
        format!(
            "omit it in the URL, or change it for all devices of this login: sandstone initiator modify {iqn}"
        ),
    ))
}

fn differs(option: &str, wanted: &TargetSettings, has: &TargetSettings) -> bool {
    let (new, old) = (&wanted.session, &has.session);
    let (offers, offered) = (&new.limits, &old.limits);
    let mut routes = wanted.routes.iter();
    match option {
        "portal" => !routes.all(|new| has.routes.iter().any(|old| old.portal == new.portal)),
        "bind" => !routes.all(|new| has.routes.iter().any(|old| old.bind == new.bind)),
        "sessions" => wanted.sessions != has.sessions,
        // The secret itself is never shown.
        "target_user" => {
            let name = |session: &model::initiator::settings::SessionSettings| {
                session.target_credential.as_ref().map(|c| c.name.clone())
            };
            name(new) != name(old)
        }
        "chap_algorithms" => new.chap_algorithms != old.chap_algorithms,
        "header_digest" => offers.header_digest != offered.header_digest,
        "data_digest" => offers.data_digest != offered.data_digest,
        "immediate_data" => offers.immediate_data != offered.immediate_data,
        "initial_r2t" => offers.initial_r2t != offered.initial_r2t,
        "first_burst" => offers.first_burst_length != offered.first_burst_length,
        "max_burst" => offers.max_burst_length != offered.max_burst_length,
        "max_recv_segment" => {
            offers.max_recv_data_segment_length != offered.max_recv_data_segment_length
        }
        "max_outstanding_r2t" => offers.max_outstanding_r2t != offered.max_outstanding_r2t,
        "quick_ack" => new.tcp.quick_ack != old.tcp.quick_ack,
        "window" => new.tcp.window != old.tcp.window,
        "command_timeout" => new.command_timeout != old.command_timeout,
        // Options of the device.
        _ => false,
    }
}

/// Sets the options that the URL gives for the device.
pub(super) fn choose(
    url: &LunUrl,
    device: &str,
    client: &Client,
    edit: &EditArgs,
    t: &mut Terminal<'_>,
) -> Result<(), Failure> {
    let choice = choice(url);
    if choice == SetDevice::default() {
        return Ok(());
    }
    let how = Commit {
        dry_run: edit.dry_run,
        ..Commit::default()
    };
    let committed = client.ask(&initiator::SET_DEVICE, &[device], &how, &choice)?;
    // With --json, the unit's document is the only output.
    if edit.json || committed.differences.is_empty() {
        return Ok(());
    }
    tell(t, edit, &committed)
}

fn choice(url: &LunUrl) -> SetDevice {
    let has = |option| url.options.contains(&option);
    let device = &url.device;
    let limits = device.psp.map(|(_, limits)| {
        let limits = [
            has("iops").then(|| format!("iops={}", limits.iops)),
            has("bytes").then(|| format!("bytes={}", limits.bytes)),
            has("use_ano").then(|| format!("useANO={}", u8::from(limits.use_ano))),
        ];
        limits.into_iter().flatten().collect::<Vec<_>>().join(",")
    });
    SetDevice {
        psp: device.psp.map(|(psp, _)| psp.name().to_owned()),
        round_robin: limits.filter(|limits| !limits.is_empty()),
        queue_depth: has("queue_depth").then_some(device.base.queue_depth),
        max_io: device.max_io,
        preferred_path: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::initiator::options::OPTIONS;
    use model::initiator::settings::{DeviceSettings, SessionSettings};

    const LOGIN: &str = r#"{"iqn": "iqn.a:b", "portals": ["h:3260"]}"#;
    /// A value other than the default for each option, in the order of [`OPTIONS`].
    const VALUES: [&str; 27] = [
        "g", "eth7", "2", "iqn.x:y", "u", "p", "sha256", "crc32c", "none", "no", "yes", "4K",
        "64K", "8K", "1", "yes", "1M", "9", "64K", "mru", "7", "4096", "yes", "9000", "9", "9",
        "9",
    ];

    fn url(options: &str) -> LunUrl {
        let text = format!("iscsi://me%secret@h/iqn.a:b/0?{options}");
        LunUrl::parse(&text, SessionSettings::new(""), DeviceSettings::default()).expect(options)
    }

    #[test]
    fn no_option_is_passed_over_in_silence() {
        let mut login: LoginSpec = serde_json::from_str(LOGIN).expect("a login");
        let user = r#"{"user": "me", "secret": "<unchanged>"}"#;
        login.chap = Some(serde_json::from_str(user).expect("a secret"));
        refuse_other_login(&url(""), &login).expect("the same user");
        for (option, value) in OPTIONS.iter().zip(VALUES) {
            let text = match option.name {
                "target_user" | "target_password" => "target_user=u&target_password=p".to_owned(),
                name => format!("{name}={value}"),
            };
            let url = url(&text);
            let wide = refuse_adapter_wide(&url).err();
            let other = refuse_other_login(&url, &login).err();
            let chosen = choice(&url) != SetDevice::default();
            let told = [wide.is_some(), other.is_some(), chosen];
            assert_eq!(told.iter().filter(|told| **told).count(), 1, "{text}");
            if let Some(error) = wide.or(other) {
                let named = text.split('=').next().unwrap_or_default();
                assert!(error.to_string().contains(named), "{text}: {error}");
            }
        }
    }

    #[test]
    fn what_is_so_already_is_no_difference() {
        let mut login: LoginSpec = serde_json::from_str(LOGIN).expect("a login");
        login.portals.push("g:3260".to_owned());
        login.parameters.data_digest = Some(true);
        login.parameters.command_timeout_s = Some(9);
        let mut same = url("portal=g&data_digest=crc32c&command_timeout=9&queue_depth=5");
        let error = refuse_other_login(&same, &login).expect_err("another user");
        assert!(error.to_string().contains("the CHAP user"), "{error}");
        same.target.session.credential = None;
        refuse_other_login(&same, &login).expect("all as it is");
    }

    #[test]
    fn limits_of_round_robin_choose_it() {
        let choice = choice(&url("iops=1&use_ano=yes"));
        assert_eq!(choice.psp.as_deref(), Some("VMW_PSP_RR"));
        assert_eq!(choice.round_robin.as_deref(), Some("iops=1,useANO=1"));
    }
}
