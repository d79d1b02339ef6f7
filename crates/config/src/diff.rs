//! Effects of a change: the objects that it adds, removes and modifies, and the views that it
//! alters.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::access::{Refusal, granted};
use super::redact::redacted;
use super::validate::describe;
use model::config::{Config, MapSpec};
use model::way::WaySpec;

/// Object that a change touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    /// Action on the object.
    pub action: Action,
    /// Kind of the object: `lu`, `target`, `target group`, `host`, `map`, `login`, `device`, `claim
    /// rule`, `alert way` or `setting`.
    pub object: String,
    /// Name of the object.
    pub name: String,
    /// Fields of the object: all if it is added, those that differ if it is modified, none if it is
    /// removed.
    pub fields: Vec<FieldChange>,
}

impl Difference {
    /// Describes the change in a line.
    pub fn in_words(&self) -> String {
        let Difference {
            object,
            name,
            fields,
            ..
        } = self;
        let field = |wanted: &str| {
            fields
                .iter()
                .find(|f| f.field == wanted)
                .and_then(|f| f.new.as_deref())
        };
        match self.action {
            Action::Remove => format!("{object} {name} removed"),
            Action::Add => match (object.as_str(), field("naa"), field("lun")) {
                ("lu", Some(naa), _) => format!("lu {name} created, naa.{naa}"),
                ("map", _, Some(lun)) => format!("map {name} added as LUN {lun}"),
                ("map", ..) => format!("map {name} added"),
                ("login" | "claim rule", ..) => format!("{object} {name} added"),
                ("device", ..) => {
                    let set = fields.iter().filter(|f| f.field != "name");
                    let set =
                        set.map(|f| format!("{} {}", f.field, f.new.as_deref().unwrap_or("-")));
                    format!("device {name}: {}", set.collect::<Vec<_>>().join(", "))
                }
                _ => format!("{object} {name} created"),
            },
            Action::Modify => {
                let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
                let changes = fields
                    .iter()
                    .map(|f| format!("{} {} -> {}", f.field, shown(&f.old), shown(&f.new)));
                format!(
                    "{object} {name}: {}",
                    changes.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }
}

/// Action on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The object is new.
    Add,
    /// The object is removed.
    Remove,
    /// The object is modified.
    Modify,
}

impl Action {
    /// Returns the action's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Modify => "modify",
        }
    }
}

/// Field that changes. Secrets are never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldChange {
    /// Name of the field in the file.
    pub field: String,
    /// Old value.
    pub old: Option<String>,
    /// New value.
    pub new: Option<String>,
}

/// Lists the differences between `old` and `new`. Generation and counters are left out.
pub fn diff(old: &Config, new: &Config) -> Vec<Difference> {
    // A verb changes few objects of many.
    let (old, new) = (without(old, new), without(new, old));
    let (old, new) = (&old, &new);
    let mut differences = Vec::new();
    let secrets = changed_secrets(old, new);
    let (old, new) = (objects(&redacted(old)), objects(&redacted(new)));
    for (key, value) in &old {
        match new.get(key) {
            None => differences.push(difference(Action::Remove, key, Vec::new())),
            Some(after) => {
                let mut fields = fields(Some(value), after);
                fields.extend(
                    secrets
                        .iter()
                        .filter(|(owner, _)| owner == key)
                        .map(|(_, change)| change.clone()),
                );
                if !fields.is_empty() {
                    differences.push(difference(Action::Modify, key, fields));
                }
            }
        }
    }
    for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        differences.push(difference(Action::Add, key, fields(None, value)));
    }
    differences
}

