//! Access rules of other targets, carried over to hosts and maps.
//!
//! Other programs decide for each target by itself, and the first rule that fits an initiator
//! decides alone. With us an initiator sees the union of the maps of all its hosts, and proves one
//! secret everywhere. The hosts made here never share a member, so that a union has one part only.
//! Each initiator name pattern of the source becomes one host, which excepts every other pattern
//! that overlaps it without covering it. All its members match the same patterns, thus the same
//! rules. Initiators that match two patterns of which none covers the other are in no host, and see
//! nothing. Patterns that end in the same maps and the same secret share a host where that keeps
//! these properties.

use std::collections::BTreeMap;

use super::{Imported, free_name, unusable};
use model::config::{ChapSecret, HostSpec, MapSpec};
use model::{name, pattern};

/// The rules of one target. The first one that fits an initiator decides; without one it sees
/// nothing.
pub(super) struct Source {
    pub(super) iqn: String,
    pub(super) rules: Vec<Rule>,
}

/// A rule tells the LUNs that some initiators see at a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// For notes: `group esx of iqn…`.
    pub(super) name: String,
    /// For the name of a host.
    pub(super) short: String,
    /// It fits an initiator that fits one of these.
    pub(super) names: Vec<Name>,
    /// Each of them is proof enough; none is asked for where it is empty.
    pub(super) secrets: Vec<ChapSecret>,
    /// The LUNs that they see.
    pub(super) luns: Vec<Lun>,
}

/// A LUN of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lun {
    pub(super) lun: u16,
    pub(super) unit: String,
    pub(super) read_only: bool,
}

/// Names of initiators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// With its wildcards in [one order](ordered).
    pub(super) pattern: String,
    /// All the others are meant.
    pub(super) inverted: bool,
    /// The pattern of the source, where ours also matches names that were not meant: there is none
    /// for those alone.
    pub(super) wider: Option<String>,
}

impl Name {
    /// A pattern of another program, where `*` and `?` mean what they mean to us.
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

    /// All initiators.
    pub(super) fn everyone() -> Self {
        Self {
            pattern: "*".into(),
            inverted: false,
            wider: None,
        }
    }
}

/// The pattern with each run of wildcards written in one way, which is the only one for these
/// names.
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
    // No name is empty, and no pattern that covers all names should look like another.
    match text.as_str() {
        "?*" => "*".into(),
        _ => text,
    }
}

/// A pattern that we can write and that matches at least the same names.
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
    // It is too long for a name.
    let start: String = text.chars().take(100).collect();
    format!("{start}*")
}

/// One pattern of the source, with what its host's members see.
struct Member {
    pattern: String,
    wider: bool,
    /// Some rule means all the others.
    inverted: bool,
    /// Patterns whose matches do not belong to its host, as indices.
    except: Vec<usize>,
    view: View,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    /// By target.
    luns: BTreeMap<String, Vec<Lun>>,
    chap: Option<ChapSecret>,
    /// The name of the host is made of this.
    short: String,
}

impl View {
    fn same(&self, other: &Self) -> bool {
        self.luns == other.luns && self.chap == other.chap
    }
}

/// Makes hosts and maps of the rules.
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

/// The rules without LUNs and secrets that we cannot keep.
fn checked(source: &Source, imported: &mut Imported) -> Source {
    let mut rules = source.rules.clone();
    for rule in &mut rules {
        for given in rule.names.iter().filter_map(|name| name.wider.as_ref()) {
            imported.leave_out(
                format!("initiator {given} in {}", rule.name),
                "no host can have members of this kind; nobody that it matches is let in anywhere",
            );
        }
        let mut luns: Vec<Lun> = Vec::new();
        for lun in &rule.luns {
            let twice = luns.iter().any(|l| l.lun == lun.lun || l.unit == lun.unit);
            let what = format!("LUN {} ({}) of {}", lun.lun, lun.unit, rule.name);
            if twice {
                imported.leave_out(what, "its number or its device is there already");
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
            imported.note(format!("{reason}; it cannot log in"));
        }
        if all > 0 && rule.secrets.is_empty() && !rule.luns.is_empty() {
            imported.leave_out(
                rule.name.clone(),
                "none of its secrets can be used; set one of 12 bytes or more there, and import again",
            );
            rule.luns.clear();
        }
    }
    Source {
        iqn: source.iqn.clone(),
        rules,
    }
}

/// Each pattern once, and everybody.
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
                    "initiators that both {p} and {q} match see nothing, unless one host has both patterns: which rule is theirs cannot be told"
                ));
            }
        }
    }
}

/// The view of the members of a pattern's host: at each target, the LUNs of the first rule that
/// fits them.
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
    // The secret that keeps the most LUNs, at targets that ask for it or for nothing.
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
                "another target asks it for another secret, and it has one for all targets with us",
            );
            continue;
        }
        if chap.is_some() && rule.secrets.is_empty() {
            imported.note(format!(
                "initiator {own} must prove its secret at {iqn} too, which asked for none"
            ));
        }
        if rule.secrets.len() > 1 {
            let others = rule.secrets.iter().filter(|secret| Some(*secret) != chap);
            let others: Vec<_> = others.map(|secret| secret.user.as_str()).collect();
            imported.note(format!(
                "{} knows several users; initiators log in as {}, no longer as {}",
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

/// Whether that proof is at least what the rule asks for.
fn accepts(rule: &Rule, chap: Option<&ChapSecret>) -> bool {
    rule.secrets.is_empty() || chap.is_some_and(|chap| rule.secrets.contains(chap))
}

/// Patterns that can share a host, as indices.
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

/// Whether a pattern may join others of the same view. What one member excepts must not take names
/// from another that covers those, and patterns that cross must not be ones that a rule inverts:
/// then the rule of their common names is the rule of one of them.
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

/// The patterns that a host of these excepts.
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
        // Its members cannot be told from those of a pattern that is not understood, which was
        // named.
        return imported.leave_out(
            format!("initiator {}", initiators.join(", ")),
            "a pattern that was left out matches it too",
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
