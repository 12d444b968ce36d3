//! Logins, and the commands that the roles of a user permit.

use super::oidc::Proof;
use crate::{
    deployment::{ConnId, Role, User},
    server::{
        Member,
        connection::Request,
        dispatch::writes_documents,
        document::truth,
        fault::{Fault, fault},
        reply::Reply,
    },
    store::display,
};
use bson::{Bson, Document, doc};
use onionskin_core::time::{Instant, WallTime};
use std::borrow::Cow;

/// The privilege that a command needs, apart from the database on which it acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privilege {
    /// Reads of data, and of the names of collections and indexes.
    Read,
    /// Writes of data.
    Write,
    /// Changes of collections and indexes.
    Schema,
    /// The removal of a whole database.
    Drop,
    /// Commands on users.
    Users,
    /// Commands on the deployment as a whole.
    Cluster,
}

/// The privileges with the names of their actions, as `connectionStatus` lists them.
const ACTIONS: [(Privilege, &[&str]); 6] = [
    (
        Privilege::Read,
        &[
            "find",
            "listCollections",
            "listIndexes",
            "collStats",
            "dbStats",
            "killCursors",
        ],
    ),
    (Privilege::Write, &["insert", "update", "remove"]),
    (
        Privilege::Schema,
        &[
            "createCollection",
            "dropCollection",
            "createIndex",
            "dropIndex",
            "collMod",
        ],
    ),
    (Privilege::Drop, &["dropDatabase"]),
    (
        Privilege::Users,
        &["createUser", "dropUser", "viewUser", "grantRole"],
    ),
    (
        Privilege::Cluster,
        &["serverStatus", "replSetGetStatus", "replSetStateChange"],
    ),
];

/// The built-in roles with their privileges. `any` is true for the roles of `admin` that concern
/// all databases.
const ROLES: [(&str, bool, &[Privilege]); 16] = {
    use Privilege::{Cluster, Drop, Read, Schema, Users, Write};
    const ALL: &[Privilege] = &[Read, Write, Schema, Drop, Users, Cluster];
    [
        ("root", true, ALL),
        ("__system", true, ALL),
        ("read", false, &[Read]),
        ("readWrite", false, &[Read, Write, Schema]),
        ("dbAdmin", false, &[Schema, Drop]),
        ("dbOwner", false, &[Read, Write, Schema, Drop, Users]),
        ("userAdmin", false, &[Users]),
        ("readAnyDatabase", true, &[Read]),
        ("readWriteAnyDatabase", true, &[Read, Write, Schema]),
        ("dbAdminAnyDatabase", true, &[Schema, Drop]),
        ("userAdminAnyDatabase", true, &[Users]),
        ("clusterAdmin", true, &[Drop, Cluster]),
        ("clusterManager", true, &[Cluster]),
        ("clusterMonitor", true, &[Cluster]),
        ("hostManager", true, &[Cluster]),
        ("backup", true, &[Read]),
    ]
};

/// The user who has authenticated on a connection.
#[derive(Clone, Debug)]
pub(in crate::server) struct Login {
    pub(super) database: String,
    pub(super) name: String,
    roles: Vec<Role>,
    /// The token with which the user has authenticated.
    pub(super) proof: Option<Proof>,
    /// True after the operator has demanded that clients authenticate again.
    must_repeat: bool,
}

impl Login {
    pub(super) fn of(user: &User) -> Self {
        Self::new(&user.database, &user.name, user.roles.clone())
    }

    pub(super) fn new(database: &str, name: &str, roles: Vec<Role>) -> Self {
        Self {
            database: database.to_owned(),
            name: name.to_owned(),
            roles,
            proof: None,
            must_repeat: false,
        }
    }

    /// True if the client must authenticate again before its next command (AUTH-37).
    fn is_stale(&self, now: WallTime) -> bool {
        self.must_repeat
            || self
                .proof
                .as_ref()
                .is_some_and(|proof| !proof.is_valid(now))
    }

    /// True if a role permits commands with this privilege on this database.
    fn may(&self, privilege: Privilege, database: &str) -> bool {
        self.roles.iter().any(|role| {
            let concerns = |any| match any {
                true => role.database == "admin",
                false => role.database == database,
            };
            let mut known = ROLES.iter().filter(|(name, ..)| *name == role.name);
            known.any(|(_, any, privileges)| concerns(*any) && privileges.contains(&privilege))
        })
    }