/// Returns the configuration without the units, targets, hosts and maps that are equal in `other`.
fn without(config: &Config, other: &Config) -> Config {
    Config {
        units: different(&config.units, &other.units, |unit| &unit.name),
        targets: different(&config.targets, &other.targets, |target| &target.iqn),
        hosts: different(&config.hosts, &other.hosts, |host| &host.name),
        maps: different(&config.maps, &other.maps, |map| {
            (&map.unit, &map.host, &map.target)
        }),
        generation: config.generation,
        identity: config.identity.clone(),
        discovery_auth: config.discovery_auth,
        discovery_chap: config.discovery_chap.clone(),
        discovery_mutual_chap: config.discovery_mutual_chap.clone(),
        target_groups: config.target_groups.clone(),
        isns_servers: config.isns_servers.clone(),
        alert_ways: config.alert_ways.clone(),
        initiator: config.initiator.clone(),
    }
}

/// Returns the objects that are missing or different in the other list.
fn different<'a, T: Clone + PartialEq, K: Eq + std::hash::Hash>(
    all: &'a [T],
    others: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> Vec<T> {
    let others: HashMap<K, &T> = others.iter().map(|other| (key(other), other)).collect();
    let is_new = |one: &&'a T| others.get(&key(one)) != Some(one);
    all.iter().filter(is_new).cloned().collect()
}

/// Kind of an object. The order is that of [`objects`] and of a listing: objects on which others
/// depend come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ObjectKind {
    Setting,
    Unit,
    Target,
    TargetGroup,
    Host,
    Map,
    Login,
    Device,
    ClaimRule,
    Way,
}

impl ObjectKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Unit => "lu",
            Self::Target => "target",
            Self::TargetGroup => "target group",
            Self::Host => "host",
            Self::Map => "map",
            Self::Login => "login",
            Self::Device => "device",
            Self::ClaimRule => "claim rule",
            Self::Way => "alert way",
        }
    }
}

type Key = (ObjectKind, String);

fn difference(action: Action, (kind, name): &Key, fields: Vec<FieldChange>) -> Difference {
    Difference {
        action,
        object: kind.as_str().into(),
        name: name.clone(),
        fields,
    }
}

fn objects(config: &Config) -> BTreeMap<Key, Value> {
    let json = |value: serde_json::Result<Value>| value.unwrap_or(Value::Null);
    let mut objects = BTreeMap::new();
    let settings = serde_json::json!({
        "discovery_auth": config.discovery_auth,
        "discovery_chap": config.discovery_chap,
        "discovery_mutual_chap": config.discovery_mutual_chap,
        "isns_servers": config.isns_servers,
    });
    objects.insert((ObjectKind::Setting, "daemon".to_owned()), settings);
    let initiator = &config.initiator;
    let settings = serde_json::json!({
        "name": initiator.name,
        "times": initiator.times,
        "default_psps": initiator.rules.default_psps,
    });
    objects.insert((ObjectKind::Setting, "initiator".to_owned()), settings);
    for login in &initiator.targets {
        objects.insert(
            (ObjectKind::Login, login.iqn.clone()),
            json(serde_json::to_value(login)),
        );
    }
    for device in &initiator.devices {
        objects.insert(
            (ObjectKind::Device, device.name.clone()),
            json(serde_json::to_value(device)),
        );
    }
    for rule in &initiator.rules.user {
        let name = format!("{} for {}", rule.satp.name(), rule.criteria());
        objects.insert(
            (ObjectKind::ClaimRule, name),
            json(serde_json::to_value(rule)),
        );
    }
    for way in &config.alert_ways {
        objects.insert(
            (ObjectKind::Way, way.name.clone()),
            json(serde_json::to_value(way)),
        );
    }
    for unit in &config.units {
        objects.insert(
            (ObjectKind::Unit, unit.name.clone()),
            json(serde_json::to_value(unit)),
        );
    }
    for target in &config.targets {
        objects.insert(
            (ObjectKind::Target, target.iqn.clone()),
            json(serde_json::to_value(target)),
        );
    }
    for group in &config.target_groups {
        let name = group.name.clone();
        objects.insert(
            (ObjectKind::TargetGroup, name),
            json(serde_json::to_value(group)),
        );
    }
    for host in &config.hosts {
        objects.insert(
            (ObjectKind::Host, host.name.clone()),
            json(serde_json::to_value(host)),
        );
    }
    for map in &config.maps {
        objects.insert(
            (ObjectKind::Map, map_name(config, map)),
            json(serde_json::to_value(map)),
        );
    }
    objects
}

