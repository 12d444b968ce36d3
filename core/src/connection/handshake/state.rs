//! The states of a connection, their transitions, and the message that each of them awaits.

use crate::{connection::Awaited, time::Instant};

/// How far a connection has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// The socket is being connected.
    Dialling,
    /// The layers hold their opening conversations, the lowest first.
    OpeningLayers,
    /// The hello was sent.
    AwaitingHello {
        /// When it was sent.
        sent: Instant,
    },
    /// A command of authentication was sent, or none is needed any more.
    Authenticating {
        /// Commands that were sent.
        rounds: u32,
    },
    /// Authentication waits for keys, which are derived elsewhere.
    DerivingKeys {
        /// Commands that were sent.
        rounds: u32,
    },
    /// A monitor's connection between two checks.
    Idle,
    /// A monitor's check was sent, or its stream goes on.
    Checking {
        /// When the check was sent; for the later replies of a stream, when the one before came.
        sent: Instant,
        /// The reply may announce another one.
        streaming: bool,
    },
    /// The connection was handed over to its pool, or failed.
    Over,
}

impl State {
    /// True if `next` may follow: all transitions of the machine. Each state may fail.
    pub(super) const fn leads_to(&self, next: &Self) -> bool {
        match self {
            Self::Dialling => matches!(
                next,
                Self::OpeningLayers | Self::AwaitingHello { .. } | Self::Over
            ),
            Self::OpeningLayers => matches!(next, Self::AwaitingHello { .. } | Self::Over),
            Self::AwaitingHello { .. } => {
                matches!(next, Self::Authenticating { .. } | Self::Idle | Self::Over)
            }
            Self::Authenticating { .. } => matches!(
                next,
                Self::Authenticating { .. } | Self::DerivingKeys { .. } | Self::Over
            ),
            Self::DerivingKeys { .. } => matches!(next, Self::Authenticating { .. } | Self::Over),
            Self::Idle => matches!(next, Self::Checking { .. } | Self::Over),
            Self::Checking { .. } => {
                matches!(next, Self::Checking { .. } | Self::Idle | Self::Over)
            }
            Self::Over => false,
        }
    }

    /// Returns the message that may come next. `request_id` is the id of the last request, or of
    /// the last reply of a stream.
    pub(super) const fn awaited(&self, request_id: i32) -> Awaited {
        match self {
            Self::Dialling
            | Self::OpeningLayers
            | Self::DerivingKeys { .. }
            | Self::Idle
            | Self::Over => Awaited::Nothing,
            Self::AwaitingHello { .. } | Self::Authenticating { .. } => Awaited::Reply(request_id),
            Self::Checking { streaming, .. } => {
                if *streaming {
                    Awaited::Stream(request_id)
                } else {
                    Awaited::Reply(request_id)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXITS: &str = "\
Dialling: OpeningLayers AwaitingHello Over
OpeningLayers: AwaitingHello Over
AwaitingHello: Authenticating Idle Over
Authenticating: Authenticating DerivingKeys Over
DerivingKeys: Authenticating Over
Idle: Checking Over
Checking: Idle Checking Over
Over:
";

    #[test]
    fn the_exits_of_each_state_are_these() {
        let sent = Instant::ZERO;
        let states = [
            State::Dialling,
            State::OpeningLayers,
            State::AwaitingHello { sent },
            State::Authenticating { rounds: 0 },
            State::DerivingKeys { rounds: 0 },
            State::Idle,
            State::Checking {
                sent,
                streaming: false,
            },
            State::Over,
        ];
        let name = |state: &State| {
            let text = format!("{state:?}");
            text.split(' ').next().expect("a name").to_owned()
        };
        let mut lines = String::new();
        for state in &states {
            let exits = states.iter().filter(|next| state.leads_to(next));
            let exits: String = exits.map(|next| format!(" {}", name(next))).collect();
            lines += &format!("{}:{exits}\n", name(state));
        }
        assert_eq!(lines, EXITS);
    }
}
