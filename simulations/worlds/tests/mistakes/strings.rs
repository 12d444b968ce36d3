//! Mistakes in connection strings.

use crate::Page;
use onionskin_tokio::{Client, error::Error, options::ClientOptions};

/// Mistakes, and connection strings with them.
const STRINGS: &[(&str, &str)] = &[
    ("`localhost:27017`", "localhost:27017"),
    ("`mongodb://`", "mongodb://"),
    (
        "a password with `@` that is not escaped",
        "mongodb://ada:p@ss@a/",
    ),
    (
        "a password with `%` that is not escaped",
        "mongodb://ada:50%@a/",
    ),
    (
        "a placeholder that was left in",
        "mongodb://ada:<db_password>@a/",
    ),
    ("an empty string", ""),
    ("quotation marks around the string", "\"mongodb://a/\""),
    (
        "`mongodb+srv` and a password with `/` that is not escaped",
        "mongodb+srv://ada:p/ss@a.example.com",
    ),
    ("`mongodb://a:99999`", "mongodb://a:99999"),
    (
        "`mongodb+srv://a.example.com:27017`",
        "mongodb+srv://a.example.com:27017",
    ),
    ("`mongodb+srv` with two hosts", "mongodb+srv://a.b.c,d.e.f"),
    (
        "`directConnection` with two hosts",
        "mongodb://a,b/?directConnection=true",
    ),
    (
        "`loadBalanced` with `replicaSet`",
        "mongodb://a/?loadBalanced=true&replicaSet=rs",
    ),
    (
        "`minPoolSize` above `maxPoolSize`",
        "mongodb://a/?minPoolSize=9&maxPoolSize=5",
    ),
    (
        "a mechanism without a user",
        "mongodb://a/?authMechanism=SCRAM-SHA-256",
    ),
    (
        "a mechanism that does not exist",
        "mongodb://u:p@a/?authMechanism=SCRAM",
    ),
    (
        "`maxStalenessSeconds` for the primary",
        "mongodb://a/?readPreference=primary&maxStalenessSeconds=120",
    ),
    ("`w=0` with a journal", "mongodb://a/?w=0&journal=true"),
    (
        "`tls` and `ssl` that differ",
        "mongodb://a/?tls=true&ssl=false",
    ),
];

fn parse(text: &str) -> Result<ClientOptions, Error> {
    text.parse()
}

/// Parses a connection string of which nothing may be ignored.
fn parse_strictly(text: &str) -> Result<(), Error> {
    let mut options = parse(text)?;
    options.strict = true;
    Client::with_options(options).map(drop)
}

pub(super) fn strings(page: &mut Page) {
    page.heading("Connection strings");
    for (mistake, text) in STRINGS {
        page.row(mistake, parse(text).and_then(Client::with_options));
    }
    for (mistake, text) in [
        (
            "`retyWrites=true`, read strictly",
            "mongodb://a/?retyWrites=true",
        ),
        (
            "`maxPoolSize=many`, read strictly",
            "mongodb://a/?maxPoolSize=many",
        ),
    ] {
        page.row(mistake, parse_strictly(text));
    }
}
