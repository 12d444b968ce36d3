//! The cluster times that replies bring, and the commands that a server refuses because of one.

use crate::{
    client::Client,
    description::ServerId,
    error::Error,
    operation::{ClusterTime, Exchange, refuses_cluster_time},
    time::Instant,
};

impl Client {
    /// Keeps the cluster time of a reply, if it is later than the newest one.
    #[inline]
    pub(in crate::client) fn note_cluster_time(
        &mut self,
        now: Instant,
        time: Option<ClusterTime>,
        server: ServerId,
    ) {
        if let Some(time) = time {
            self.attempts.cluster_times.note(now, time, server);
        }
    }

    /// True if the server refused the `$clusterTime` of this exchange. The client then drops this
    /// time, and the operation sends none from now on.
    pub(in crate::client) fn drops_cluster_time(
        &mut self,
        now: Instant,
        exchange: &mut Exchange,
        error: &Error,
    ) -> bool {
        let Some(sent) = &exchange.operation.exchange.context.cluster_time else {
            return false;
        };
        if !refuses_cluster_time(error) {
            return false;
        }
        let session = exchange.operation.request.session;
        let state = session.and_then(|session| self.attempts.explicit.get_mut(&session));
        let state = state.filter(|state| state.cluster_time.as_ref() == Some(sent));
        // The application may have given the session the time of another deployment, which is then
        // not that of the client.
        let times = &mut self.attempts.cluster_times;
        if state.is_none() || times.newest() == Some(sent) {
            times.refuse(now, sent, exchange.lease.facts.server);
        }
        if let Some(state) = state {
            state.forget_cluster_time();
        }
        exchange.operation.retry.without_cluster_time = true;
        true
    }
}
