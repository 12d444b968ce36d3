//! The way of a check through its stages.

use crate::{
    advice,
    authentication::{self, authenticate},
    deployment::{Barrier, discover, read_without_user, select_servers, settle},
    drive::Clock,
    report::{Report, Stage, Status, Step},
    seeds,
    server::{Origin, Visit, visit},
    settings,
};
use futures_util::future::join_all;
use onionskin::{Client, Runtime, dns::ResolverConfig};
use onionskin_core::{
    address::Address,
    error::{Error, ErrorKind},
    options::{AuthMechanism, ClientOptions, Monitoring},
    uri::{self, ConnectionString, ParsedUri, Warning},
};
use std::{collections::BTreeSet, time::Duration};

/// The default of [`CheckOptions::timeout`]: 30 seconds.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of servers whose steps are reported one by one.
pub const MAX_SERVERS: usize = 50;

/// The time limit for closing the client at the end of a check.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// Options of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckOptions {
    /// The time limit of the whole check. Steps have the time limits of the client as well, such as
    /// `connectTimeoutMS`. Default: [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// True if the report has a [`failure`](Report::failure) when any step fails, also if a client
    /// can use the deployment without it: for example, when one of three members cannot be reached.
    /// An option of the connection string that is ignored, for example because its name is
    /// misspelt, is then a failed step, as it is an error for a client with
    /// [strict options](ClientOptions::strict). Default: false.
    pub strict: bool,
    /// The name servers and hosts file of the resolver of `mongodb+srv` connection strings. `None`,
    /// the default, means those of `/etc/resolv.conf` and `/etc/hosts`.
    pub resolver_config: Option<ResolverConfig>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            strict: false,
            resolver_config: None,
        }
    }
}

/// Checks whether and how a client with this connection string can use its deployment.
///
/// The check takes at most the time limit of the options, and about two seconds more to close its
/// client. A step that has no time left fails. If the runtime cannot run a client, the first step
/// fails.
pub async fn check<R: Runtime + Clone>(runtime: R, uri: &str, options: &CheckOptions) -> Report {
    check_with(runtime, uri, options, |_| ()).await
}

/// Checks as [`check`] does. Calls `on_step` with each step when it is complete, in the order of
/// the report.
pub async fn check_with<R: Runtime + Clone>(
    runtime: R,
    uri: &str,
    options: &CheckOptions,
    mut on_step: impl FnMut(&Step) + Send,
) -> Report {
    let clock = Clock::new(runtime, options.timeout);
    let begun = clock.now();
    let mut walk = Walk {
        clock: &clock,
        barrier: Barrier::default(),
        steps: Vec::new(),
        on_step: &mut on_step,
    };
    let connection_string = ConnectionString::parse(uri);
    let failure = match &connection_string {
        Ok(_) => walk.go(uri, options).await.err(),
        Err(error) => {
            let mut step = Step::new(Stage::Parse, None);
            step.fail(error.to_string(), advice::not_parsed(error));
            walk.done(step);
            Some(Stage::Parse)
        }
    };
    let steps = walk.steps;
    let failed = steps.iter().filter(|step| step.status == Status::Failed);
    let furthest = failed.map(|step| step.stage).max();
    Report {
        uri: connection_string.ok().map(|parsed| parsed.to_string()),
        duration: clock.now() - begun,
        is_usable: failure.is_none(),
        failure: failure.or_else(|| furthest.filter(|_| options.strict)),
        steps,
    }
}

/// A check that is under way.
struct Walk<'a, R> {
    clock: &'a Clock<R>,
    /// Keeps the client from using a server before the servers were checked.
    barrier: Barrier,
    steps: Vec<Step>,
    on_step: &'a mut (dyn FnMut(&Step) + Send),
}

