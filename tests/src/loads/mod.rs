//! Work to be measured: the same for wall times (`benches/`) and for counted instructions and
//! allocations (`examples/`).

pub mod client;
pub mod hostile;
pub mod pool;
pub mod topology;
