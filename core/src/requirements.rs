//! The rules of the MongoDB driver specifications that the code cites by number, such as `CMAP-17`.
//!
//! Each submodule shows one file of `docs/requirements`. The docs of the core link to the rules
//! that they cite.

macro_rules! pages {
    ($($name:ident: $file:literal, $specification:literal;)*) => {
        $(
            #[doc = concat!("Rules of ", $specification, ".\n\n")]
            #[doc = include_str!(concat!("../requirements/", $file, ".md"))]
            pub mod $name {}
        )*
    };
}

pages! {
    authentication: "authentication", "Authentication";
    certificates: "certificates", "OCSP Support";
    compression: "compression", "Wire Compression";
    connection_strings: "connection-strings", "Connection String and URI Options";
    discovery: "discovery", "Server Discovery and Monitoring";
    documents: "documents", "BSON, Extended JSON and the types of BSON";
    handshake: "handshake", "MongoDB Handshake";
    load_balancers: "load-balancers", "Load Balancer Support";
    messages: "messages", "OP_MSG and Run Command";
    monitoring: "monitoring", "Server Monitoring";
    monitoring_events: "monitoring-events", "SDAM Logging and Monitoring";
    pool: "pool", "Connection Monitoring and Pooling";
    proxies: "proxies", "SOCKS5 Support";
    retries: "retries", "Retryable Reads, Retryable Writes and Client Backpressure";
    seed_lists: "seed-lists", "Initial DNS Seedlist Discovery";
    server_selection: "server-selection", "Server Selection and Max Staleness";
    srv_polling: "srv-polling", "Polling SRV Records for mongos Discovery";
    tables: "tables", "tables, timers, scenarios and prose tests";
}