impl<R: Runtime + Clone> Walk<'_, R> {
    fn done(&mut self, step: Step) {
        (self.on_step)(&step);
        self.steps.push(step);
    }

    /// Goes through all stages. Returns the stage that failed if a client cannot use the
    /// deployment.
    async fn go(&mut self, text: &str, options: &CheckOptions) -> Result<(), Stage> {
        let client = self.client(text, options).await?;
        let (visits, left_out) = self.visit_all(client.options()).await;
        let result = self.use_deployment(&client, &visits, left_out).await;
        let _ = self.clock.within(Some(SHUTDOWN), client.shutdown()).await;
        result
    }

    /// Authenticates with the servers that a client would use, and uses the deployment as a client.
    /// `left_out` is the number of servers that were not visited.
    async fn use_deployment(
        &mut self,
        client: &Client<R>,
        visits: &[Visit],
        left_out: usize,
    ) -> Result<(), Stage> {
        let options = client.options();
        let is_authenticated = self.authenticate(client, visits).await;
        let failures = visits.iter().filter_map(|visit| visit.failure);
        let answered = visits.iter().any(|visit| visit.failure.is_none());
        let failure = match (answered, is_authenticated) {
            (true, true) => None,
            (true, false) => Some(Stage::Authentication),
            // A server that was not visited may work.
            (false, _) if left_out > 0 => None,
            (false, _) => Some(failures.max().unwrap_or(Stage::Topology)),
        };
        if let Some(stage) = failure {
            let mut step = Step::new(Stage::Topology, None);
            step.skip("no server can be used");
            self.done(step);
            return Err(stage);
        }
        let (mut step, topology) = discover(self.clock, client, &self.barrier, visits).await;
        if left_out > 0 {
            let message = format!("{left_out} servers were not checked one by one");
            step.warn(message, Vec::new());
        }
        let is_discovered = step.status != Status::Failed;
        self.done(step);
        if !is_discovered {
            return Err(Stage::Topology);
        }
        if options.credential.as_ref().is_none()
            && let Some(step) = read_without_user(self.clock, client).await
        {
            self.done(step);
            return Err(Stage::Authentication);
        }
        self.done(select_servers(&topology, options));
        self.done(settings::describe_settings(options));
        Ok(())
    }

    /// Authenticates with each server that the client uses, once it has checked the servers.
    /// Returns false if that failed everywhere.
    async fn authenticate(&mut self, client: &Client<R>, visits: &[Visit]) -> bool {
        let options = client.options();
        let Some(credential) = options.credential.as_ref() else {
            return true;
        };
        let limit = self.clock.left() / 4;
        let topology = settle(self.clock, client, &self.barrier, visits, limit).await;
        let clock = self.clock.part(2);
        let (servers, others) = authentication::split(&topology, visits);
        let steps = servers
            .iter()
            .map(|visit| authenticate(&clock, options, credential, visit));
        let steps = join_all(steps).await;
        let is_ok = steps.is_empty() || steps.iter().any(|step| step.status == Status::Ok);
        for step in steps.into_iter().chain(others) {
            self.done(step);
        }
        is_ok
    }

    /// Parses the connection string, looks up its seed list, and creates the client.
    async fn client(&mut self, text: &str, options: &CheckOptions) -> Result<Client<R>, Stage> {
        let clock = self.clock;
        let begun = clock.now();
        let mut step = Step::new(Stage::Parse, None);
        let monitoring = match R::RUNS_IN_BACKGROUND {
            true => Monitoring::Background,
            false => Monitoring::Scanning,
        };
        let parsed = uri::parse_for(text, monitoring).and_then(with_token_source);
        step.duration = clock.now() - begun;
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                let hints = [advice::not_parsed(&error), advice::not_built(&error)].concat();
                step.fail(error.to_string(), hints);
                self.done(step);
                return Err(Stage::Parse);
            }
        };
        let mut warnings = parsed.warnings.clone();
        warnings.extend(uri::ineffective_options(&parsed.options));
        warnings.extend(uri::unsafe_options(&parsed.options));
        warnings.extend(uri::costly_options(&parsed.options));
        settings::describe_uri(&mut step, &parsed.options);
        settings::add_warnings(&mut step, &warnings, options.strict);
        self.done(step);
        let mut own = parsed.into_options();
        if !R::RUNS_IN_BACKGROUND {
            own.server_selector = Some(self.barrier.selector());
        }
        let host = own.srv_host.clone();
        let mut builder = Client::builder(clock.runtime.clone(), own);
        if let Some(host) = host {
            let config = options.resolver_config.clone();
            let (step, resolved) = seeds::look_up(clock, builder, &host, config).await;
            self.done(step);
            builder = resolved.ok_or(Stage::Dns)?;
        }
        match builder.build() {
            Ok(client) => {
                self.warn_of_more(&client.warnings(), &warnings, options.strict);
                Ok(client)
            }
            Err(error) => {
                let stage = match error.kind() {
                    ErrorKind::Tls { .. } => Stage::Tls,
                    _ => Stage::Parse,
                };
                let mut step = Step::new(stage, None);
                step.fail(error.to_string(), advice::not_built(&error));
                self.done(step);
                Err(stage)
            }
        }
    }

    /// Adds a step with the warnings that came up after the connection string was parsed: those
    /// about the TXT record and about certificates.
    fn warn_of_more(&mut self, all: &[Warning], shown: &[Warning], strict: bool) {
        let mut step = Step::new(Stage::Parse, None);
        let more = all.iter().filter(|warning| !shown.contains(warning));
        settings::add_warnings(&mut step, more, strict);
        if !step.problems.is_empty() {
            self.done(step);
        }
    }

    /// Visits the seeds, and then the members that they announce, within half of the time that is
    /// left. Returns also the number of servers that were left out.
    async fn visit_all(&mut self, options: &ClientOptions) -> (Vec<Visit>, usize) {
        let clock = self.clock.part(2);
        let mut known = BTreeSet::new();
        let seeds = options.hosts().into_iter();
        let seeds = seeds.filter(|host| known.insert(host.clone()));
        let mut next: Vec<_> = seeds.map(|host| (host, Origin::Seed)).collect();
        let mut visits: Vec<Visit> = Vec::new();
        let mut left_out = 0;
        while !next.is_empty() {
            let room = MAX_SERVERS.saturating_sub(visits.len());
            left_out += next.len().saturating_sub(room);
            let round = next.into_iter().take(room);
            let round = round.map(|(address, origin)| visit(&clock, options, address, origin));
            for mut found in join_all(round).await {
                for step in std::mem::take(&mut found.steps) {
                    self.done(step);
                }
                visits.push(found);
            }
            next = match follows_members(options) {
                true => announced(options, &visits, &mut known),
                false => Vec::new(),
            };
        }
        (visits, left_out)
    }
}

