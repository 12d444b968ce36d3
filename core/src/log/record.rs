//! A log message: fields for programs, and a text for people.

use super::{Component, Level, extended_json};
use crate::{
    address::Address,
    event::Field,
    text::{printable, printable_json},
};
use std::fmt::{self, Write};

/// The value of a field of a log message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A text. A document is a text in relaxed extended JSON.
    Text(String),
    /// An integer, such as an id, a port or a count.
    Integer(i64),
    /// A floating-point number: a duration in milliseconds.
    Double(f64),
    /// A flag, such as `awaited`.
    Boolean(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Double(number) => write!(f, "{number}"),
            Self::Boolean(value) => write!(f, "{value}"),
        }
    }
}

/// A log message. Its fields have the names that the specifications define. `Display` writes the
/// text that the specifications define for unstructured logs. Names and texts that no specification
/// defines are the driver's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub(super) component: Component,
    pub(super) level: Level,
    message: &'static str,
    /// The text, with the names of fields in braces, such as `{durationMS}`. A part in brackets is
    /// omitted if one of its fields is missing. `{server}` stands for host and port, and
    /// `{options}` for all fields except host and port.
    template: &'static str,
    fields: Vec<(&'static str, Value)>,
}

impl Record {
    pub(super) fn new(message: &'static str, template: &'static str) -> Self {
        Self {
            component: Component::Client,
            level: Level::Debug,
            message,
            template,
            fields: Vec::with_capacity(8),
        }
    }

    /// Returns the component that logs this message.
    #[must_use]
    pub const fn component(&self) -> Component {
        self.component
    }

    /// Returns the level of this message.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Returns the name of the message, which is the same for all messages of one kind.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        self.message
    }

    /// Returns the names and values of the fields. The name of the message is not among them, and
    /// fields without a value are omitted.
    #[must_use]
    pub fn fields(&self) -> &[(&'static str, Value)] {
        &self.fields
    }

    /// Returns the value of one field; `None` if the message does not have it.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        let found = self.fields.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    pub(super) fn text(&mut self, name: &'static str, text: impl AsRef<str>) {
        let text = printable(text.as_ref()).into_owned();
        self.fields.push((name, Value::Text(text)));
    }

    /// Adds a field of an event. A document is shown up to `limit` bytes.
    pub(super) fn add(&mut self, name: &'static str, field: Field<'_>, limit: usize) {
        let value = match field {
            Field::Text(text) => return self.text(name, text),
            Field::Integer(number) => Value::Integer(number),
            Field::Boolean(value) => Value::Boolean(value),
            Field::Document(document) => {
                let json = extended_json(document, limit);
                Value::Text(printable_json(&json).into_owned())
            }
            // A precision of one microsecond is enough.
            Field::Duration(duration) => {
                Value::Double((duration.as_nanos() / 1000) as f64 / 1000.0)
            }
            Field::Millis(duration) => {
                Value::Integer(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
            }
            Field::Server(address) => return self.server(address),
        };
        self.fields.push((name, value));
    }

    /// Adds `serverHost`, and `serverPort` unless the address is a socket path (EVT-27, SEL-63,
    /// CMAP-126).
    fn server(&mut self, address: &Address) {
        self.text("serverHost", address.host());
        if let Some(port) = address.port() {
            let port = Value::Integer(i64::from(port));
            self.fields.push(("serverPort", port));
        }
    }

    /// Appends the value for a name in braces. Returns false if the field is missing.
    fn fill(&self, name: &str, out: &mut String) -> bool {
        // Writing to a string cannot fail.
        let place = |name, out: &mut String| {
            self.field(name)
                .is_some_and(|value| write!(out, "{value}").is_ok())
        };
        match name {
            "server" => {
                if self.field("serverPort").is_none() {
                    return place("serverHost", out);
                }
                let is_v6 = matches!(
                    self.field("serverHost"),
                    Some(Value::Text(host)) if host.contains(':')
                );
                let (before, after) = if is_v6 { ("[", "]:") } else { ("", ":") };
                out.push_str(before);
                place("serverHost", out);
                out.push_str(after);
                place("serverPort", out)
            }
            "options" => {
                let options = self
                    .fields
                    .iter()
                    .filter(|(name, _)| !["serverHost", "serverPort"].contains(name));
                let mut some = false;
                for (name, value) in options {
                    let separator = if some { ", " } else { "" };
                    some |= write!(out, "{separator}{name}={value}").is_ok();
                }
                some
            }
            name => place(name, out),
        }
    }

    /// Appends a part of the template with its fields. Returns false if one of the fields is
    /// missing.
    fn fill_part(&self, mut part: &str, out: &mut String) -> bool {
        let mut complete = true;
        while let Some((before, rest)) = part.split_once('{') {
            out.push_str(before);
            let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
            complete &= self.fill(name, out);
            part = after;
        }
        out.push_str(part);
        complete
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut rest = self.template;
        while let Some((before, after)) = rest.split_once('[') {
            self.fill_part(before, &mut text);
            let (part, after) = after.split_once(']').unwrap_or((after, ""));
            let start = text.len();
            if !self.fill_part(part, &mut text) {
                text.truncate(start);
            }
            rest = after;
        }
        self.fill_part(rest, &mut text);
        f.write_str(&text)
    }
}
