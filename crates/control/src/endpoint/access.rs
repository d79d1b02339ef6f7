//! Endpoints for users, tokens, roles at the control socket, and the audit log.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::description::queries;
use super::endpoints;
use model::access::{
    AddToken, AddUser, AuditCheck, AuditLine, FolderGrant, LoginView, ModifyUser, NewToken, Role,
    SocketRole, TokenView, UserView,
};

const USERS: &str = "/v1/users";
const USER: &str = "/v1/users/{user}";
const TOKENS: &str = "/v1/tokens";
const SOCKET_ROLES: &str = "/v1/socket-roles";

endpoints! {
    "access":
    /// Returns the author of this request, as the daemon sees it, and its role.
    WHO = Viewer GET "/v1/me" "access_me" ((), ()) -> Me;
    /// Lists the users of the console.
    USER_LIST = Admin GET USERS "user_list" ((), ()) -> Vec<UserView>;
    /// Adds a user of the console.
    USER_ADD = Admin POST USERS "user_add" ((), AddUser) -> UserView;
    /// Changes a user. A new password, another role, and a user who is disabled end all logins of
    /// the user.
    USER_MODIFY = Admin PATCH USER "user_modify" ((), ModifyUser) -> UserView;
    /// Removes a user, and ends the user's logins.
    USER_REMOVE = Admin DELETE USER "user_remove" ((), ()) -> ();
    /// Lists the logins at the console that have not ended.
    LOGINS = Admin GET "/v1/logins" "login_list" ((), ()) -> Vec<LoginView>;
    /// Ends a login at the console.
    LOGIN_END = Admin DELETE "/v1/logins/{login}" "login_end" ((), ()) -> ();
    /// Lists the tokens of programs.
    TOKEN_LIST = Admin GET TOKENS "token_list" ((), ()) -> Vec<TokenView>;
    /// Adds a token for a program. The answer alone has its text.
    TOKEN_ADD = Admin POST TOKENS "token_add" ((), AddToken) -> NewToken;
    /// Removes a token. Requests with it are refused from then on.
    TOKEN_REMOVE = Admin DELETE "/v1/tokens/{token}" "token_remove" ((), ()) -> ();
    /// Lists the roles that users and groups of this machine have at the control socket.
    ROLE_LIST = Admin GET SOCKET_ROLES "role_list" ((), ()) -> Vec<SocketRole>;
    /// Gives a user or group of this machine a role at the control socket.
    ROLE_SET = Admin PUT SOCKET_ROLES "role_set" ((), SocketRole) -> ();
    /// Takes the role of a user or group at the control socket away.
    ROLE_REMOVE = Admin DELETE "/v1/socket-roles/{account}/{name}" "role_remove" ((), ()) -> ();
    /// Lists attempts to change something, the newest first.
    AUDIT = Admin GET "/v1/audit" "audit_list" (AuditPage, ()) -> Vec<AuditLine>;
    /// Checks that no line of the audit log was changed or removed.
    AUDIT_CHECK = Admin GET "/v1/audit/check" "audit_check" ((), ()) -> AuditCheck;
}

queries!(AuditPage);

/// Author of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// Name of the user or token.
    pub name: String,
    /// Role of the user or token.
    pub role: Role,
    /// Entrance: `socket`, `token`, or `console`.
    pub by: String,
    /// Limit of a token to a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<FolderGrant>,
}

/// Part of the audit log to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditPage {
    /// Number above the highest line to list. Absent means all.
    #[serde(default)]
    pub before: Option<u64>,
    /// Most lines to list. The default is 100, and the most is 1000.
    #[serde(default)]
    pub limit: Option<usize>,
}
