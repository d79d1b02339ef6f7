//! Handlers of requests about users, tokens, roles at the control socket, and the audit log.

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::access::{self as at, AuditPage, Me};
use model::Error;
use model::access::{
    AccountKind, AddToken, AddUser, AuditCheck, AuditLine, LoginView, ModifyUser, NewToken,
    SocketRole, TokenView, UserView,
};

/// Lines of the audit log that are listed if the request does not say how many.
const PAGE: usize = 100;
/// Most lines of the audit log that are listed at once.
const LONGEST_PAGE: usize = 1000;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::WHO, who)
        .serve(&at::USER_LIST, users)
        .serve(&at::USER_ADD, add_user)
        .serve(&at::USER_MODIFY, modify_user)
        .serve(&at::USER_REMOVE, remove_user)
        .serve(&at::LOGINS, logins)
        .serve(&at::LOGIN_END, end_login)
        .serve(&at::TOKEN_LIST, tokens)
        .serve(&at::TOKEN_ADD, add_token)
        .serve(&at::TOKEN_REMOVE, remove_token)
        .serve(&at::ROLE_LIST, roles)
        .serve(&at::ROLE_SET, set_role)
        .serve(&at::ROLE_REMOVE, remove_role)
        .serve(&at::AUDIT, audit)
        .serve(&at::AUDIT_CHECK, check_audit)
}

fn who(call: Call) -> Result<Me, Error> {
    let principal = call.asker.principal()?;
    Ok(Me {
        name: principal.name.clone(),
        role: principal.role,
        by: principal.entrance.as_str().to_owned(),
        grant: principal.grant.clone(),
    })
}

fn users(call: Call) -> Result<Vec<UserView>, Error> {
    Ok(call.plane.access.users())
}

fn add_user(call: Call<(), AddUser>) -> Result<UserView, Error> {
    call.plane.access.add_user(&call.body)
}

fn modify_user(call: Call<(), ModifyUser>) -> Result<UserView, Error> {
    let [name] = call.at.names();
    call.plane.access.modify_user(&name, &call.body)
}

fn remove_user(call: Call) -> Result<(), Error> {
    let [name] = call.at.names();
    call.plane.access.remove_user(&name)
}

fn logins(call: Call) -> Result<Vec<LoginView>, Error> {
    Ok(call.plane.access.login_views())
}

fn end_login(call: Call) -> Result<(), Error> {
    let [login] = call.at.names();
    let number = login.parse().map_err(|_| {
        Error::invalid(
            format!("{login:?} is not the number of a login"),
            "sandstone user logins",
        )
    })?;
    call.plane.access.log_out(number)
}

fn tokens(call: Call) -> Result<Vec<TokenView>, Error> {
    Ok(call.plane.access.tokens())
}

fn add_token(call: Call<(), AddToken>) -> Result<NewToken, Error> {
    let by = &call.asker.principal()?.name;
    call.plane.access.add_token(&call.body, by)
}

fn remove_token(call: Call) -> Result<(), Error> {
    let [name] = call.at.names();
    call.plane.access.remove_token(&name)
}

fn roles(call: Call) -> Result<Vec<SocketRole>, Error> {
    Ok(call.plane.access.socket_roles())
}

fn set_role(call: Call<(), SocketRole>) -> Result<(), Error> {
    call.plane.access.set_socket_role(call.body)
}

fn remove_role(call: Call) -> Result<(), Error> {
    let [kind, name] = call.at.names();
    let kind = match kind.as_str() {
        "user" => AccountKind::User,
        "group" => AccountKind::Group,
        _ => {
            return Err(Error::invalid(
                format!("{kind:?} is neither user nor group"),
                "sandstone role list",
            ));
        }
    };
    call.plane.access.remove_socket_role(kind, &name)
}

fn audit(call: Call<AuditPage>) -> Result<Vec<AuditLine>, Error> {
    let AuditPage { before, limit } = call.query;
    let most = limit.unwrap_or(PAGE).min(LONGEST_PAGE);
    call.plane.access.audit_lines(before, most)
}

fn check_audit(call: Call) -> Result<AuditCheck, Error> {
    call.plane.access.check_audit()
}
