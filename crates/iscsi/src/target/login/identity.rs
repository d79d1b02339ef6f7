//! Names in a login's first text: the initiator, the target, and the kind of session.

use super::policy::{LoginIdentity, SessionKind};
use super::refusal::Refusal;
use crate::name;
use crate::pdu::{LoginRequest, LoginStatus};
use crate::text_keys::TextPairs;

/// Reports whether a key names one of the two sides. Those keys belong to the first text.
pub(super) fn is_identity(key: &str) -> bool {
    matches!(
        key,
        "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType"
    )
}

/// Reads the names from the first text.
pub(super) fn identify(request: &LoginRequest, text: &[u8]) -> Result<LoginIdentity, Refusal> {
    let (mut initiator, mut alias, mut target, mut kind) = (None, None, None, None);
    for pair in TextPairs::new(text) {
        let (key, value) = pair?;
        let slot = match key {
            "InitiatorName" => &mut initiator,
            "InitiatorAlias" => &mut alias,
            "TargetName" => &mut target,
            "SessionType" => &mut kind,
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return Err(Refusal::initiator_error(format_args!("{key} came twice")));
        }
    }
    let missing = |key| {
        Refusal::new(
            LoginStatus::MISSING_PARAMETER,
            format_args!("{key} is missing"),
        )
    };
    let initiator = initiator.ok_or_else(|| missing("InitiatorName"))?;
    if let Err(fault) = name::check(initiator) {
        return Err(Refusal::initiator_error(format_args!(
            "InitiatorName cannot be used: {fault}"
        )));
    }
    let session_kind = match kind {
        None | Some("Normal") => SessionKind::Normal,
        Some("Discovery") => SessionKind::Discovery,
        Some(_) => {
            return Err(Refusal::new(
                LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
                "unknown SessionType",
            ));
        }
    };
    if session_kind == SessionKind::Normal && target.is_none() {
        return Err(missing("TargetName"));
    }
    if let Some(Err(fault)) = target.map(name::check) {
        return Err(Refusal::new(
            LoginStatus::NOT_FOUND,
            format_args!("TargetName cannot be used: {fault}"),
        ));
    }
    Ok(LoginIdentity {
        initiator_name: initiator.to_owned(),
        initiator_alias: alias.map(str::to_owned),
        session_kind,
        target_name: target.map(str::to_owned),
        isid: request.isid,
        tsih: request.tsih,
        cid: request.cid,
    })
}

/// Checks names that are repeated. Some initiators repeat their names in each stage, but another
/// name is an attempt to get in as another initiator.
pub(super) fn check_identity(
    identity: &LoginIdentity,
    key: &str,
    value: &str,
) -> Result<(), Refusal> {
    let same = match key {
        "InitiatorName" => identity.initiator_name == value,
        "TargetName" => identity.target_name.as_deref() == Some(value),
        "SessionType" => matches!(
            (identity.session_kind, value),
            (SessionKind::Normal, "Normal") | (SessionKind::Discovery, "Discovery")
        ),
        _ => true,
    };
    if same {
        Ok(())
    } else {
        Err(Refusal::initiator_error(format_args!(
            "{key} changed during login"
        )))
    }
}
