//! Tests of the async client with the simulated deployment, in virtual time: discovery, monitoring,
//! pools, retries, cursors and other operations. Many of them run what the integration tests of the
//! specifications run with a real server.
//!
//! A test that is made from an official test file or from a prose test names that file or test. The
//! files `unified/...` belong to the specification's `server-discovery-and-monitoring/tests`. The
//! function `scene::play` runs a test with several seeds. If the test fails, `play` prints a
//! command that runs the tests again with the same seed.

mod adaptive;
mod application_code;
mod authentication;
mod backpressure;
mod balanced;
mod batches;
mod bulk_writes;
mod causal;
mod change_tokens;
mod changes;
mod checks;
mod clearing;
mod closing;
mod compression;
mod connecting;
mod crowded_hosts;
mod deadlines;
mod establishing;
mod event_log;
mod events;
mod forking;
mod freeze;
mod gridfs;
mod index_lists;
mod leaks;
mod ledger;
mod lifecycle;
mod limits;
mod mechanisms;
mod name_servers;
mod operations;
mod pools;
mod programs;
mod prose;
mod proxies;
mod retries;
mod scenarios;
mod scene;
mod selection;
mod session_prose;
mod sessions;
mod sleeping;
mod spans;
mod step_down;
mod storm;
mod streams;
mod transaction_faults;
mod transactions;
mod turns;
mod waiting;
