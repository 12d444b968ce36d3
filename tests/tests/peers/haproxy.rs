//! Tests of each adapter behind two load balancers: that of the simulated deployment, and HAProxy,
//! which sends the header of the PROXY protocol to the services.

use crate::adapters::{Adapter, AsyncStd, Smol, Tokio};
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::{
    crud,
    peers::{self, ProxyProtocol, Scratch},
};

/// Runs the tests of [`crud`] and of [`crud::load_balanced`] with this connection string.
fn run<A: Adapter>(balancer: &str, uri: &str, deployment: &Embedded) {
    let name = format!("{balancer}, {}", A::NAME);
    A::block_on(crud::run::<A::R>(&name, uri));
    A::block_on(crud::load_balanced::run::<A::R>(&name, uri, deployment));
}

fn operations_succeed_behind_the_simulated_load_balancer<A: Adapter>() {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("starts");
    run::<A>("a load balancer", deployment.uri(), &deployment);
}

fn haproxy<A: Adapter>(protocol: ProxyProtocol) {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("starts");
    let services = deployment.addresses();
    let Some(balancer) = peers::haproxy(services, protocol).expect("starts") else {
        return;
    };
    let name = format!("HAProxy, {protocol:?}");
    run::<A>(&name, balancer.uri(), &deployment);
}

fn operations_succeed_behind_haproxy_with_proxy_protocol_v1<A: Adapter>() {
    haproxy::<A>(ProxyProtocol::Text);
}

fn operations_succeed_behind_haproxy_with_proxy_protocol_v2<A: Adapter>() {
    haproxy::<A>(ProxyProtocol::Binary);
}

/// HAProxy forwards the encrypted bytes after the header of the PROXY protocol.
fn operations_succeed_behind_haproxy_with_scram_and_tls<A: Adapter>() {
    let certificates = Scratch::new().expect("a directory");
    let mut options = ServeOptions::load_balanced(2);
    options.users.push(User::new("ada", "pencil"));
    options.tls = true;
    options.tls_directory = Some(certificates.path().to_owned());
    let deployment = Embedded::start(options).expect("starts");
    let services = deployment.addresses();
    let Some(balancer) = peers::haproxy(services, ProxyProtocol::Binary).expect("starts") else {
        return;
    };
    let (own, other) = (deployment.uri(), balancer.address().expect("an address"));
    let (before, after) = own.split_once('@').expect("a login");
    let (_, options) = after.split_once('/').expect("options");
    let uri = format!("{before}@{other}/{options}");
    run::<A>("HAProxy with login and TLS", &uri, &deployment);
}

/// Makes the tests of one adapter.
macro_rules! on {
    ($($module:ident: $adapter:ident),+ $(,)?) => {
        $(
            mod $module {
                use super::$adapter;

                #[test]
                fn operations_succeed_behind_the_simulated_load_balancer() {
                    super::operations_succeed_behind_the_simulated_load_balancer::<$adapter>();
                }

                #[test]
                fn operations_succeed_behind_haproxy_with_proxy_protocol_v1() {
                    super::operations_succeed_behind_haproxy_with_proxy_protocol_v1::<$adapter>();
                }

                #[test]
                fn operations_succeed_behind_haproxy_with_proxy_protocol_v2() {
                    super::operations_succeed_behind_haproxy_with_proxy_protocol_v2::<$adapter>();
                }

                #[test]
                fn operations_succeed_behind_haproxy_with_scram_and_tls() {
                    super::operations_succeed_behind_haproxy_with_scram_and_tls::<$adapter>();
                }
            }
        )+
    };
}

on!(on_tokio: Tokio, on_async_std: AsyncStd, on_smol: Smol);
