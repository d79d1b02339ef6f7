//! Fields of an order, and the order that they make.

use ::bench::profile;
use ::benchmarks::{OUTSTANDING, ROUNDS, StartBenchmark, SweepOrder, TIME_MS};
use control::endpoint::lu;
use maud::{Markup, html};
use model::Error;
use model::quantity::{parse_size, parse_time};

use crate::form::Field;
use crate::visit::{Fields, Visit};

/// Kind of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Accesses of one size.
    Block,
    /// A built-in profile.
    Profile,
    /// Block sizes and queue depths, each combined with each.
    Sweep,
}

impl Kind {
    /// Returns the kind that a form names. Accesses of one size are the default.
    pub(super) fn of(fields: &Fields) -> Self {
        match fields.get("kind") {
            "profile" => Self::Profile,
            "sweep" => Self::Sweep,
            _ => Self::Block,
        }
    }

    /// Returns the word for the kind in a form.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Profile => "profile",
            Self::Sweep => "sweep",
        }
    }
}

/// Reads an order from a form.
///
/// # Errors
/// A field is not what it should be.
pub(super) fn order(fields: &Fields) -> Result<StartBenchmark, Error> {
    let kind = Kind::of(fields);
    let mut order = StartBenchmark {
        unit: fields.get("unit").to_owned(),
        comment: fields.some("comment").map(str::to_owned),
        workers: number(fields, "workers")?,
        rate: number(fields, "rate")?,
        time_ms: fields.some("time").map(time).transpose()?,
        rounds: number(fields, "rounds")?,
        working_set: fields.some("working_set").map(size).transpose()?,
        overwrite: fields.some("overwrite").map(str::to_owned),
        ..StartBenchmark::default()
    };
    match kind {
        Kind::Block => {
            order.block = Some(block(fields.get("block"))?);
            order.outstanding = number(fields, "outstanding")?;
        }
        Kind::Profile => {
            order.profile = Some(fields.get("profile").to_owned());
            order.only = fields.some("only").map(str::to_owned);
            order.outstanding = number(fields, "outstanding")?;
        }
        Kind::Sweep => {
            let depth = |text: &str| parse("accesses in flight", text);
            order.sweep = Some(SweepOrder {
                blocks: list(fields.get("blocks"), block)?,
                outstanding: list(fields.get("depths"), depth)?,
            });
        }
    }
    if kind != Kind::Profile {
        order.reads = number(fields, "reads")?;
        order.random = number(fields, "random")?;
    }
    Ok(order)
}

