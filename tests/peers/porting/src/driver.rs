//! The driver of the programs. All other modules name the driver's items below this module, so that
//! the feature changes only the lines below.

#[cfg(feature = "official")]
pub use mongodb::*;

#[cfg(feature = "ours")]
pub use onionskin_tokio::*;

#[cfg(feature = "ours")]
pub use onionskin_blocking as sync;
