//! Commands on users: `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase` and
//! `usersInfo`.

use super::{
    accounts::{AccountChange, AccountError},
    roles::{is_known, role_documents},
    scram::Secret,
};
use crate::{
    deployment::{AuthMechanism, EXTERNAL, Role, User},
    server::{
        Member,
        connection::Request,
        document::truth,
        fault::{Fault, bad_value, fault, not_writable_primary, type_mismatch},
        reply::Reply,
    },
};
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use md5::{Digest as _, Md5};

/// The fields of `updateUser`, of which it needs one.
const CHANGES: [&str; 5] = [
    "pwd",
    "customData",
    "roles",
    "authenticationRestrictions",
    "mechanisms",
];

impl Member {
    /// Executes a command on users. Returns `None` for any other command.
    pub(in crate::server) fn administer_users(
        &self,
        request: &Request,
    ) -> Result<Option<Reply>, Fault> {
        let changes = match request.name.as_str() {
            "createUser" | "updateUser" | "dropUser" | "dropAllUsersFromDatabase" => true,
            "usersInfo" => false,
            _ => return Ok(None),
        };
        if changes && !self.is_router() && !self.replica.is_writable() {
            return Err(not_writable_primary());
        }
        let reply = match request.name.as_str() {
            "createUser" => self.create_user(request)?,
            "updateUser" => self.update_user(request)?,
            "dropUser" => self.drop_user(request)?,
            "dropAllUsersFromDatabase" => {
                let count = self.accounts.remove_all(&request.database);
                doc! { "n": i32::try_from(count).unwrap_or(i32::MAX) }
            }
            _ => self.users_info(request)?,
        };
        Ok(Some(reply.into()))
    }

    fn create_user(&self, request: &Request) -> Result<Document, Fault> {
        let (name, database) = (name(request)?, request.database.as_str());
        let Some(roles) = roles(request)? else {
            let text = "BSON field 'createUser.roles' is missing but a required field";
            return Err(fault(40414, text));
        };
        let mechanisms = mechanisms(request)?;
        let secret = secret(request, mechanisms.as_deref())?;
        let mut user = match (database == EXTERNAL, &secret) {
            (true, Some(_)) => {
                let text = "Cannot set the password for users defined on the '$external' database";
                return Err(bad_value(text));
            }
            (true, None) => User::external(name),
            (false, Some(_)) => User::new(name, ""),
            (false, None) => {
                let text = "Must provide a 'pwd' field for all user documents, except those with \
                            '$external' as the user's source db";
                return Err(bad_value(text));
            }
        };
        database.clone_into(&mut user.database);
        user.roles = roles;
        if let Some(mechanisms) = mechanisms {
            user.mechanisms = mechanisms;
        } else if matches!(secret, Some(Secret::Digest(_))) {
            user.mechanisms = vec![AuthMechanism::ScramSha1];
        }
        let created = self
            .accounts
            .create(user, secret.unwrap_or(Secret::Password("")));
        created.map_err(|error| error_of(error, request))?;
        Ok(Document::new())
    }

    fn update_user(&self, request: &Request) -> Result<Document, Fault> {
        let name = name(request)?;
        if !CHANGES
            .iter()
            .any(|field| request.command.contains_key(field))
        {
            let text = "Must specify at least one field to update in updateUser";
            return Err(bad_value(text));
        }
        let mechanisms = mechanisms(request)?;
        let change = AccountChange {
            secret: secret(request, mechanisms.as_deref())?,
            mechanisms,
            roles: roles(request)?,
        };
        let updated = self.accounts.update(&request.database, name, change);
        updated.map_err(|error| error_of(error, request))?;
        Ok(Document::new())
    }

    fn drop_user(&self, request: &Request) -> Result<Document, Fault> {
        match self.accounts.remove(&request.database, name(request)?) {
            true => Ok(Document::new()),
            false => Err(error_of(AccountError::Unknown, request)),
        }
    }

    /// Lists users: one by its name, some by their names, all of a database, or all.
    fn users_info(&self, request: &Request) -> Result<Document, Fault> {
        let here = request.database.as_str();
        let is_one = |wanted: &Bson, user: &User| match wanted {
            Bson::String(name) => user.name == *name && user.database == here,
            Bson::Document(wanted) => {
                wanted.get_str("user").is_ok_and(|name| name == user.name)
                    && wanted.get_str("db").is_ok_and(|name| name == user.database)
            }
            _ => false,
        };
        let users = match request.command.get(&request.name) {
            Some(Bson::Document(all)) if truth(all.get("forAllDBs")) => {
                self.accounts.list(|_| true)
            }
            Some(Bson::Array(all)) => {
                let is_wanted = |user: &User| all.iter().any(|wanted| is_one(wanted, user));
                self.accounts.list(is_wanted)
            }
            Some(one @ (Bson::String(_) | Bson::Document(_))) => {
                self.accounts.list(|user| is_one(one, user))
            }
            Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
                self.accounts.list(|user| user.database == here)
            }
            _ => return Err(type_mismatch("usersInfo.usersInfo")),
        };
        let users: Vec<Bson> = users.iter().map(|user| described(user).into()).collect();
        Ok(doc! { "users": users })
    }
}