/// True if a client with these options connects to the members that a replica set announces.
fn follows_members(options: &ClientOptions) -> bool {
    options.direct_connection != Some(true) && !options.load_balanced()
}

/// Returns the members that the wanted replica set announced and that are not known yet, and notes
/// them as known.
fn announced(
    options: &ClientOptions,
    visits: &[Visit],
    known: &mut BTreeSet<Address>,
) -> Vec<(Address, Origin)> {
    let mut found = Vec::new();
    for visit in visits {
        let Some(hello) = &visit.hello else { continue };
        let name = hello.description.set_name.as_deref();
        if options
            .repl_set_name
            .as_deref()
            .is_some_and(|wanted| name != Some(wanted))
        {
            continue;
        }
        for member in hello.description.members() {
            if known.insert(member.clone()) {
                let origin = Origin::Announced(visit.address.to_string());
                found.push((member.clone(), origin));
            }
        }
    }
    found
}

/// Fails if a source of OpenID Connect tokens is missing. A program could set a callback after
/// parsing, but the check has none.
fn with_token_source(parsed: ParsedUri) -> Result<ParsedUri, Error> {
    match &parsed.options.credential {
        Some(credential) if credential.mechanism == Some(AuthMechanism::MongoDbOidc) => {
            credential.validate().map(|()| parsed)
        }
        _ => Ok(parsed),
    }
}
