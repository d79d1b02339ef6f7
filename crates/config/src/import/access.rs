//! Access rules of other targets, translated into hosts and maps.
//!
//! Other programs decide for each target separately, and the first rule that fits an initiator
//! decides alone. In Sandstone, an initiator sees the union of the maps of all its hosts, and
//! proves one secret everywhere. The hosts made here never share a member, so that each union has
//! one part only. Each initiator name pattern of the source becomes one host. The host excepts
//! every other pattern that overlaps its own without covering it. All its members match the same
//! patterns, and thus the same rules. An initiator that matches two patterns of which neither
//! covers the other is in no host, and sees nothing. Patterns with equal maps and secrets share a
//! host, if this keeps these properties.

use std::collections::BTreeMap;

use super::{Imported, free_name, unusable};
use model::config::{ChapSecret, HostSpec, MapSpec};
use model::{name, pattern};

/// Rules of one target. The first rule that fits an initiator decides. An initiator without a rule
/// sees nothing.
pub(super) struct Source {
    pub(super) iqn: String,
    pub(super) rules: Vec<Rule>,
}

/// Rule that tells the LUNs that some initiators see at a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Name for notes: `group esx of iqn…`.
    pub(super) name: String,
    /// Short name, for the name of a host.
    pub(super) short: String,
    /// Names of the rule. It fits an initiator that matches one of them.
    pub(super) names: Vec<Name>,
    /// Secrets, each of which is proof enough. If there are none, no proof is required.
    pub(super) secrets: Vec<ChapSecret>,
    /// LUNs that the initiators see.
    pub(super) luns: Vec<Lun>,
}

/// LUN of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lun {
    pub(super) lun: u16,
    pub(super) unit: String,
    pub(super) read_only: bool,
}

/// Names of initiators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Pattern, with its wildcards in [one order](ordered).
    pub(super) pattern: String,
    /// Whether all names that do not match are meant.
    pub(super) inverted: bool,
    /// Pattern of the source, if `pattern` also matches names that were not meant, because no
    /// pattern stands for those alone.
    pub(super) wider: Option<String>,
}

impl Name {
    /// Translates a pattern of another program, in which `*` and `?` mean what they mean here.
    pub(super) fn new(given: &str, inverted: bool) -> Self {
        let pattern = ordered(given);
        match name::pattern(&pattern) {
            Ok(()) => Self {
                pattern,
                inverted,
                wider: None,
            },
            Err(_) => Self {
                pattern: wider(given),
                inverted,
                wider: Some(given.to_owned()),
            },
        }
    }

    /// Returns the name of all initiators.
    pub(super) fn everyone() -> Self {
        Self {
            pattern: "*".into(),
            inverted: false,
            wider: None,
        }
    }
}

/// Writes each run of wildcards in one way, so that the pattern for these names is unique.
fn ordered(pattern: &str) -> String {
    let mut text = String::new();
    let mut star = false;
    for c in pattern.chars() {
        match c {
            '*' => star = true,
            '?' => text.push('?'),
            c => {
                if std::mem::take(&mut star) {
                    text.push('*');
                }
                text.push(c);
            }
        }
    }
    if star {
        text.push('*');
    }
    // No name is empty, and a pattern that covers all names should have one form.
    match text.as_str() {
        "?*" => "*".into(),
        _ => text,
    }
}

/// Returns a pattern that can be written here and matches at least the same names.
fn wider(given: &str) -> String {
    let text: String = given
        .bytes()
        .map(|b| match b {
            b',' => '?',
            b'!'..=b'~' => char::from(b),
            _ => '?',
        })
        .collect();
    let text = ordered(&text);
    if name::pattern(&text).is_ok() {
        return text;
    }
    // The pattern is too long for a name.
    let start: String = text.chars().take(100).collect();
    format!("{start}*")
}

/// Pattern of the source, with the view of its host's members.
struct Member {
    pattern: String,
    wider: bool,
    /// Whether some rule means all names that do not match.
    inverted: bool,
    /// Patterns whose matches do not belong to the host, as indices.
    except: Vec<usize>,
    view: View,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    /// LUNs by target.
    luns: BTreeMap<String, Vec<Lun>>,
    chap: Option<ChapSecret>,
    /// Text from which the name of the host is made.
    short: String,
}

impl View {
    fn same(&self, other: &Self) -> bool {
        self.luns == other.luns && self.chap == other.chap
    }
}

/// Makes hosts and maps from the rules.
pub(super) fn carry(sources: &[Source], imported: &mut Imported) {
    let sources: Vec<Source> = sources
        .iter()
        .map(|source| checked(source, imported))
        .collect();
    let mut members = patterns(&sources);
    name_overlaps(&members, imported);
    for index in 0..members.len() {
        if !members[index].wider {
            members[index].view = view(&sources, &members, index, imported);
        }
    }
    for class in classes(&members) {
        emit(&members, &class, imported);
    }
}

