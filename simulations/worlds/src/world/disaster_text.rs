//! The texts of disasters, for traces and reports.

use super::plan::Disaster;
use std::fmt;

impl fmt::Display for Disaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(member) => write!(f, "member {member} is killed"),
            Self::ShutDown(member) => write!(f, "member {member} shuts down"),
            Self::Restart(member) => write!(f, "member {member} starts again"),
            Self::Disconnect(member) => write!(f, "member {member} loses its connections"),
            Self::StepDown => f.write_str("the primary steps down"),
            Self::LimitConnections(most) => {
                write!(f, "each server accepts {most} connections")
            }
            Self::Reconfigure { member, options } => {
                write!(f, "member {member} becomes {options}")
            }
            Self::RemoveMember(member) => write!(f, "member {member} leaves the replica set"),
            Self::AddMember(member) => write!(f, "member {member} joins the replica set"),
            Self::ForceConfiguration { member, remove } => {
                write!(f, "member {member} removes members {remove:?} by force")
            }
            Self::Resync(member) => write!(f, "member {member} loses its data"),
            Self::Upgrade { member, version } => {
                write!(f, "member {member} will start with release {version}")
            }
            Self::CutMembers { from, to } => {
                write!(f, "messages from member {from} to member {to} are lost")
            }
            Self::Isolate(member) => write!(f, "member {member} hears no other member"),
            Self::JoinMembers => f.write_str("the members hear each other again"),
            Self::CutClient {
                client,
                member,
                up,
                down,
            } => write_cut(f, (*client, *member), (*up, *down)),
            Self::KillShard(shard) => write!(f, "shard {shard} is killed"),
            Self::RestartShard(shard) => write!(f, "shard {shard} starts again"),
            Self::StepDownShard(shard) => write!(f, "shard {shard} steps down"),
            Self::CutShards { from, to } => {
                write!(f, "messages from shard {from} to shard {to} are lost")
            }
            Self::JoinClients => f.write_str("the clients reach all members again"),
            Self::DisconnectClient { client, member } => {
                write!(
                    f,
                    "client {client} loses its connections to member {member}"
                )
            }
            Self::FreezeMember { member, pause } => {
                let pause = String::from(*pause);
                write!(f, "member {member} is frozen for {pause}")
            }
            Self::Freeze { client, pause } => {
                write!(f, "client {client} is frozen for {}", String::from(*pause))
            }
            Self::ListMembers(members) => write!(f, "the name server lists members {members:?}"),
            Self::SilenceNames => f.write_str("the name server is silent"),
            Self::FailNames(failures) => write!(f, "{failures}"),
            Self::JumpClock(jump) => write!(f, "{jump}"),
            Self::MendNames => f.write_str("no lookup fails any more"),
            Self::ExpireLogins => f.write_str("all logins expire"),
            Self::FailCommands(fault) => write!(f, "{fault}"),
            Self::EndFailures => f.write_str("no command fails any more"),
            Self::Overload(overload) => write!(f, "{overload}"),
            Self::SlowMember(slow) => write!(f, "{slow}"),
            Self::EndSlowness => f.write_str("no member is slow any more"),
            Self::EndOverload => f.write_str("no member is overloaded any more"),
            Self::EndStreams => f.write_str("all change streams end"),
            Self::CloseClient(client) => write!(f, "client {client} is closed"),
            Self::Heal => f.write_str("all faults end"),
        }
    }
}

fn write_cut(
    f: &mut fmt::Formatter<'_>,
    (client, member): (usize, usize),
    lost: (bool, bool),
) -> fmt::Result {
    let lost = match lost {
        (true, true) => format!("bytes between client {client} and member {member}"),
        (true, false) => format!("requests of client {client} to member {member}"),
        (false, _) => format!("replies of member {member} to client {client}"),
    };
    write!(f, "{lost} are lost")
}