fn map_name(config: &Config, map: &MapSpec) -> String {
    format!("{} ({})", map.unit, describe(config, map))
}

/// Compares two objects field by field, one level into tables.
fn fields(old: Option<&Value>, new: &Value) -> Vec<FieldChange> {
    let (before, after) = (old.map(flat).unwrap_or_default(), flat(new));
    let mut changes = Vec::new();
    for (field, value) in &after {
        let was = before.get(field);
        if was != Some(value) {
            changes.push(FieldChange {
                field: field.clone(),
                old: was.cloned(),
                new: Some(value.clone()),
            });
        }
    }
    for (field, value) in before
        .iter()
        .filter(|(field, _)| !after.contains_key(*field))
    {
        changes.push(FieldChange {
            field: field.clone(),
            old: Some(value.clone()),
            new: None,
        });
    }
    changes
}

fn flat(value: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let Value::Object(object) = value else {
        return out;
    };
    for (field, value) in object {
        match value {
            Value::Null => {}
            Value::Object(inner) => {
                for (name, value) in inner.iter().filter(|(_, value)| !value.is_null()) {
                    out.insert(format!("{field}.{name}"), text(value));
                }
            }
            // A portal group has one line, named by its tag.
            Value::Array(list) if list.iter().all(Value::is_object) && !list.is_empty() => {
                for item in list {
                    let tag = item.get("tag").map(text).unwrap_or_default();
                    for (name, value) in flat(item).into_iter().filter(|(name, _)| name != "tag") {
                        out.insert(format!("{field}.{tag}.{name}"), value);
                    }
                }
            }
            other => {
                out.insert(field.clone(), text(other));
            }
        }
    }
    out
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Lists secrets that differ, without showing them. Redaction makes both sides look equal.
fn changed_secrets(old: &Config, new: &Config) -> Vec<(Key, FieldChange)> {
    let change = |field: &str| FieldChange {
        field: field.into(),
        old: Some("(not shown)".into()),
        new: Some("(changed, not shown)".into()),
    };
    let mut out = Vec::new();
    let discovery = [
        (
            "discovery_chap.secret",
            &old.discovery_chap,
            &new.discovery_chap,
        ),
        (
            "discovery_mutual_chap.secret",
            &old.discovery_mutual_chap,
            &new.discovery_mutual_chap,
        ),
    ];
    for (field, before, after) in discovery {
        if let (Some(a), Some(b)) = (before, after)
            && a.secret != b.secret
        {
            out.push(((ObjectKind::Setting, "daemon".to_owned()), change(field)));
        }
    }
    for host in &new.hosts {
        let before = old.host(&host.name).and_then(|host| host.chap.as_ref());
        if let (Some(a), Some(b)) = (before, &host.chap)
            && a.secret != b.secret
        {
            out.push(((ObjectKind::Host, host.name.clone()), change("chap.secret")));
        }
    }
    for target in &new.targets {
        let before = old
            .target(&target.iqn)
            .and_then(|target| target.mutual_chap.as_ref());
        if let (Some(a), Some(b)) = (before, &target.mutual_chap)
            && a.secret != b.secret
        {
            out.push((
                (ObjectKind::Target, target.iqn.clone()),
                change("mutual_chap.secret"),
            ));
        }
    }
    for way in &new.alert_ways {
        let before = old.alert_way(&way.name).map(WaySpec::secrets);
        for (field, secret) in way.secrets() {
            let mut before = before.iter().flatten();
            if before.any(|(name, was)| *name == field && *was != secret) {
                out.push(((ObjectKind::Way, way.name.clone()), change(field)));
            }
        }
    }
    for login in &new.initiator.targets {
        let before = old.initiator.target(&login.iqn);
        let pairs = [
            ("chap.secret", before.map(|b| &b.chap), &login.chap),
            (
                "mutual_chap.secret",
                before.map(|b| &b.mutual_chap),
                &login.mutual_chap,
            ),
        ];
        for (field, before, after) in pairs {
            if let (Some(Some(a)), Some(b)) = (before, after)
                && a.secret != b.secret
            {
                out.push(((ObjectKind::Login, login.iqn.clone()), change(field)));
            }
        }
    }
    out
}

/// Effect of a new configuration on one logged-in session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewChange {
    /// No effect.
    Same,
    /// The set of LUNs, or a unit behind a LUN, changed: raise REPORTED LUNS DATA HAS CHANGED.
    Luns {
        /// LUNs that lead to a new unit.
        added: Vec<u16>,
        /// LUNs that no longer lead to their old unit.
        removed: Vec<u16>,
        /// LUNs that became read-only or writable.
        protection: Vec<u16>,
    },
    /// The session would not be let in again, so it must end.
    End(Refusal),
}

