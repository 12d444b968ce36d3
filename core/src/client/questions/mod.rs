//! The questions that the client asks its shell, and the answers.

pub(super) mod answers;
pub(super) mod fetches;
pub(super) mod programs;
pub(super) mod question;
pub(super) mod table;