    /// True if a role permits to list all databases.
    fn sees_all(&self) -> bool {
        self.roles.iter().any(|role| {
            let concerns_all = |(name, any, _): &&(&str, bool, _)| *any && *name == role.name;
            role.database == "admin" && ROLES.iter().any(|known| concerns_all(&known))
        })
    }

    /// True if a role permits to use a database.
    pub(in crate::server) fn may_use(&self, database: &str) -> bool {
        let privileges = [Privilege::Read, Privilege::Write, Privilege::Schema];
        let mut privileges = privileges.into_iter();
        privileges.any(|privilege| self.may(privilege, database))
    }

    /// Returns the privileges of all roles, as `connectionStatus` shows them.
    fn privileges(&self) -> Vec<Bson> {
        let of_role = |role: &Role| {
            let (_, any, privileges) = ROLES.iter().find(|(name, ..)| *name == role.name)?;
            let actions: Vec<&str> = ACTIONS
                .iter()
                .filter(|(privilege, _)| privileges.contains(privilege))
                .flat_map(|(_, actions)| actions.iter().copied())
                .collect();
            let database = if *any { "" } else { &role.database };
            let resource = doc! { "db": database, "collection": "" };
            Some(doc! { "resource": resource, "actions": actions }.into())
        };
        self.roles.iter().filter_map(of_role).collect()
    }
}

/// True if the server has a role with this name on this database.
pub(super) fn is_known(role: &Role) -> bool {
    ROLES
        .iter()
        .any(|(name, any, _)| *name == role.name && (!any || role.database == "admin"))
}

pub(super) fn role_documents(roles: &[Role]) -> Vec<Bson> {
    let document = |role: &Role| doc! { "role": &role.name, "db": &role.database }.into();
    roles.iter().map(document).collect()
}

impl Member {
    /// Makes all clients that have authenticated do so again before their next command.
    pub(crate) fn require_reauthentication(&mut self) {
        let logins = self
            .connections
            .values_mut()
            .filter_map(|c| c.login.as_mut());
        for login in logins {
            login.must_repeat = true;
        }
    }

    /// Applies changes of users to the login of a connection: the login of a removed user ends, and
    /// that of another user gets the user's current roles. Users of `$external` who exist only in
    /// tokens do not change.
    fn refresh_login(&mut self, conn: ConnId) {
        let changes = self.accounts.changes();
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        if connection.user_changes == changes {
            return;
        }
        connection.user_changes = changes;
        let is_lost = |login: &mut Login| match self.accounts.find(&login.database, &login.name) {
            Some(account) => {
                login.roles = account.user.roles;
                false
            }
            None => login.proof.is_none(),
        };
        connection.login.take_if(is_lost);
    }

    /// Returns an error if the command requires authentication and no user has authenticated on the
    /// connection, or if the user's roles do not permit the command.
    pub(in crate::server) fn check_authorized(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: &Request,
    ) -> Result<(), Fault> {
        let is_free = is_open(&request.name) || self.is_internal(conn);
        if !self.accounts.is_required() || is_free {
            return Ok(());
        }
        self.refresh_login(conn);
        let login = self.connections.get(&conn).and_then(|c| c.login.as_ref());
        let Some(login) = login else {
            let text = format!("Command {} requires authentication", request.name);
            return Err(fault(13, text));
        };
        if login.is_stale(self.wall_time(now)) {
            return Err(fault(391, "Reauthentication required"));
        }
        let is_permitted = match privilege(request) {
            Some(_) if request.name == "bulkWrite" => {
                let infos = request.command.get_array("nsInfo");
                let mut infos = infos.map(Vec::as_slice).unwrap_or_default().iter();
                infos.all(|info| {
                    let info = info.as_document().and_then(|info| info.get_str("ns").ok());
                    let database = info.and_then(|name| name.split('.').next());
                    login.may(Privilege::Write, database.unwrap_or_default())
                })
            }
            Some(Privilege::Cluster) => login.may(Privilege::Cluster, "admin"),
            Some(privilege) => login.may(privilege, &request.database) || is_own(login, request),
            None => true,
        };
        match is_permitted {
            true => Ok(()),
            false => Err(unauthorized(request)),
        }
    }

