//! The loop that carries orders between the parts, and the inputs that concern no attempt.

pub(super) mod forking;
pub(super) mod inputs;
pub(super) mod lifecycle;
pub(super) mod outbox;
pub(super) mod routing;
pub(super) mod timing;
mod warming;
