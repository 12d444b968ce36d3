//! The documents of the measured operations.

use onionskin::bson::DateTime;
use serde::{Deserialize, Serialize};

/// A document of about 225 bytes of BSON, with nine fields.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Person {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    name: String,
    email: String,
    age: i32,
    balance: f64,
    active: bool,
    created: DateTime,
    address: Address,
    tags: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Address {
    city: String,
    zip: i32,
}

/// A [`Person`] whose texts are in the reply of the server.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "decoding is measured, not the use of the fields")]
pub(crate) struct BorrowedPerson<'a> {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    name: &'a str,
    email: &'a str,
    age: i32,
    balance: f64,
    active: bool,
    created: DateTime,
    #[serde(borrow)]
    address: BorrowedAddress<'a>,
    tags: [&'a str; 2],
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "decoding is measured, not the use of the fields")]
struct BorrowedAddress<'a> {
    city: &'a str,
    zip: i32,
}

/// A document without `_id`, which the driver adds.
#[derive(Debug, Serialize)]
pub(crate) struct NewPerson {
    name: &'static str,
    email: &'static str,
    age: i32,
    balance: f64,
    active: bool,
    address: NewAddress,
    tags: [&'static str; 2],
}

#[derive(Debug, Serialize)]
struct NewAddress {
    city: &'static str,
    zip: i32,
}

impl Default for NewPerson {
    fn default() -> Self {
        Self {
            name: "Person number 00007",
            email: "person00007@example.net",
            age: 7,
            balance: 3.5,
            active: false,
            address: NewAddress {
                city: "Reykjavik",
                zip: 101,
            },
            tags: ["reader", "writer of texts"],
        }
    }
}

impl Person {
    pub(crate) fn new(id: i32) -> Self {
        Self {
            id,
            name: format!("Person number {id:05}"),
            email: format!("person{id:05}@example.net"),
            age: id % 90,
            balance: f64::from(id) * 0.5,
            active: id % 2 == 0,
            created: DateTime::from_millis(1_700_000_000_000 + i64::from(id)),
            address: Address {
                city: "Reykjavik".to_owned(),
                zip: 101,
            },
            tags: ["reader", "writer of texts"].map(str::to_owned).to_vec(),
        }
    }
}
