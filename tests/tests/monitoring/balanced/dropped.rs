//! Cursors that are dropped behind a load balancer, where no monitor checks the servers.

use super::cursors::{open_cursor, three_documents};
use crate::scene::{balanced_alone, play};
use bson::doc;

#[test]
fn the_connection_of_a_dropped_cursor_is_checked_in_even_if_kill_cursors_hangs() {
    // The connection is checked in even if `killCursors` fails (LB-35). No monitor notices that the
    // service hangs. So without a time limit of `killCursors`, the connection would stay checked
    // out, and the client could not close.
    play([balanced_alone()], |scene| async move {
        three_documents(&scene).await;
        let watched = scene.client("");
        let cursor = open_cursor(&watched).await;
        assert_eq!(watched.client.counts().in_use, 1);
        let data = doc! {
            "failCommands": ["killCursors"], "blockConnection": true, "blockTimeMS": 3_600_000,
        };
        scene.fail(0, doc! { "times": 1 }, data).await;
        drop(cursor);
        scene.pause(20_000).await;
        assert_eq!(watched.client.counts().in_use, 0);
        watched.end().await;
    });
}
