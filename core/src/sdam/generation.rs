//! Generations of one server's pool: each clear makes older connections stale (SDAM-10).

use bson::oid::ObjectId;
use std::collections::BTreeMap;

/// How many services of one load balancer have a generation of their own. When there are more, all
/// connections become stale at once and counting begins anew above every number used so far.
pub const MAX_SERVICES: usize = 4096;

/// One generation for the server, or one for each service behind a load balancer (SDAM-113).
#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    base: u64,
    services: BTreeMap<ObjectId, u64>,
}

impl Generations {
    /// The current generation; a service that was never cleared has that of the server.
    pub(super) fn current(&self, service: Option<&ObjectId>) -> u64 {
        service
            .and_then(|service| self.services.get(service))
            .copied()
            .unwrap_or(self.base)
    }

    /// The next generation. Says as well which service is meant: none where the bound on services
    /// makes it all of them.
    pub(super) fn advance(&mut self, service: Option<ObjectId>) -> (u64, Option<ObjectId>) {
        if let Some(service) = service
            && (self.services.contains_key(&service) || self.services.len() < MAX_SERVICES)
        {
            let generation = self.services.entry(service).or_insert(self.base);
            *generation += 1;
            return (*generation, Some(service));
        }
        let highest = self.services.values().max().copied().unwrap_or(0);
        self.base = self.base.max(highest) + 1;
        self.services.clear();
        (self.base, None)
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
        assert_eq!(generations.advance(Some(a)), (1, Some(a)));
        assert_eq!(generations.current(Some(&a)), 1);
        assert_eq!(generations.current(Some(&b)), 0);
        assert_eq!(generations.current(None), 0);
    }

    #[test]
    fn too_many_services_make_everything_stale_and_nothing_young_again() {
        let service = |n: usize| {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
            ObjectId::from_bytes(bytes)
        };
        let mut generations = Generations::default();
        generations.advance(Some(service(0)));
        generations.advance(Some(service(0)));
        for n in 1..MAX_SERVICES {
            generations.advance(Some(service(n)));
        }
        assert_eq!(generations.advance(Some(service(MAX_SERVICES))), (3, None));
        assert_eq!(generations.current(Some(&service(0))), 3);
    }
}
