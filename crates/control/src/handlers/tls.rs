//! Handlers of requests about the certificate of the console.

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::tls::{self as at, GiveTls, TlsView};
use crate::plane::{ConsoleCertificate, Plane};
use model::{Error, ErrorKind};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::SHOW, show)
        .serve(&at::GIVE, give)
        .serve(&at::MAKE, make)
        .serve(&at::RELOAD, reload)
}

fn certificate(plane: &Plane) -> Result<&dyn ConsoleCertificate, Error> {
    plane.console.certificate().ok_or_else(|| {
        Error::new(
            ErrorKind::Unavailable,
            "the daemon serves no console, and so has no certificate",
            "start it with --console ADDRESS:PORT",
        )
    })
}

fn show(call: Call) -> Result<TlsView, Error> {
    Ok(certificate(&call.plane)?.view())
}

fn give(call: Call<(), GiveTls>) -> Result<TlsView, Error> {
    let body = call.body;
    certificate(&call.plane)?.give(&body.certificate, &body.key.0)
}

fn make(call: Call) -> Result<TlsView, Error> {
    certificate(&call.plane)?.make()
}

fn reload(call: Call) -> Result<TlsView, Error> {
    certificate(&call.plane)?.reload()
}
