//! The model of stale primaries (table A.6).

use super::{Facts, Mistake, Model};

impl Model {
    /// True if a primary is stale. Otherwise its `electionId` and `setVersion` update the maxima,
    /// as table A.6 demands.
    ///
    /// `None` is smaller than every value and equal to itself, in Rust as in table A.6.
    pub(super) fn is_stale_primary(&mut self, new: &Facts) -> bool {
        let by_new_rule = match self.mistake {
            Some(Mistake::NewPairRuleAlways) => true,
            Some(Mistake::OldPairRuleAlways) => false,
            _ => new.max_wire >= 17,
        };
        if by_new_rule {
            self.is_stale_since_6_0(new)
        } else {
            self.is_stale_before_6_0(new)
        }
    }

    fn is_stale_since_6_0(&mut self, new: &Facts) -> bool {
        let accepted = new.election_id > self.max_election_id
            || (new.election_id == self.max_election_id && new.set_version >= self.max_set_version);
        if accepted {
            self.max_election_id = new.election_id;
            self.max_set_version = new.set_version;
        }
        !accepted
    }

    fn is_stale_before_6_0(&mut self, new: &Facts) -> bool {
        if let (Some(election_id), Some(set_version)) = (new.election_id, new.set_version) {
            if let (Some(max_election_id), Some(max_set_version)) =
                (self.max_election_id, self.max_set_version)
                && (max_set_version > set_version
                    || (max_set_version == set_version && max_election_id > election_id))
            {
                return true;
            }
            self.max_election_id = Some(election_id);
        }
        if new.set_version.is_some() && self.max_set_version < new.set_version {
            self.max_set_version = new.set_version;
        }
        false
    }
}
