//! Compares events and log messages with those that a test expects.

use super::{
    entities::{Entities, string},
    file::list,
    matching::{Place, compare},
    watch::{self, Family, Seen},
};
use bson::{Bson, Document};
use onionskin::Runtime;

/// Compares the events of a client with an element of `expectEvents`.
pub(crate) fn check<R: Runtime>(entities: &Entities<R>, expected: &Document) -> Result<(), String> {
    let name = string(expected, "client")?;
    let client = entities.client(name)?;
    let family = match expected.get_str("eventType") {
        Ok("cmap") => Family::Cmap,
        Ok("sdam") => Family::Sdam,
        _ => Family::Command,
    };
    let seen: Vec<Seen> = client
        .watch
        .events()
        .into_iter()
        .filter(|seen| seen.family == family)
        .collect();
    let events = list(expected, "events")?;
    let ignores_extra = expected.get_bool("ignoreExtraEvents").unwrap_or_default();
    for (index, event) in events.iter().enumerate() {
        let Some(one) = seen.get(index) else {
            return Err(format!(
                "{name} lacks event {index}, {event}; there are {}",
                all(&seen)
            ));
        };
        compare_event(entities, event, one)
            .map_err(|why| format!("event {index} of {name}: {why}; of {}", all(&seen)))?;
    }
    match seen.len() > events.len() && !ignores_extra {
        true => Err(format!(
            "{name} has more than {} events: {}",
            events.len(),
            all(&seen)
        )),
        false => Ok(()),
    }
}

/// Returns the names of events, with those of their commands.
pub(crate) fn all(seen: &[Seen]) -> String {
    let names = seen
        .iter()
        .map(|seen| match seen.fields.get_str("commandName") {
            Ok(command) => format!("{} {command}", seen.name),
            Err(_) => seen.name.to_owned(),
        });
    names.collect::<Vec<_>>().join(", ")
}

/// Compares one event with the expected one: a document whose only key is the name.
pub(crate) fn compare_event<R: Runtime>(
    entities: &Entities<R>,
    expected: &Document,
    seen: &Seen,
) -> Result<(), String> {
    let (name, fields) = expected.iter().next().ok_or("an expected event is empty")?;
    if name != seen.name {
        return Err(format!("{} instead of {name}", seen.name));
    }
    let fields = fields
        .as_document()
        .ok_or("an expected event is no document")?;
    for (key, expected) in fields {
        compare(entities, expected, seen.fields.get(key), Place::Root)
            .map_err(|why| format!("{name}: {key}: {why}"))?;
    }
    Ok(())
}

/// Compares the log messages of a client with an element of `expectLogMessages`.
pub(crate) fn check_messages<R: Runtime>(
    entities: &Entities<R>,
    expected: &Document,
) -> Result<(), String> {
    let name = string(expected, "client")?;
    let client = entities.client(name)?;
    let ignored = list(expected, "ignoreMessages")?;
    let messages: Vec<Document> = client.watch.messages().iter().map(watch::message).collect();
    let messages: Vec<&Document> = messages
        .iter()
        .filter(|message| {
            !ignored
                .iter()
                .any(|one| fits(entities, one, message).is_ok())
        })
        .collect();
    let wanted = list(expected, "messages")?;
    let ignores_extra = expected.get_bool("ignoreExtraMessages").unwrap_or_default();
    for (index, wanted) in wanted.iter().enumerate() {
        let message = messages.get(index);
        let message = message.ok_or_else(|| format!("{name} lacks message {index}, {wanted}"))?;
        fits(entities, wanted, message)
            .map_err(|why| format!("message {index} of {name}: {why}: {message}"))?;
    }
    match messages.len() > wanted.len() && !ignores_extra {
        true => Err(format!(
            "{name} has more than {} messages: {messages:?}",
            wanted.len()
        )),
        false => Ok(()),
    }
}

fn fits<R: Runtime>(
    entities: &Entities<R>,
    expected: &Document,
    message: &Document,
) -> Result<(), String> {
    for (key, expected) in expected {
        compare(entities, expected, message.get(key), Place::Root)
            .map_err(|why| format!("{key}: {why}"))?;
    }
    Ok(())
}

/// Returns the commands that a client started, in their order.
pub(crate) fn commands(seen: &[Seen]) -> Vec<&Document> {
    let started = seen
        .iter()
        .filter(|seen| seen.name == "commandStartedEvent");
    started
        .filter_map(|seen| seen.fields.get("command").and_then(Bson::as_document))
        .collect()
}
