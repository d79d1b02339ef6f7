//! A device by its name: another process logs in to it by the daemon's configuration. The process
//! draws new session names (ISID), so the daemon's own sessions to these targets go on beside them.

use std::fmt;

use super::own_name;
use model::initiator::InitiatorSpec;
use model::initiator::configured::{device_settings, target_settings};
use model::initiator::options::Options;
use model::initiator::settings::{DeviceSettings, TargetSettings};
use model::initiator::url::pairs;

/// Options that only the configuration sets, alike for every target.
const CONFIGURED: [&str; 4] = ["portal", "initiator_name", "target_user", "target_password"];

/// Name `naa.…[?option=value&…]`, with the settings from the configuration and from the options.
#[derive(Clone, Debug)]
pub struct NamedDevice {
    /// Name of the device.
    pub name: String,
    /// Targets that are searched for the device.
    pub targets: Vec<TargetSettings>,
    /// Settings of the device.
    pub device: DeviceSettings,
}

/// Error in the name of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError(String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameError {}

impl NamedDevice {
    /// Reads a name with options. The options override the configuration.
    ///
    /// # Errors
    /// The name is malformed, or no target is configured.
    pub fn parse(text: &str, spec: &InitiatorSpec) -> Result<Self, NameError> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        if spec.targets.is_empty() {
            let what = format!("no target is configured that could show {name}");
            return Err(NameError(what));
        }
        for (option, _) in pairs(query) {
            if CONFIGURED.contains(&option) {
                return Err(NameError(format!(
                    "{option} is not an option of a device, but of the login to its target"
                )));
            }
        }
        let mut settings = device_settings(spec);
        let is_bound = pairs(query).any(|(option, _)| option == "bind");
        let initiator = own_name::in_force(spec);
        let mut targets = Vec::new();
        let mut device = settings.clone();
        for login in &spec.targets {
            let mut target = target_settings(&initiator, &spec.times, login);
            if is_bound {
                target.routes.iter_mut().for_each(|route| route.bind = None);
            }
            forget(name, query, &mut settings);
            let mut options = Options::new(target, settings.clone());
            for (option, value) in pairs(query) {
                options.set(option, value).map_err(NameError)?;
            }
            let set = options.finish().map_err(NameError)?;
            targets.push(set.target);
            device = set.device;
        }
        Ok(Self {
            name: name.to_owned(),
            targets,
            device,
        })
    }
}

/// Drops settings chosen for this device that an option replaces.
fn forget(name: &str, query: &str, settings: &mut DeviceSettings) {
    let Some(chosen) = settings.chosen.get_mut(name) else {
        return;
    };
    for (option, _) in pairs(query) {
        match option {
            "queue_depth" => chosen.queue_depth = None,
            "max_io" => chosen.max_io = None,
            "psp" | "iops" | "bytes" | "use_ano" => {
                (chosen.psp, chosen.round_robin) = (None, None);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::initiator::settings::{Bind, DeviceChoice};
    use multipath::Psp;

    const NAME: &str = "naa.652534e0000000000000100000000001";

    fn spec() -> InitiatorSpec {
        let text = r#"
            name = "iqn.2026-01.x:us"
            [[targets]]
            iqn = "iqn.2026-01.x:a"
            portals = ["192.0.2.1:3260", "192.0.2.2:3260"]
            binds = ["eth1", "eth2"]
            sessions = 2
            parameters = { max_outstanding_r2t = 4, command_timeout_s = 9 }
            [[targets]]
            iqn = "iqn.2026-01.x:b"
            portals = ["192.0.2.3:3260"]
            [[devices]]
            name = "naa.652534e0000000000000100000000001"
            psp = "VMW_PSP_MRU"
            queue_depth = 64
            max_io = 65536
        "#;
        toml::from_str(text).expect("a configuration")
    }

    #[test]
    fn a_name_has_the_ways_and_choices_of_the_configuration() {
        let device = NamedDevice::parse(NAME, &spec()).expect("a name");
        let ways: Vec<usize> = device.targets.iter().map(|t| t.routes.len()).collect();
        assert_eq!(ways, [4, 1]);
        let session = &device.targets[0].session;
        assert_eq!(session.initiator_name, "iqn.2026-01.x:us");
        assert_eq!(session.limits.max_outstanding_r2t, 4);
        assert_eq!(device.targets[0].sessions, 2);
        let chosen = &device.device.chosen[NAME];
        assert_eq!((chosen.queue_depth, chosen.psp), (Some(64), Some(Psp::Mru)));
    }

    #[test]
    fn options_go_before_what_was_chosen_for_every_target() {
        let text = format!("{NAME}?queue_depth=8&iops=1&max_outstanding_r2t=1&bind=10.0.0.7");
        let device = NamedDevice::parse(&text, &spec()).expect("a name");
        assert_eq!(device.name, NAME);
        assert_eq!(device.device.base.queue_depth, 8);
        let left = DeviceChoice {
            max_io: Some(65536),
            ..DeviceChoice::default()
        };
        assert_eq!(device.device.chosen[NAME], left);
        let (psp, limits) = device.device.psp.expect("round robin");
        assert_eq!((psp, limits.iops), (Psp::RoundRobin, 1));
        for target in &device.targets {
            assert_eq!(target.session.limits.max_outstanding_r2t, 1);
            let bind = Some(Bind::Address("10.0.0.7".parse().expect("an address")));
            assert!(target.routes.iter().all(|route| route.bind == bind));
        }
    }

    #[test]
    fn what_belongs_to_the_login_is_no_option_and_nothing_to_log_in_to_is_said() {
        let error = NamedDevice::parse(&format!("{NAME}?portal=x"), &spec()).expect_err("portal");
        assert!(
            error.to_string().contains("the login to its target"),
            "{error}"
        );
        let error = NamedDevice::parse(&format!("{NAME}?psp=none"), &spec()).expect_err("psp");
        assert!(error.to_string().contains("psp=none: give"), "{error}");
        let none = InitiatorSpec::default();
        let error = NamedDevice::parse(NAME, &none).expect_err("no targets");
        assert!(
            error.to_string().contains("no target is configured"),
            "{error}"
        );
    }
}