fn described(user: &User) -> Document {
    let mechanisms = match user.database == EXTERNAL {
        true => vec!["external"],
        false => user.mechanisms.iter().map(|m| m.name()).collect(),
    };
    doc! {
        "_id": format!("{}.{}", user.database, user.name),
        "userId": user_id(user),
        "user": &user.name,
        "db": &user.database,
        "roles": role_documents(&user.roles),
        "mechanisms": mechanisms,
    }
}

/// Returns the UUID of a user. It follows from the name, so that all members show the same one.
fn user_id(user: &User) -> Binary {
    let mut digest = Md5::new();
    digest.update(user.database.as_bytes());
    digest.update([0_u8]);
    digest.update(user.name.as_bytes());
    let mut bytes = digest.finalize().to_vec();
    // The version and the variant of a random UUID.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Binary {
        subtype: BinarySubtype::Uuid,
        bytes,
    }
}

fn error_of(error: AccountError, request: &Request) -> Fault {
    let name = request.command.get_str(&request.name).unwrap_or_default();
    let database = &request.database;
    match error {
        AccountError::Exists => fault(51003, format!("User \"{name}@{database}\" already exists")),
        AccountError::Unknown => fault(11, format!("User '{name}@{database}' not found")),
        AccountError::Password => bad_value("Error preparing the password with SASLprep"),
        AccountError::TooMany => bad_value("Too many users"),
    }
}

fn name(request: &Request) -> Result<&str, Fault> {
    let name = request.command.get_str(&request.name);
    let name = name.map_err(|_| type_mismatch(&format!("{0}.{0}", request.name)))?;
    match name.is_empty() || name.contains('\0') {
        true => Err(bad_value("Username cannot be empty or contain a zero byte")),
        false => Ok(name),
    }
}

/// Returns the password of the command. With `digestPassword: false`, the password is the digest
/// that SCRAM-SHA-1 uses.
fn secret<'a>(
    request: &'a Request,
    mechanisms: Option<&[AuthMechanism]>,
) -> Result<Option<Secret<'a>>, Fault> {
    let password = match request.command.get("pwd") {
        None => return Ok(None),
        Some(Bson::String(password)) if !password.is_empty() => password.as_str(),
        Some(Bson::String(_)) => return Err(bad_value("Password cannot be empty")),
        Some(_) => return Err(type_mismatch(&format!("{}.pwd", request.name))),
    };
    if request.command.get_bool("digestPassword").unwrap_or(true) {
        return Ok(Some(Secret::Password(password)));
    }
    if mechanisms.is_none_or(|all| all.contains(&AuthMechanism::ScramSha256)) {
        return Err(bad_value(
            "Use of SCRAM-SHA-256 requires undigested passwords",
        ));
    }
    Ok(Some(Secret::Digest(password)))
}

fn mechanisms(request: &Request) -> Result<Option<Vec<AuthMechanism>>, Fault> {
    let Some(value) = request.command.get("mechanisms") else {
        return Ok(None);
    };
    let names = value.as_array();
    let names = names.ok_or_else(|| type_mismatch(&format!("{}.mechanisms", request.name)))?;
    if names.is_empty() {
        return Err(bad_value("mechanisms field must not be empty"));
    }
    let mut mechanisms = Vec::new();
    for name in names {
        let name = name.as_str().unwrap_or_default();
        let mechanism = AuthMechanism::from_name(name).filter(|m| m.is_scram());
        let unknown = || bad_value(format!("Unknown auth mechanism '{name}'"));
        let mechanism = mechanism.ok_or_else(unknown)?;
        if !mechanisms.contains(&mechanism) {
            mechanisms.push(mechanism);
        }
    }
    Ok(Some(mechanisms))
}

/// Returns the roles of the command. A role that is only a name belongs to the command's database.
fn roles(request: &Request) -> Result<Option<Vec<Role>>, Fault> {
    let Some(value) = request.command.get("roles") else {
        return Ok(None);
    };
    let wrong = || type_mismatch(&format!("{}.roles", request.name));
    let mut roles = Vec::new();
    for value in value.as_array().ok_or_else(wrong)? {
        let role = match value {
            Bson::String(name) => Role::new(name, &request.database),
            Bson::Document(role) => {
                let name = role.get_str("role").map_err(|_| wrong())?;
                Role::new(name, role.get_str("db").map_err(|_| wrong())?)
            }
            _ => return Err(wrong()),
        };
        if !is_known(&role) {
            let text = format!("Could not find role: {}@{}", role.name, role.database);
            return Err(fault(31, text));
        }
        roles.push(role);
    }
    Ok(Some(roles))
}
