//! The read preference as it is sent to servers (`$readPreference`).

use crate::{
    bson::DocumentWriter,
    description::{ServerType, TopologyType},
    options::{ReadMode, ReadPreference},
    time::whole_seconds,
};

static PRIMARY_PREFERRED: ReadPreference = ReadPreference::new(ReadMode::PrimaryPreferred);

/// Returns the read preference to send as `$readPreference`, or `None` if none is sent ([SEL-24]).
///
/// `preference` is `None` for operations without a read preference, such as writes.
///
/// [SEL-24]: crate::requirements::server_selection#SEL-24
#[must_use]
pub fn read_preference_to_send(
    topology_type: TopologyType,
    server_type: ServerType,
    preference: Option<&ReadPreference>,
) -> Option<&ReadPreference> {
    let chosen = preference.filter(|p| !p.is_primary());
    match (topology_type, server_type) {
        (_, ServerType::Standalone) => None,
        // On a direct connection, a member that is not primary refuses reads with mode primary or
        // without a mode. So each member, also the primary, gets mode primaryPreferred instead.
        (
            TopologyType::Single,
            ServerType::RsPrimary
            | ServerType::RsSecondary
            | ServerType::RsArbiter
            | ServerType::RsOther
            | ServerType::RsGhost,
        ) => Some(chosen.unwrap_or(&PRIMARY_PREFERRED)),
        _ => chosen,
    }
}

/// Appends `$readPreference` to a command ([SEL-25], [STALE-14]).
///
/// ```
/// use onionskin_core::bson::DocumentWriter;
/// use onionskin_core::options::{ReadMode, ReadPreference};
/// use onionskin_core::unstable::selection::write_read_preference;
///
/// let mut buffer = Vec::new();
/// let mut command = DocumentWriter::begin(&mut buffer);
/// write_read_preference(&mut command, &ReadPreference::new(ReadMode::Nearest));
/// command.end();
/// let expected = bson::rawdoc! { "$readPreference": { "mode": "nearest" } };
/// assert_eq!(buffer, expected.as_bytes());
/// ```
///
/// [SEL-25]: crate::requirements::server_selection#SEL-25
/// [STALE-14]: crate::requirements::server_selection#STALE-14
pub fn write_read_preference(command: &mut DocumentWriter<'_>, preference: &ReadPreference) {
    command.nested("$readPreference", |document| {
        document.str("mode", preference.mode().name());
        if preference.is_primary() {
            return;
        }
        if !preference.tag_sets().is_empty() {
            document.documents("tags", preference.tag_sets(), |set, tags| {
                for (name, value) in tags {
                    set.str(name, value);
                }
            });
        }
        if let Some(limit) = preference.max_staleness() {
            document.i64("maxStalenessSeconds", whole_seconds(limit));
        }
        if let Some(enabled) = preference.hedge() {
            document.nested("hedge", |hedge| {
                hedge.bool("enabled", enabled);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_sent_read_preference_follows_the_topology_and_server_types() {
        use ServerType as S;
        use TopologyType as T;
        const PREFERRED: Option<&str> = Some("primaryPreferred");
        const USER: Option<&str> = Some("secondaryPreferred");
        let user = ReadPreference::new(ReadMode::SecondaryPreferred);
        let primary = ReadPreference::default();
        let name = |p: Option<&ReadPreference>| p.map(|p| p.mode().name());
        for (topology, server, without, with) in [
            (T::Single, S::Standalone, None, None),
            (T::Single, S::Mongos, None, USER),
            (T::Single, S::RsPrimary, PREFERRED, USER),
            (T::Single, S::RsSecondary, PREFERRED, USER),
            (T::Single, S::RsArbiter, PREFERRED, USER),
            (T::Single, S::RsOther, PREFERRED, USER),
            (T::Single, S::RsGhost, PREFERRED, USER),
            (T::ReplicaSetWithPrimary, S::RsPrimary, None, USER),
            (T::ReplicaSetWithPrimary, S::RsSecondary, None, USER),
            (T::ReplicaSetNoPrimary, S::RsSecondary, None, USER),
            (T::Sharded, S::Mongos, None, USER),
            (T::LoadBalanced, S::LoadBalancer, None, USER),
        ] {
            let send = |p| read_preference_to_send(topology, server, p);
            assert_eq!(name(send(None)), without, "{topology} {server}");
            assert_eq!(name(send(Some(&primary))), without, "{topology} {server}");
            assert_eq!(name(send(Some(&user))), with, "{topology} {server}");
        }
    }

    #[test]
    fn tag_sets_and_max_staleness_are_sent_with_the_mode() {
        let full = ReadPreference::new(ReadMode::Secondary)
            .with_tag_sets(vec![[("dc".into(), "ny".into())].into(), [].into()])
            .and_then(|p| p.with_max_staleness(Duration::from_secs(120)))
            .expect("legal");
        let mut buffer = Vec::new();
        let mut command = DocumentWriter::begin(&mut buffer);
        write_read_preference(&mut command, &full);
        command.end();
        let expected = bson::rawdoc! { "$readPreference": {
            "mode": "secondary", "tags": [{ "dc": "ny" }, {}], "maxStalenessSeconds": 120_i64,
        } };
        assert_eq!(buffer, expected.as_bytes());
    }

    #[test]
    #[allow(deprecated, reason = "old servers still know it")]
    fn hedge_is_sent_if_set_and_refused_for_mode_primary() {
        // `hedge` is sent if the user chose it (SEL-17, SEL-25).
        let nearest = ReadPreference::new(ReadMode::Nearest);
        for enabled in [true, false] {
            let hedged = nearest.clone().with_hedge(enabled).expect("legal");
            let mut buffer = Vec::new();
            let mut command = DocumentWriter::begin(&mut buffer);
            write_read_preference(&mut command, &hedged);
            command.end();
            let expected = bson::rawdoc! { "$readPreference": {
                "mode": "nearest", "hedge": { "enabled": enabled },
            } };
            assert_eq!(buffer, expected.as_bytes());
        }
        assert!(ReadPreference::default().with_hedge(true).is_err());
    }

    #[test]
    fn mode_primary_is_sent_without_tag_sets() {
        let primary = ReadPreference::default()
            .with_tag_sets(vec![[].into()])
            .expect("an empty set is legal");
        let mut buffer = Vec::new();
        let mut command = DocumentWriter::begin(&mut buffer);
        write_read_preference(&mut command, &primary);
        command.end();
        let expected = bson::rawdoc! { "$readPreference": { "mode": "primary" } };
        assert_eq!(buffer, expected.as_bytes());
    }
}
