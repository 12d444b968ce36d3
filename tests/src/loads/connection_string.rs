//! The parsing of connection strings: a typical one, and long ones.

use onionskin_core::uri::{self, ConnectionString, ParsedUri};

/// A typical connection string: three hosts, user name and password, a database and eight options.
pub const TYPICAL: &str = "mongodb://shop:p%40ss%2Fword@db1.example.net:27017,\
    db2.example.net:27017,db3.example.net:27018/orders?replicaSet=rs0&authSource=admin&tls=true\
    &w=majority&retryWrites=true&maxPoolSize=50&appName=checkout&readPreference=secondaryPreferred";

/// The lengths of the long strings in bytes.
pub const LENGTHS: [usize; 3] = [1 << 10, 1 << 15, 1 << 20];

/// The repeated part of each long string, with a name.
pub const PIECES: [(&str, &str); 5] = [
    ("hosts", "db.example.net:27017,"),
    ("options", "w=majority&"),
    ("unknown options", "unknown=1&"),
    ("tag sets", "readPreferenceTags=dc:ny&"),
    ("encoded user name", "%40"),
];

/// Returns a valid string of about this length, which consists mostly of this piece.
#[must_use]
pub fn long(piece: &str, bytes: usize) -> String {
    let many = piece.repeat(bytes / piece.len());
    match piece.as_bytes() {
        [.., b','] => format!("mongodb://{many}localhost"),
        [.., b'&'] => format!("mongodb://localhost/?readPreference=nearest&{many}"),
        _ => format!("mongodb://{many}@localhost"),
    }
}

/// Parses a string into the options of a client.
///
/// # Panics
///
/// Panics if the string is not valid.
#[must_use]
pub fn options(text: &str) -> ParsedUri {
    uri::parse(text).expect("a valid string")
}

/// Parses a string that can be changed and printed.
///
/// # Panics
///
/// Panics if the string is not valid.
#[must_use]
pub fn string(text: &str) -> ConnectionString {
    ConnectionString::parse(text).expect("a valid string")
}
