//! MONGODB-AWS: the client proves its AWS identity with a signed request that the server passes to
//! the AWS service STS.

mod cache;
mod conversation;
mod signature;
mod sources;

pub(super) use cache::AwsCache;
pub use cache::{AwsKeys, AwsSource};
pub(super) use conversation::Aws;
pub(super) use sources::Sources;