/// Returns the rules without LUNs and secrets that cannot be kept.
fn checked(source: &Source, imported: &mut Imported) -> Source {
    let mut rules = source.rules.clone();
    for rule in &mut rules {
        for given in rule.names.iter().filter_map(|name| name.wider.as_ref()) {
            imported.leave_out(
                format!("initiator {given} in {}", rule.name),
                "a host cannot have members of this kind; initiators that match it get no access",
            );
        }
        let mut luns: Vec<Lun> = Vec::new();
        for lun in &rule.luns {
            let twice = luns.iter().any(|l| l.lun == lun.lun || l.unit == lun.unit);
            let what = format!("LUN {} ({}) of {}", lun.lun, lun.unit, rule.name);
            if twice {
                imported.leave_out(what, "its number or its device is used already");
            } else if lun.lun > crate::validate::MAX_LUN {
                imported.leave_out(what, "the number is too high");
            } else {
                luns.push(lun.clone());
            }
        }
        rule.luns = luns;
        let all = rule.secrets.len();
        let mut reasons = Vec::new();
        rule.secrets.retain(|secret| match unusable(secret) {
            Some(reason) => {
                reasons.push(format!("user {:?} of {}: {reason}", secret.user, rule.name));
                false
            }
            None => true,
        });
        for reason in reasons {
            imported.note(format!("{reason}; the user cannot log in"));
        }
        if all > 0 && rule.secrets.is_empty() && !rule.luns.is_empty() {
            imported.leave_out(
                rule.name.clone(),
                "none of its secrets is usable; set a secret of 12 bytes or more in the file, and import it \
                 again",
            );
            rule.luns.clear();
        }
    }
    Source {
        iqn: source.iqn.clone(),
        rules,
    }
}

/// Lists each pattern once, and everybody.
fn patterns(sources: &[Source]) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    let rules = sources.iter().flat_map(|source| &source.rules);
    let everyone = [Name::everyone()];
    for given in rules.flat_map(|rule| &rule.names).chain(&everyone) {
        match members
            .iter_mut()
            .find(|member| name::is_same(&member.pattern, &given.pattern))
        {
            Some(member) => {
                member.wider |= given.wider.is_some();
                member.inverted |= given.inverted;
            }
            None => members.push(Member {
                pattern: given.pattern.clone(),
                wider: given.wider.is_some(),
                inverted: given.inverted,
                except: Vec::new(),
                view: View::default(),
            }),
        }
    }
    let excepted = |p: &Member, q: &Member| {
        p.pattern != q.pattern
            && pattern::overlap(&p.pattern, &q.pattern)
            && (q.wider || !pattern::covers(&q.pattern, &p.pattern))
    };
    for index in 0..members.len() {
        let all = members.iter().enumerate();
        let except = all.filter(|(_, other)| excepted(&members[index], other));
        members[index].except = except.map(|(other, _)| other).collect();
    }
    members
}

fn name_overlaps(members: &[Member], imported: &mut Imported) {
    for (index, member) in members.iter().enumerate() {
        for &other in member.except.iter().filter(|&&other| other > index) {
            let (p, q) = (&member.pattern, &members[other].pattern);
            let crosses = members[other].except.contains(&index);
            if crosses && !pattern::covers(p, q) && !pattern::covers(q, p) {
                imported.note(format!(
                    "initiators that match both {p} and {q} see nothing, unless one host has both patterns: \
                     the file does not tell which rule applies to them"
                ));
            }
        }
    }
}

/// Returns the view of the members of a pattern's host: at each target, the LUNs of the first rule
/// that fits them.
fn view(sources: &[Source], members: &[Member], index: usize, imported: &mut Imported) -> View {
    let own = &members[index].pattern;
    let fits = |name: &Name| {
        (name.wider.is_none() && pattern::covers(&name.pattern, own)) != name.inverted
    };
    let first = |source: &Source| {
        let rule = source.rules.iter().find(|rule| rule.names.iter().any(fits));
        rule.filter(|rule| !rule.luns.is_empty()).cloned()
    };
    let rules: Vec<(&str, Rule)> = sources
        .iter()
        .filter_map(|source| Some((source.iqn.as_str(), first(source)?)))
        .collect();
    // The chosen secret keeps the most LUNs, at targets that require it or no proof.
    let keeps = |chap: Option<&ChapSecret>| {
        let kept = rules.iter().filter(|(_, rule)| accepts(rule, chap));
        kept.map(|(_, rule)| rule.luns.len()).sum::<usize>()
    };
    let mut chap = None;
    for secret in rules.iter().flat_map(|(_, rule)| &rule.secrets) {
        if keeps(Some(secret)) > keeps(chap) {
            chap = Some(secret);
        }
    }
    let mut view = View {
        chap: chap.cloned(),
        ..View::default()
    };
    for (iqn, rule) in &rules {
        if !accepts(rule, chap) {
            imported.leave_out(
                format!("{} for initiator {own}", rule.name),
                "another target requires another secret, and in Sandstone an initiator has one secret for \
                 all targets",
            );
            continue;
        }
        if chap.is_some() && rule.secrets.is_empty() {
            imported.note(format!(
                "initiator {own} must now authenticate at {iqn} too, which required no secret"
            ));
        }
        if rule.secrets.len() > 1 {
            let others = rule.secrets.iter().filter(|secret| Some(*secret) != chap);
            let others: Vec<_> = others.map(|secret| secret.user.as_str()).collect();
            imported.note(format!(
                "{} has several users; initiators log in as {}, and no longer as {}",
                rule.name,
                chap.map_or("", |chap| &chap.user),
                others.join(", ")
            ));
        }
        if view.short.is_empty() {
            view.short.clone_from(&rule.short);
        }
        let mut luns = rule.luns.clone();
        luns.sort();
        view.luns.insert((*iqn).to_owned(), luns);
    }
    view
}

