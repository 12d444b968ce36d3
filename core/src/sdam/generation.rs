//! Generations of one server's pool: each clear makes older connections stale (SDAM-10).

use bson::oid::ObjectId;
use std::collections::BTreeMap;

/// One generation for the server, or one for each service behind a load balancer (SDAM-113).
#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    server: u64,
    /// Only those that were cleared and have connections: the pool says when the last one is gone.
    services: BTreeMap<ObjectId, u64>,
}

impl Generations {
    /// The current generation; that of a service is zero until it is cleared.
    pub(super) fn current(&self, service: Option<&ObjectId>) -> u64 {
        match service {
            None => self.server,
            Some(service) => self.services.get(service).copied().unwrap_or(0),
        }
    }

    /// The next generation.
    pub(super) fn advance(&mut self, service: Option<ObjectId>) -> u64 {
        let generation = match service {
            None => &mut self.server,
            Some(service) => self.services.entry(service).or_insert(0),
        };
        *generation += 1;
        *generation
    }

    /// A service has no connection left: it begins anew with its next one (CMAP-100).
    pub(super) fn forget(&mut self, service: &ObjectId) {
        self.services.remove(service);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_counted_apart() {
        // SDAM-113
        let (a, b) = (ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12]));
        let mut generations = Generations::default();
        assert_eq!(generations.advance(Some(a)), 1);
        assert_eq!(generations.current(Some(&a)), 1);
        assert_eq!(generations.current(Some(&b)), 0);
        assert_eq!(generations.current(None), 0);
        generations.forget(&a);
        assert_eq!(generations.current(Some(&a)), 0);
    }
}
