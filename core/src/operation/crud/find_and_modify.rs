//! The command `findAndModify`, which changes one document and returns it.

use super::{
    Defaults, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions,
    SharedNamespace, UpdateModifications, write::check_replacement,
};
use crate::{
    bson::deserialize,
    error::Error,
    operation::{Command, CommandKind},
    options::{OptionValue, Place, WriteConcern},
};
use bson::{Document, RawBsonRef, RawDocument};
use serde::de::DeserializeOwned;

/// Returns the command that deletes the first document that matches `filter` and returns it. Fails
/// if the filter or an option cannot be encoded, and if the write concern of the options is `w: 0`.
pub fn find_one_and_delete(
    namespace: &SharedNamespace,
    filter: &Document,
    options: &FindOneAndDeleteOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let mut command = begin(namespace, filter, options.write_concern.as_ref())?;
    let mut body = command.body();
    body.bool("remove", true);
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    command.need_hint(options.hint.is_some());
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(command)
}

/// Returns the command that replaces the first document that matches `filter`, and returns it.
/// Fails if `replacement` begins with an update operator, if the filter or an option cannot be
/// encoded, and if the write concern of the options is `w: 0`.
pub fn find_one_and_replace(
    namespace: &SharedNamespace,
    filter: &Document,
    replacement: &RawDocument,
    options: &FindOneAndReplaceOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    check_replacement(replacement)?;
    let mut command = begin(namespace, filter, options.write_concern.as_ref())?;
    let mut body = command.body();
    body.document("update", replacement);
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    command.need_hint(options.hint.is_some());
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(command)
}

/// Returns the command that changes the first document that matches `filter`, and returns it. Fails
/// if `modifications` is empty or has a field that is not an operator, if a document or an option
/// cannot be encoded, and if the write concern of the options is `w: 0`.
pub fn find_one_and_update(
    namespace: &SharedNamespace,
    filter: &Document,
    modifications: &UpdateModifications,
    options: &FindOneAndUpdateOptions,
    defaults: &Defaults,
) -> Result<Command, Error> {
    modifications.check()?;
    let mut command = begin(namespace, filter, options.write_concern.as_ref())?;
    let mut body = command.body();
    modifications.write("update", &mut body)?;
    options.write(Place::Body, &mut body)?;
    defaults.apply_to_statements(&mut command, options.write_concern.as_ref())?;
    command.need_hint(options.hint.is_some());
    defaults.apply_timeout(&mut command, options.timeout);
    command.set_raw_data(options.raw_data);
    command.set_max_time(options.max_time);
    Ok(command)
}

/// Returns the command with its filter. Fails if the call asks for no reply: it could not tell
/// whether a document matched. A collection can have such a write concern, because its other calls
/// have a use for it.
fn begin(
    namespace: &SharedNamespace,
    filter: &Document,
    concern: Option<&WriteConcern>,
) -> Result<Command, Error> {
    if concern.is_some_and(|concern| !concern.is_acknowledged()) {
        return Err(Error::invalid_option(
            "w",
            "with w: 0 the server returns no document; use another write concern, or update_one, \
             replace_one or delete_one",
        ));
    }
    let kind = CommandKind::RetryableWrite;
    let mut command = Command::new("findAndModify", namespace.database.clone(), kind);
    let mut body = command.body();
    body.str("findAndModify", &namespace.collection)
        .subtree("query", filter)?;
    Ok(command)
}

/// Decodes the document of a reply to `findAndModify`; `None` if no document matched. Fails if the
/// document does not have the form that `T` needs, and if the field is of another type.
pub fn found_document<T: DeserializeOwned + 'static>(
    reply: &RawDocument,
) -> Result<Option<T>, Error> {
    match reply.get("value") {
        Ok(None | Some(RawBsonRef::Null)) => Ok(None),
        Ok(Some(RawBsonRef::Document(document))) => deserialize(document.as_bytes()).map(Some),
        Ok(Some(_)) | Err(_) => Err(Error::protocol(
            "the reply to findAndModify has no document in field value",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn a_call_that_returns_a_document_needs_an_acknowledged_write_concern() {
        let namespace = SharedNamespace::unchecked("d".into(), "c".into());
        let command = |own: Option<WriteConcern>, of_collection: WriteConcern| {
            let options = FindOneAndDeleteOptions::builder()
                .write_concern(own)
                .build();
            let mut defaults = Defaults::default();
            defaults.write_concern = Some(of_collection);
            find_one_and_delete(&namespace, &doc! {}, &options, &defaults)
        };
        let (none, one) = (WriteConcern::nodes(0), WriteConcern::nodes(1));
        let error = command(Some(none.clone()), one.clone()).expect_err("it is refused");
        assert!(
            error.to_string().starts_with("invalid option w: "),
            "{error}"
        );
        let mut impossible = none.clone();
        impossible.journal = Some(true);
        assert!(command(Some(impossible.clone()), one.clone()).is_err());
        assert!(command(None, impossible).is_err());
        assert!(command(None, none.clone()).is_ok());
        assert!(command(Some(one), none).is_ok());
    }
}
