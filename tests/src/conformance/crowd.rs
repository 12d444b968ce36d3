//! Many operations, few connections.

use super::{
    Host, at_rest, client, end, find,
    server::{Server, Step, answer},
    things, together,
};
use bson::doc;

/// Operations at once.
const TASKS: i32 = 2_000;

/// All of them complete, each with its own reply, over no more connections than there may be
/// (CMAP-1, CMAP-29, CMAP-36).
pub async fn thousands_of_tasks_share_few_connections<H: Host>() {
    let server = Server::plain::<H>();
    let client = client::<H>(&server.uri("maxPoolSize=4"));
    together::<H, _>((0..TASKS).map(|n| {
        let client = client.clone();
        async move { find(&client, n).await.expect("the reply to this question") }
    }))
    .await;
    assert_eq!(server.seen("find").len(), 2_000);
    let most = server.most_operating();
    assert!((1..=4).contains(&most), "{most} connections ran operations");
    assert!(server.accepted() <= 6, "{} connections", server.accepted());
    at_rest::<H>(&client).await;
    end::<H>(client, &server).await;
}

/// The same while connections break under them and callers leave.
pub async fn a_crowd_survives_broken_connections_and_leavers<H: Host>() {
    let server = Server::scripted::<H>(|request| match request.n() {
        Some(n) if n % 50 == 49 && request.name == "find" => vec![Step::Reset],
        _ => answer(request),
    });
    let client = client::<H>(&server.uri("maxPoolSize=4&retryReads=false"));
    together::<H, _>((0..200).map(|n| {
        let client = client.clone();
        async move {
            let things = things(&client);
            let mut stepper = super::Stepper::new(things.find_one(doc! { "n": n }));
            if n % 3 == 0 {
                // Leaves wherever it is by then.
                stepper.step().await;
                return;
            }
            let result = loop {
                if let Some(result) = stepper.step().await {
                    break result;
                }
                stepper.woken().await;
            };
            match result {
                Ok(found) => assert_eq!(found, Some(doc! { "n": n })),
                Err(error) => assert!(error.server().is_some() || n % 50 == 49, "{error:?}"),
            }
        }
    }))
    .await;
    at_rest::<H>(&client).await;
    find(&client, 1000).await.expect("all is well again");
    at_rest::<H>(&client).await;
    end::<H>(client, &server).await;
}
