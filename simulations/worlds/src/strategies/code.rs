//! Values as Rust code, for a test of a history that failed.

use super::{Hello, History};
use bson::{RawBsonRef, RawDocument, spec::BinarySubtype};
use onionskin_core::address::Address;
use std::fmt::Write as _;

impl History {
    /// Returns an expression in Rust with this value. It uses the names of this module and the
    /// macro `bson::rawdoc`.
    ///
    /// A failed property test prints the smallest history that fails: print its code instead, and
    /// paste that into a test of its own.
    ///
    /// ```
    /// use onionskin_worlds::strategies::{Hello, History, address};
    ///
    /// let history = History {
    ///     seeds: vec![address(0)],
    ///     set_name: None,
    ///     hellos: vec![Hello {
    ///         server: address(0),
    ///         reply: Some(bson::rawdoc! { "ok": 1_i32, "isWritablePrimary": true }),
    ///     }],
    /// };
    /// let code = history.code();
    /// assert!(code.contains(r#"bson::rawdoc! { "ok": 1_i32, "isWritablePrimary": true }"#));
    /// ```
    #[must_use]
    pub fn code(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(address_code).collect();
        let set_name = self.set_name.as_ref();
        let set_name = match set_name {
            Some(name) => format!("Some({name:?}.to_owned())"),
            None => "None".to_owned(),
        };
        let mut text = format!(
            "History {{\n    seeds: vec![{}],\n    set_name: {set_name},\n    hellos: vec![\n",
            seeds.join(", ")
        );
        for Hello { server, reply } in &self.hellos {
            let server = address_code(server);
            let reply = match reply {
                Some(reply) => format!("Some({})", document_code(reply)),
                None => "None".to_owned(),
            };
            let _ = writeln!(
                text,
                "        Hello {{ server: {server}, reply: {reply} }},"
            );
        }
        text + "    ],\n}"
    }
}

fn address_code(address: &Address) -> String {
    match (0..super::ADDRESSES).find(|&index| super::address(index) == *address) {
        Some(index) => format!("address({index})"),
        None => format!(
            "onionskin_core::address::Address::parse({:?}).unwrap()",
            address.to_string()
        ),
    }
}

/// Returns the code of a document: its fields, or its bytes if `rawdoc!` cannot have them.
fn document_code(document: &RawDocument) -> String {
    let fields = fields_code(document).map(|fields| format!("bson::rawdoc! {fields}"));
    fields.unwrap_or_else(|| {
        format!(
            "bson::RawDocumentBuf::from_bytes(vec!{:?}).unwrap()",
            document.as_bytes()
        )
    })
}

fn fields_code(document: &RawDocument) -> Option<String> {
    let mut fields = Vec::new();
    for field in document {
        let (name, value) = field.ok()?;
        fields.push(format!("{:?}: {}", name.as_str(), value_code(value)?));
    }
    Some(match fields.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", fields.join(", ")),
    })
}

fn value_code(value: RawBsonRef<'_>) -> Option<String> {
    Some(match value {
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::Int32(value) => format!("{value}_i32"),
        RawBsonRef::Int64(value) => format!("{value}_i64"),
        RawBsonRef::Double(value) if value.is_finite() => format!("{value:?}_f64"),
        RawBsonRef::String(value) => format!("{value:?}"),
        RawBsonRef::Null => "null".to_owned(),
        RawBsonRef::ObjectId(id) => {
            format!("bson::oid::ObjectId::from_bytes({:?})", id.bytes())
        }
        RawBsonRef::DateTime(time) => {
            format!("bson::DateTime::from_millis({})", time.timestamp_millis())
        }
        RawBsonRef::Timestamp(bson::Timestamp { time, increment }) => {
            format!("bson::Timestamp {{ time: {time}, increment: {increment} }}")
        }
        RawBsonRef::Binary(binary) if binary.subtype == BinarySubtype::Generic => format!(
            "bson::Binary {{ subtype: bson::spec::BinarySubtype::Generic, bytes: vec!{:?} }}",
            binary.bytes
        ),
        RawBsonRef::Document(document) => fields_code(document)?,
        RawBsonRef::Array(array) => {
            let values: Option<Vec<String>> = array
                .into_iter()
                .map(|value| value_code(value.ok()?))
                .collect();
            format!("[{}]", values?.join(", "))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{address, lying_histories, replica_set_histories};
    use super::*;
    use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
    use proptest::prelude::*;

    #[test]
    fn each_type_of_a_hello_has_its_code() {
        let reply = rawdoc! {
            "a": 1_i32, "b": -2_i64, "c": 1.5_f64, "d": true, "e": "x\"y",
            "f": ObjectId::from_bytes([1; 12]), "g": bson::DateTime::from_millis(5),
            "h": ["s", { "t": 1_i32 }], "i": {},
        };
        let code = document_code(&reply);
        let expected = "bson::rawdoc! { \"a\": 1_i32, \"b\": -2_i64, \"c\": 1.5_f64, \"d\": true, \
                        \"e\": \"x\\\"y\", \"f\": bson::oid::ObjectId::from_bytes([1, 1, 1, 1, 1, \
                        1, 1, 1, 1, 1, 1, 1]), \"g\": bson::DateTime::from_millis(5), \"h\": \
                        [\"s\", { \"t\": 1_i32 }], \"i\": {} }";
        assert_eq!(code, expected);
        let odd = RawDocumentBuf::from_bytes(vec![8, 0, 0, 0, 0x7f, b'a', 0, 0]);
        let code = document_code(&odd.expect("a document"));
        assert!(
            code.contains("from_bytes(vec![8, 0, 0, 0, 127, 97, 0, 0])"),
            "{code}"
        );
    }

    proptest! {
        #[test]
        fn each_history_has_code(
            history in prop_oneof![replica_set_histories(), lying_histories(false)],
        ) {
            let code = history.code();
            let lines = code.lines().filter(|line| line.contains("Hello {"));
            prop_assert_eq!(lines.count(), history.hellos.len());
            prop_assert!(address_code(&address(3)) == "address(3)");
        }
    }
}
