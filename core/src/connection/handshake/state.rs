//! The states of a connection, their transitions, and the message that each state expects.

use crate::{connection::Awaited, time::Instant};

/// The state of a connection between dialling and its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// The socket is being connected.
    Dialling,
    /// The layers hold their opening conversations, such as the TLS handshake, the lowest layer
    /// first.
    OpeningLayers,
    /// The connection waits for the login of the application's password provider. The hello needs
    /// the login, and so does the first command of a connection that authenticates again.
    AwaitingLogin,
    /// The hello was sent and is not answered yet.
    AwaitingHello {
        /// The time at which the hello was sent.
        sent: Instant,
    },
    /// The reply to an authentication command is expected. The connection enters this state also if
    /// no command is needed, and leaves it at once.
    Authenticating {
        /// The number of authentication commands that were sent.
        rounds: u32,
    },
    /// Authentication waits for keys, which the shell derives.
    DerivingKeys {
        /// The number of authentication commands that were sent.
        rounds: u32,
    },
    /// Authentication waits for a part of the credential, such as a token.
    Fetching {
        /// The number of authentication commands that were sent.
        rounds: u32,
    },
    /// Authentication waits for a step of the Kerberos library, which the shell runs.
    AwaitingKerberos {
        /// The number of authentication commands that were sent.
        rounds: u32,
    },
    /// The connection is a monitor's, its first hello was answered, and no check is outstanding.
    Idle,
    /// A check was sent, or a stream of replies continues.
    Checking {
        /// The time at which the check was sent; for later replies of a stream, the time of the
        /// previous reply.
        sent: Instant,
        /// True if the reply may announce another one.
        streaming: bool,
    },
    /// The connection is established and ready for its pool, or has failed.
    Over,
}

impl State {
    /// True if the state may change to `next`. No other transitions exist. Each state except `Over`
    /// may change to `Over`, which is the last.
    pub(super) const fn leads_to(&self, next: &Self) -> bool {
        match self {
            // A connection that authenticates again was dialled before.
            Self::Dialling => matches!(
                next,
                Self::OpeningLayers
                    | Self::AwaitingLogin
                    | Self::AwaitingHello { .. }
                    | Self::Authenticating { .. }
                    | Self::Over
            ),
            Self::OpeningLayers => matches!(
                next,
                Self::AwaitingLogin | Self::AwaitingHello { .. } | Self::Over
            ),
            Self::AwaitingLogin => matches!(
                next,
                Self::AwaitingHello { .. } | Self::Authenticating { .. } | Self::Over
            ),
            Self::AwaitingHello { .. } => {
                matches!(next, Self::Authenticating { .. } | Self::Idle | Self::Over)
            }
            Self::Authenticating { .. } => matches!(
                next,
                Self::Authenticating { .. }
                    | Self::DerivingKeys { .. }
                    | Self::Fetching { .. }
                    | Self::AwaitingKerberos { .. }
                    | Self::Over
            ),
            Self::DerivingKeys { .. } | Self::AwaitingKerberos { .. } => {
                matches!(next, Self::Authenticating { .. } | Self::Over)
            }
            Self::Fetching { .. } => matches!(
                next,
                Self::Authenticating { .. } | Self::Fetching { .. } | Self::Over
            ),
            Self::Idle => matches!(next, Self::Checking { .. } | Self::Over),
            Self::Checking { .. } => {
                matches!(next, Self::Checking { .. } | Self::Idle | Self::Over)
            }
            Self::Over => false,
        }
    }

    /// Returns the message that may come next. `request_id` is the id of the last request, or of
    /// the previous reply of a stream.
    pub(super) const fn awaited(&self, request_id: i32) -> Awaited {
        match self {
            Self::Dialling
            | Self::OpeningLayers
            | Self::AwaitingLogin
            | Self::DerivingKeys { .. }
            | Self::Fetching { .. }
            | Self::AwaitingKerberos { .. }
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
Dialling: OpeningLayers AwaitingLogin AwaitingHello Authenticating Over
OpeningLayers: AwaitingLogin AwaitingHello Over
AwaitingLogin: AwaitingHello Authenticating Over
AwaitingHello: Authenticating Idle Over
Authenticating: Authenticating DerivingKeys Fetching AwaitingKerberos Over
DerivingKeys: Authenticating Over
Fetching: Authenticating Fetching Over
AwaitingKerberos: Authenticating Over
Idle: Checking Over
Checking: Idle Checking Over
Over:
";

    #[test]
    fn each_connection_state_leads_only_to_the_listed_states() {
        let sent = Instant::ZERO;
        let states = [
            State::Dialling,
            State::OpeningLayers,
            State::AwaitingLogin,
            State::AwaitingHello { sent },
            State::Authenticating { rounds: 0 },
            State::DerivingKeys { rounds: 0 },
            State::Fetching { rounds: 0 },
            State::AwaitingKerberos { rounds: 0 },
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
