//! Tests of the adapters of the runtimes: how tasks and runtimes end, the addresses that are tried,
//! options of sockets, and steps of a Kerberos library that take long.

mod addresses;
mod endings;
mod keep_alive;
mod kerberos_steps;