/// Compares the old and new views of the session of `initiator` at `target`.
///
/// A target that was taken offline or redirects keeps its sessions. So only a lost target or view
/// ends a session.
pub fn view_change(old: &Config, new: &Config, initiator: &str, target: &str) -> ViewChange {
    let after = match granted(new, initiator, target, None) {
        Err(refusal) => return ViewChange::End(refusal),
        Ok(granted) => granted.luns,
    };
    let before = super::access::luns(old, initiator, target);
    let has = |list: &[super::access::LunView], lun, naa: &str| {
        list.iter().any(|v| v.lun == lun && v.naa == naa)
    };
    let added: Vec<_> = after
        .iter()
        .filter(|v| !has(&before, v.lun, &v.naa))
        .map(|v| v.lun)
        .collect();
    let removed: Vec<_> = before
        .iter()
        .filter(|v| !has(&after, v.lun, &v.naa))
        .map(|v| v.lun)
        .collect();
    let turned = |v: &&super::access::LunView| {
        before
            .iter()
            .any(|b| b.lun == v.lun && b.naa == v.naa && b.read_only != v.read_only)
    };
    let protection: Vec<_> = after.iter().filter(turned).map(|v| v.lun).collect();
    if added.is_empty() && removed.is_empty() && protection.is_empty() {
        ViewChange::Same
    } else {
        ViewChange::Luns {
            added,
            removed,
            protection,
        }
    }
}

/// Lists the (target, initiator pattern) pairs whose view may differ between the two
/// configurations. A `*` stands for every initiator. The list is a superset: [`view_change`]
/// decides for one session.
pub fn altered_views(old: &Config, new: &Config) -> Vec<(String, String)> {
    let mut out = std::collections::BTreeSet::new();
    for (one, other) in [(old, new), (new, old)] {
        for map in &one.maps {
            let unit =
                |config: &Config| config.unit(&map.unit).map(|u| (u.naa.clone(), u.read_only));
            let host = |config: &Config| {
                map.host
                    .as_deref()
                    .map(|name| config.host(name).map(|h| h.initiators.clone()))
            };
            let same =
                other.maps.contains(map) && unit(one) == unit(other) && host(one) == host(other);
            for target in one.targets.iter().filter(|t| map.leads_to(one, &t.iqn)) {
                let leads = map.leads_to(other, &target.iqn);
                if same && leads && other.target(&target.iqn).is_some() {
                    continue;
                }
                match map.host.as_deref() {
                    None => drop(out.insert((target.iqn.clone(), "*".to_owned()))),
                    Some(name) => {
                        let patterns = one.host(name).map_or(&[][..], |host| &host.initiators);
                        out.extend(patterns.iter().map(|p| (target.iqn.clone(), p.clone())));
                    }
                }
            }
        }
    }
    out.into_iter().collect()
}
