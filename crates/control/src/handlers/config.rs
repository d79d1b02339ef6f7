//! Handlers of requests about the configuration as a whole.

use super::routes::Routes;
use crate::answer::ConfigDocument;
use crate::call::Call;
use crate::endpoint::config::{self as at, Apply};
use crate::transaction::{Commit, Committed};
use config::backup::Backup;
use config::change::Change;
use config::history::GenerationView;
use config::redact::redacted;
use model::{Config, Error, ErrorKind};
use shown::without_values;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::SHOW, show)
        .serve(&at::APPLY, apply)
        .serve(&at::EXPORT, export)
        .serve(&at::RESTORE, restore)
        .change(&at::SET_DISCOVERY, |[], rules| Change::SetDiscovery(rules))
        .serve(&at::GENERATIONS, generations)
        .serve(&at::ROLLBACK, rollback)
}

pub(super) fn show(call: Call) -> Result<ConfigDocument, Error> {
    let Call { plane, .. } = call;
    let config = plane.config();
    let toml = toml::to_string(&redacted(&config)).map_err(|e| {
        Error::invalid(
            format!("the configuration cannot be written as TOML: {e}"),
            "report this as a defect",
        )
    })?;
    Ok(ConfigDocument {
        generation: config.generation,
        toml,
    })
}

pub(super) fn export(call: Call) -> Result<Backup, Error> {
    let Call { plane, asker, .. } = call;
    let Some(user) = asker.known_user() else {
        return Err(Error::new(
            ErrorKind::Refused,
            "secrets leave the daemon only through its control socket, where the kernel tells the user",
            "run sandstone config export on the daemon's machine as its user, with --state DIR",
        ));
    };
    tracing::warn!(user, "the configuration is exported with its secrets");
    let pools = pools::members(&plane.state_folder);
    Ok(Backup::new(&plane.config(), pools))
}

pub(super) fn restore(call: Call<Commit, Backup>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: request,
        ..
    } = call;
    plane.transactions.restore(request.config, &how)
}

pub(super) fn apply(call: Call<Commit, Apply>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: request,
        ..
    } = call;
    let wanted = match request {
        Apply::Config(config) => config,
        Apply::Toml(text) => {
            let parsed: Config = toml::from_str(&text).map_err(|error| {
                let fault = fault(&text, &error);
                Error::invalid(
                    format!("the file is not a configuration: {fault}"),
                    "sandstone config show prints a valid configuration",
                )
            })?;
            Box::new(parsed)
        }
    };
    plane.commit(Change::Replace(wanted), how)
}

/// Says what is wrong with a configuration as TOML, and where, without a line of it: the line may
/// hold a secret.
fn fault(text: &str, error: &toml::de::Error) -> String {
    let what = without_values(error.message());
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return what;
    };
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].chars().count() + 1;
    format!("line {line}, column {column}: {what}")
}

pub(super) fn generations(call: Call) -> Result<Vec<GenerationView>, Error> {
    let Call { plane, .. } = call;
    plane.transactions.history()
}

pub(super) fn rollback(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [generation] = at.names();
    let wrong = |_| {
        Error::invalid(
            format!("{generation:?} is not the number of a generation"),
            "sandstone config history",
        )
    };
    let number = generation.parse::<u64>().map_err(wrong)?;
    plane.transactions.rollback(number, &how)
}
