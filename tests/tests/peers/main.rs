//! Tests with programs that other people wrote: servers, drivers, proxies, name servers and load
//! balancers. Each module has a counterpart, or one subject of several. They are one program,
//! because each program takes long to build.

mod adapters;
mod auth;
mod compression;
mod crud;
mod documents;
mod drivers;
mod haproxy;
mod mingo;
mod names;
mod pictures;
mod porting;
mod seed_lists;
mod socks;
mod start;
mod sweeps;
mod uris;
mod wire;
