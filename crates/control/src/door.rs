//! The door for pages of this process: it asks endpoints as the API does, with the same check of
//! roles and the same audit log, but without a socket and without JSON.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hyper::Method;
use serde::Serialize;

use super::asker::Asker;
use super::author::asks_only;
use super::call::{Arguments, Call};
use super::endpoint::Rule;
use super::endpoint::volume::{self, Listed};
use super::endpoint::{self, Endpoint};
use super::gate::{self, Attempt};
use super::plane::Plane;
use model::access::FolderGrant;
use model::pool::dataset::DatasetView;
use model::{Error, ErrorKind};

/// Function that carries out a request of one endpoint.
pub(crate) type Function<Q, B, A> = Box<dyn Fn(Call<Q, B>) -> Result<A, Error> + Send + Sync>;

/// Functions of endpoints by the names of their operations.
pub(crate) type Functions = HashMap<&'static str, Box<dyn Any + Send + Sync>>;

/// Door to all endpoints of a daemon.
pub struct Door {
    plane: Arc<Plane>,
    functions: Functions,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a door to {} endpoints", self.functions.len())
    }
}

impl Door {
    pub(crate) fn new(plane: Arc<Plane>, functions: Functions) -> Self {
        Self { plane, functions }
    }

    /// Returns the state behind the endpoints. It has no check of roles, so a page only takes from
    /// it what everybody who is logged in may see.
    pub fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// Asks an endpoint on behalf of a page's reader. This may block: a page calls it on a thread
    /// of its own.
    ///
    /// # Errors
    /// The reader may not do this, or the endpoint refuses.
    pub fn ask<Q, B, A>(
        &self,
        asker: &Asker,
        endpoint: &Endpoint<Q, B, A>,
        at: &[&str],
        query: Q,
        body: B,
    ) -> Result<A, Error>
    where
        Q: Serialize + 'static,
        B: Serialize + 'static,
        A: 'static,
    {
        let words = endpoint::query(&query).unwrap_or_default();
        let asker = asker.of_page(format!("{} {}{words}", endpoint.method, endpoint.at(at)));
        let noted = serde_json::to_vec(&body).unwrap_or_default();
        let function = self.functions.get(endpoint.id);
        let function = function.and_then(|it| it.downcast_ref::<Function<Q, B, A>>());
        let function = function.ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the operation {} has no door", endpoint.id),
                "report this as a defect",
            )
        })?;
        let at: Vec<String> = at.iter().map(|&it| it.to_owned()).collect();
        let author = Arc::new(asker.author());
        let result = self.pass(&asker, endpoint.rule(), &at, &words, &noted, || {
            Arc::clone(&author).works(|| {
                function(Call {
                    plane: Arc::clone(&self.plane),
                    asker: asker.clone(),
                    at: Arguments(at.clone()),
                    query,
                    body,
                })
            })
        });
        let is_change = endpoint.method != Method::GET && !asks_only(Some(&words));
        if is_change && result.is_ok() {
            author.tell_done();
        }
        result
    }

    /// Asks an endpoint that takes neither a query nor a body.
    ///
    /// # Errors
    /// Those of [`Self::ask`].
    pub fn call<A: 'static>(
        &self,
        asker: &Asker,
        endpoint: &Endpoint<(), (), A>,
        at: &[&str],
    ) -> Result<A, Error> {
        self.ask(asker, endpoint, at, (), ())
    }

    /// Passes the gate of an endpoint without asking it: for a page that shows parts of its answer
    /// for a long time, or that leads to it. Only a refusal is noted.
    ///
    /// # Errors
    /// The reader may not do this.
    pub fn admit<Q, B, A>(&self, asker: &Asker, endpoint: &Endpoint<Q, B, A>) -> Result<(), Error> {
        let asker = asker.of_page(format!("{} {}", endpoint.method, endpoint.path));
        let request = gate::Request {
            asker: &asker,
            at: &[],
            query: "",
            body: &[],
        };
        let refused = gate::admit(&self.plane, endpoint.rule(), &request);
        if refused.is_err() {
            let attempt = Attempt::begin(&self.plane, endpoint.rule(), &request);
            attempt.end(&self.plane, refused.as_ref().map(drop));
        }
        refused
    }

    /// Reports whether a reader may ask for an operation, on whatever object. A page that only
    /// shows what an operation would do asks this beforehand.
    ///
    /// # Errors
    /// The reader is not logged in.
    pub fn may_ask<Q, B, A>(
        &self,
        asker: &Asker,
        endpoint: &Endpoint<Q, B, A>,
    ) -> Result<bool, Error> {
        let principal = asker.principal()?;
        let reaches = principal.grant.is_none() || gate::is_within_reach(endpoint.id);
        Ok(principal.role >= endpoint.role && reaches)
    }

    /// Lists datasets, in the order of their names within each pool.
    ///
    /// # Errors
    /// The reader may not do this, or a named pool does not answer.
    pub fn datasets(&self, asker: &Asker, listed: &Listed) -> Result<Vec<DatasetView>, Error> {
        let rule = volume::LIST.rule();
        self.pass(asker, rule, &[], "", &[], || {
            let grant = &asker.principal()?.grant;
            let sees = |view: &DatasetView| {
                let holds = |grant: &FolderGrant| grant.holds(&view.name);
                grant.as_ref().is_none_or(holds)
            };
            let selection = listed.selection();
            let listings = self
                .plane
                .pools
                .listings(listed.pool.as_deref(), &selection)?;
            let views = listings
                .into_iter()
                .flat_map(|it| it.into_views(selection.clone()));
            Ok(views.filter(sees).collect())
        })
    }

    fn pass<T>(
        &self,
        asker: &Asker,
        rule: Rule,
        at: &[String],
        query: &str,
        body: &[u8],
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let request = gate::Request {
            asker,
            at,
            query: query.trim_start_matches('?'),
            body,
        };
        let attempt = Attempt::begin(&self.plane, rule, &request);
        let result = gate::admit(&self.plane, rule, &request).and_then(|()| work());
        attempt.end(&self.plane, result.as_ref().map(drop));
        result
    }
}
