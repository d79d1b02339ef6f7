//! Handlers of requests about SATP claim rules, and for the default path selections of storage
//! array types.

use super::routes::Routes;
use crate::answer::SatpView;
use crate::call::Call;
use crate::endpoint::rules::{self as at, PspChoice};
use config::change::{Change, SetDefaultPsp};
use model::Error;
use multipath::RuleView;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .change(&at::ADD, |[], rule| Change::AddClaimRule(rule))
        .change(&at::REMOVE, |[], rule| Change::RemoveClaimRule(rule))
        .serve(&at::SATPS, satps)
        .change(&at::SET_SATP, |[satp], PspChoice { psp }| {
            Change::SetDefaultPsp(SetDefaultPsp { satp, psp })
        })
}

pub(super) fn list(call: Call) -> Result<Vec<RuleView>, Error> {
    let Call { plane, .. } = call;
    Ok(plane.config().initiator.rules.lines())
}

pub(super) fn satps(call: Call) -> Result<Vec<SatpView>, Error> {
    let Call { plane, .. } = call;
    let lines = plane.config().initiator.rules.satp_lines();
    let views = lines.into_iter().map(|[name, psp, description]| SatpView {
        name: name.to_owned(),
        default_psp: psp.to_owned(),
        description: description.to_owned(),
    });
    Ok(views.collect())
}