    /// Returns the login whose user sees only databases on which it has a privilege; `None` for a
    /// user that sees all. Fails if the user demands all without being permitted to.
    pub(in crate::server) fn limited_login(
        &self,
        request: &Request,
    ) -> Result<Option<&Login>, Fault> {
        let conn = self.running.filter(|&conn| !self.is_internal(conn));
        let connection = conn.and_then(|conn| self.connections.get(&conn));
        let login = connection.and_then(|connection| connection.login.as_ref());
        let login = login.filter(|login| self.accounts.is_required() && !login.sees_all());
        let demand = request.command.get("authorizedDatabases");
        match (login, demand) {
            (Some(_), Some(demand)) if !truth(Some(demand)) => Err(unauthorized(request)),
            _ => Ok(login),
        }
    }

    pub(in crate::server) fn connection_status(&self, conn: ConnId, request: &Request) -> Reply {
        let login = self.connections.get(&conn).and_then(|c| c.login.as_ref());
        let users = login.map(|login| doc! { "user": &login.name, "db": &login.database });
        let users: Vec<Document> = users.into_iter().collect();
        let roles = login.map(|login| role_documents(&login.roles));
        let mut info = doc! {
            "authenticatedUsers": users,
            "authenticatedUserRoles": roles.unwrap_or_default(),
        };
        if truth(request.command.get("showPrivileges")) {
            let privileges = login.map(Login::privileges).unwrap_or_default();
            info.insert("authenticatedUserPrivileges", privileges);
        }
        doc! { "authInfo": info }.into()
    }
}

/// True for commands that require no authentication.
fn is_open(command: &str) -> bool {
    matches!(
        command,
        "hello"
            | "isMaster"
            | "ismaster"
            | "ping"
            | "buildInfo"
            | "buildinfo"
            | "saslStart"
            | "saslContinue"
            | "logout"
            | "connectionStatus"
            | "authenticate"
            | "getnonce"
            | "whatsmyuri"
    )
}

/// True for commands of users on themselves, which need no privilege.
fn is_own(login: &Login, request: &Request) -> bool {
    let name = request.command.get_str(&request.name);
    request.name == "usersInfo"
        && request.database == login.database
        && name.is_ok_and(|name| name == login.name)
}

/// Returns the privilege that a command needs. `None` means that each user may send the command.
fn privilege(request: &Request) -> Option<Privilege> {
    let privilege = match request.name.as_str() {
        "aggregate" if crate::server::read::pipeline_writes(request) => Privilege::Write,
        "find" | "aggregate" | "count" | "distinct" | "explain" | "validate"
        | "listCollections" | "listIndexes" | "dataSize" | "filemd5" | "collStats"
        | "collstats" | "dbStats" | "dbstats" => Privilege::Read,
        name if writes_documents(name) => Privilege::Write,
        "create" | "drop" | "createIndexes" | "dropIndexes" | "deleteIndexes"
        | "renameCollection" | "collMod" | "profile" => Privilege::Schema,
        "dropDatabase" => Privilege::Drop,
        "createUser"
        | "updateUser"
        | "dropUser"
        | "dropAllUsersFromDatabase"
        | "usersInfo"
        | "createRole"
        | "updateRole"
        | "dropRole"
        | "dropAllRolesFromDatabase"
        | "rolesInfo"
        | "grantRolesToUser"
        | "revokeRolesFromUser"
        | "grantRolesToRole"
        | "revokeRolesFromRole"
        | "grantPrivilegesToRole"
        | "revokePrivilegesFromRole" => Privilege::Users,
        "currentOp" | "killOp" | "top" | "listShards" | "getShardMap" | "enableSharding"
        | "shardCollection" | "serverStatus" | "hostInfo" | "replSetGetStatus"
        | "replSetGetConfig" | "replSetReconfig" | "replSetStepDown" | "replSetFreeze"
        | "getParameter" | "setParameter" | "getLog" | "getCmdLineOpts" | "configureFailPoint"
        | "connPoolStats" | "fsync" | "replSetInitiate" => Privilege::Cluster,
        _ => return None,
    };
    Some(privilege)
}

/// Returns the error for a command that the user's roles do not permit.
pub(in crate::server) fn unauthorized(request: &Request) -> Fault {
    let mut command = Cow::Borrowed(&request.command);
    if command.contains_key("pwd") {
        command.to_mut().insert("pwd", "xxx");
    }
    let (database, command) = (&request.database, display(&command));
    let text = format!("not authorized on {database} to execute command {command}");
    fault(13, text)
}
