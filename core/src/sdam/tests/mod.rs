//! Behaviour of the whole machine.
