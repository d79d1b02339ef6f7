//! Handlers of requests about SATP claim rules, and for the default path selections of storage
//! array types.

use super::routes::Routes;
use crate::answer::SatpView;
use crate::call::Call;
use crate::endpoint::rules::{self as at, PspChoice};
use crate::transaction::{Commit, Committed};
use config::change::{Change, SetDefaultPsp};
use model::Error;
use multipath::{RuleText, RuleView};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::ADD, add)
        .serve(&at::REMOVE, remove)
        .serve(&at::SATPS, satps)
        .serve(&at::SET_SATP, set_satp)
}

pub(super) fn list(call: Call) -> Result<Vec<RuleView>, Error> {
    let Call { plane, .. } = call;
    Ok(plane.config().initiator.rules.lines())
}

pub(super) fn add(call: Call<Commit, RuleText>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: request,
        ..
    } = call;
    plane.commit(Change::AddClaimRule(request), how)
}

pub(super) fn remove(call: Call<Commit, RuleText>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: request,
        ..
    } = call;
    plane.commit(Change::RemoveClaimRule(request), how)
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

pub(super) fn set_satp(call: Call<Commit, PspChoice>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        body: request,
        ..
    } = call;
    let [satp] = at.names();
    let change = SetDefaultPsp {
        satp,
        psp: request.psp,
    };
    plane.commit(Change::SetDefaultPsp(change), how)
}