/// Returns the fields by which the form of an order is filled in again.
pub(super) fn of_order(order: &StartBenchmark) -> Vec<(&'static str, String)> {
    let exact = |bytes: u64| {
        let text = model::quantity::format_size(bytes);
        match parse_size(&text) == Ok(bytes) {
            true => text,
            false => bytes.to_string(),
        }
    };
    let kind = match (&order.profile, &order.sweep) {
        (Some(_), _) => Kind::Profile,
        (_, Some(_)) => Kind::Sweep,
        _ => Kind::Block,
    };
    let joined = |values: Vec<String>| values.join(", ");
    let sweep = order.sweep.as_ref();
    let blocks = sweep.map(|it| joined(it.blocks.iter().map(|it| exact((*it).into())).collect()));
    let depths = sweep.map(|it| joined(it.outstanding.iter().map(u32::to_string).collect()));
    let fields = [
        ("kind", Some(kind.as_str().to_owned())),
        ("unit", Some(order.unit.clone())),
        ("block", order.block.map(|it| exact(it.into()))),
        ("profile", order.profile.clone()),
        ("only", order.only.clone()),
        ("blocks", blocks),
        ("depths", depths),
        ("reads", order.reads.map(|it| it.to_string())),
        ("random", order.random.map(|it| it.to_string())),
        ("outstanding", order.outstanding.map(|it| it.to_string())),
        ("workers", order.workers.map(|it| it.to_string())),
        ("rate", order.rate.map(|it| it.to_string())),
        ("time", order.time_ms.map(model::quantity::format_time)),
        ("rounds", order.rounds.map(|it| it.to_string())),
        ("working_set", order.working_set.map(exact)),
    ];
    let known = fields.into_iter();
    known
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Shows the fields of an order, with the values that were given before.
///
/// # Errors
/// The units cannot be listed.
pub(super) fn draw(visit: &Visit, given: &Fields) -> Result<Markup, Error> {
    let kind = Kind::of(given);
    let units: Vec<String> = visit
        .call(&lu::LIST, &[])?
        .into_iter()
        .map(|view| view.spec.name)
        .collect();
    let (outstanding, rounds) = (OUTSTANDING.to_string(), ROUNDS.to_string());
    let usual_time = match kind {
        Kind::Sweep => "3s".to_owned(),
        _ => model::quantity::format_time(TIME_MS),
    };
    let value = |name: &str, usual: &str| match given.0.iter().any(|(of, _)| of == name) {
        true => given.get(name).to_owned(),
        false => usual.to_owned(),
    };
    Ok(html! {
        (Field::new("unit", "Unit").value(&value("unit", "")).suggesting(&units))
        @match kind {
            Kind::Block => {
                (Field::new("block", "Block size").value(&value("block", "4K")).hint("Such as 4K, 64K or 1M.").text())
                (Field::new("outstanding", "Accesses in flight").value(&value("outstanding", &outstanding))
                    .hint("The queue depth, for each worker.").number())
            }
            Kind::Profile => {
                (profiles(&value("profile", "vmktree")))
                (Field::new("only", "Only workloads with this text").optional().value(&value("only", ""))
                    .hint("Such as read, which leaves out all that write where their names say so.").text())
                (Field::new("outstanding", "Accesses in flight").value(&value("outstanding", &outstanding))
                    .hint("The queue depth, for each worker, where the profile does not say.").number())
            }
            Kind::Sweep => {
                (Field::new("blocks", "Block sizes").value(&value("blocks", "4K, 16K, 64K, 256K, 1M"))
                    .hint("One or more, with commas between.").text())
                (Field::new("depths", "Accesses in flight").value(&value("depths", "1, 4, 16, 64"))
                    .hint("Queue depths, with commas between. Each is tried with each block size.").text())
            }
        }
        @if kind != Kind::Profile {
            (Field::new("reads", "Reads, percent").value(&value("reads", "100"))
                .hint("Less than 100 writes to the unit, and destroys what is on it.").number())
            (Field::new("random", "Random accesses, percent").value(&value("random", "100"))
                .hint("The others follow each other.").number())
        }
        (Field::new("time", "Measured time of each").value(&value("time", &usual_time))
            .hint("Such as 10s or 2m. A short time before it is not measured.").text())
        (Field::new("rounds", "Rounds").value(&value("rounds", &rounds))
            .hint("Three or more tell a difference from noise.").number())
        details open[["workers", "rate", "working_set", "comment"].iter().any(|name| given.some(name).is_some())] {
            summary { "More" }
            (Field::new("workers", "Workers").optional().value(&value("workers", ""))
                .hint("Threads, each with its own part of the unit. One is usual.").number())
            (Field::new("rate", "Accesses per second").optional().value(&value("rate", ""))
                .hint("A fixed rate, however slow the unit is. Without one, the next access starts when one has ended.").number())
            (Field::new("working_set", "Part of the unit").optional().value(&value("working_set", ""))
                .hint("Bytes at its start that are used, such as 10G. Without it, all.").text())
            (Field::new("comment", "Comment").optional().value(&value("comment", ""))
                .hint("What was changed since the last benchmark.").text())
        }
    })
}

fn profiles(chosen: &str) -> Markup {
    let options = profile::built_in().into_iter().map(|it| {
        let writes = it.workloads.iter().any(|workload| workload.writes());
        let writes = if writes { "" } else { " (reads only)" };
        let label = format!("{}: {}{writes}", it.name, it.about);
        (it.name, label)
    });
    let options: Vec<(String, String)> = options.collect();
    Field::new("profile", "Profile")
        .value(chosen)
        .hint("One that does not only read destroys what is on the unit.")
        .choice(&options)
}

fn parse<N: std::str::FromStr>(what: &str, text: &str) -> Result<N, Error> {
    text.trim().parse().map_err(|_| {
        Error::invalid(
            format!("{text:?} is no number of {what}"),
            "enter a number, such as 16",
        )
    })
}

fn number<N: std::str::FromStr>(fields: &Fields, name: &str) -> Result<Option<N>, Error> {
    let what = name.replace('_', " ");
    fields.some(name).map(|text| parse(&what, text)).transpose()
}

fn size(text: &str) -> Result<u64, Error> {
    parse_size(text).map_err(|error| Error::invalid(error, "enter a size such as 64K or 10G"))
}

fn block(text: &str) -> Result<u32, Error> {
    u32::try_from(size(text.trim())?).map_err(|_| {
        Error::invalid(
            format!("{text} is too large for one access"),
            "enter a size such as 4K or 1M",
        )
    })
}

fn time(text: &str) -> Result<u64, Error> {
    parse_time(text, Some(1000))
        .map_err(|error| Error::invalid(error, "enter a time such as 10s or 2m"))
}

/// Reads values with commas between.
fn list<T>(text: &str, read: impl Fn(&str) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let words = text.split([',', ' ', ';']);
    let words = words.filter(|word| !word.trim().is_empty());
    words.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::read(text.as_bytes())
    }

    #[test]
    fn a_form_and_its_order_say_the_same() {
        for text in [
            "kind=block&unit=db&block=4K&reads=70&random=100&outstanding=16&time=10s&rounds=3",
            "kind=block&unit=db&block=5000&workers=2&rate=100&working_set=10G",
            "kind=profile&unit=db&profile=crystal&only=read&time=500ms",
            "kind=sweep&unit=db&blocks=4K%2C+1M&depths=1%2C+64&reads=100&rounds=1",
        ] {
            let read = order(&fields(text)).expect(text);
            let again = of_order(&read).into_iter();
            let again = Fields(
                again
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            );
            assert_eq!(order(&again).expect("the same"), read, "{text}");
        }
    }

    #[test]
    fn a_field_that_is_wrong_is_named_with_what_to_enter() {
        for (text, told) in [
            ("kind=block&block=big", "is not a size"),
            ("kind=block&block=8G", "too large for one access"),
            ("kind=block&block=4K&rounds=many", "no number of rounds"),
            ("kind=block&block=4K&time=soon", "soon"),
            (
                "kind=sweep&blocks=4K&depths=1,x",
                "no number of accesses in flight",
            ),
        ] {
            let error = order(&fields(text)).expect_err(text);
            assert!(error.message.contains(told), "{text}: {error}");
            assert!(error.next.starts_with("enter a "), "{text}: {error}");
        }
    }
}