/// Reports whether the proof is at least as strong as the rule requires.
fn accepts(rule: &Rule, chap: Option<&ChapSecret>) -> bool {
    rule.secrets.is_empty() || chap.is_some_and(|chap| rule.secrets.contains(chap))
}

/// Groups patterns that can share a host, as indices.
fn classes(members: &[Member]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (index, member) in members.iter().enumerate() {
        if member.wider || member.view.luns.is_empty() {
            continue;
        }
        let fits = |class: &&mut Vec<usize>| {
            members[class[0]].view.same(&member.view) && may_join(members, class, index)
        };
        match classes.iter_mut().find(fits) {
            Some(class) => class.push(index),
            None => classes.push(vec![index]),
        }
    }
    classes
}

/// Reports whether a pattern may join others of equal view. An exception of one member must not
/// take names from another member that covers them. Patterns that cross must not be inverted by a
/// rule: then the rule of their common names is the rule of one of them.
fn may_join(members: &[Member], class: &[usize], new: usize) -> bool {
    let mut all = class.to_vec();
    all.push(new);
    let except = except(members, &all);
    let takes = |&r: &usize| {
        all.iter()
            .any(|&m| pattern::covers(&members[r].pattern, &members[m].pattern))
    };
    if except.iter().any(takes) {
        return false;
    }
    let excepts = |&m: &usize| !members[m].except.is_empty();
    let crossing: Vec<usize> = all.iter().copied().filter(excepts).collect();
    let crosses = |&a: &usize| {
        let back = |b: &usize| members[*b].except.contains(&a);
        members[a]
            .except
            .iter()
            .any(|b| crossing.contains(b) && back(b))
    };
    let crossed = crossing.iter().any(crosses);
    !crossed || all.iter().all(|&m| !members[m].inverted)
}

/// Lists the patterns that a host of these members excepts.
fn except(members: &[Member], class: &[usize]) -> Vec<usize> {
    let mut except: Vec<usize> = class
        .iter()
        .flat_map(|&m| members[m].except.clone())
        .collect();
    except.sort_unstable();
    except.dedup();
    except.retain(|r| !class.contains(r));
    except
}

fn emit(members: &[Member], class: &[usize], imported: &mut Imported) {
    let patterns = |list: &[usize]| -> Vec<String> {
        list.iter().map(|&m| members[m].pattern.clone()).collect()
    };
    let (initiators, except) = (patterns(class), patterns(&except(members, class)));
    if initiators
        .iter()
        .any(|p| except.iter().any(|r| pattern::covers(r, p)))
    {
        // Its members cannot be told from those of a pattern that was not understood, which was
        // named.
        return imported.leave_out(
            format!("initiator {}", initiators.join(", ")),
            "a pattern that was left out also matches it",
        );
    }
    let view = &members[class[0]].view;
    let everybody = initiators.iter().any(|p| p == "*") && except.is_empty();
    let host = (!everybody || view.chap.is_some()).then(|| {
        let own = match initiators.as_slice() {
            [one] if !one.contains(['*', '?']) => one
                .rsplit(':')
                .find(|part| !part.is_empty())
                .unwrap_or(one)
                .to_owned(),
            _ if initiators.iter().any(|p| p == "*") && !except.is_empty() => "others".to_owned(),
            _ => view.short.clone(),
        };
        let config = &imported.config;
        free_name(&own, |name| config.host(name).is_some())
    });
    let maps = view.luns.iter().flat_map(|(iqn, luns)| {
        luns.iter().map(|lun| MapSpec {
            unit: lun.unit.clone(),
            host: host.clone(),
            target: Some(iqn.clone()),
            lun: lun.lun,
            read_only: lun.read_only,
        })
    });
    imported.config.maps.extend(maps);
    if let Some(name) = host {
        imported.config.hosts.push(HostSpec {
            name,
            initiators,
            except,
            chap: view.chap.clone(),
        });
    }
}
