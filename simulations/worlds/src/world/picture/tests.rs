use super::*;
use crate::world::{Disaster, Scheduled, Span, Way, WorldOptions, run_seed};
use onionskin_core::{address::Address, event::PoolEvent};
use std::time::Duration;

/// Runs a replica set whose primary steps down and whose member 1 ends, with each way.
fn pages() -> impl Iterator<Item = String> {
    [Way::Core, Way::Runtime].into_iter().map(|way| {
        let mut options = WorldOptions::drawn(3).calm();
        (options.members, options.sharded, options.load_balanced) = (3, false, false);
        (options.safety, options.keep_picture) = (Duration::from_secs(20), true);
        let scheduled = |seconds, event| Scheduled {
            at: Span(Duration::from_secs(seconds)),
            event,
        };
        options.schedule = Some(vec![
            scheduled(5, Disaster::StepDown),
            scheduled(9, Disaster::Kill(1)),
            scheduled(14, Disaster::Restart(1)),
        ]);
        let report = run_seed(3, way, options);
        let replay = "onionskin simulate x --seeds 3";
        let title = "A </script><b>bold</b> title";
        report.page(title, Some(replay)).expect("it was kept")
    })
}

/// Returns the data within a page.
pub(crate) fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").expect("the data");
    let (data, _) = rest.split_once("</script>").expect("the end of the data");
    serde_json::from_str(data).expect("it is JSON")
}

#[test]
fn a_page_has_the_members_the_clients_and_the_disasters() {
    for page in pages() {
        let data = data(&page);
        assert_eq!(data["title"], "A </script><b>bold</b> title");
        let lanes = data["lanes"].as_array().expect("lanes");
        let spans = |group: &str, name: &str| {
            let is_it = |lane: &&serde_json::Value| lane["group"] == group && lane["name"] == name;
            let lane = lanes.iter().find(is_it).expect(name);
            lane["spans"].as_array().expect("spans").clone()
        };
        let kinds = |spans: &[serde_json::Value]| {
            let kinds = spans.iter().map(|span| span["kind"].as_str());
            kinds
                .map(|kind| kind.unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        let member = kinds(&spans("Deployment", "member1:27017"));
        assert!(member.contains(&"down".to_owned()), "{member:?}");
        assert_eq!(spans("Deployment", "member1:27017")[0]["from"], 0);
        let known = kinds(&spans("client 0", "server member1:27017"));
        assert!(known.contains(&"unknown".to_owned()), "{known:?}");
        assert!(known.contains(&"secondary".to_owned()), "{known:?}");
        let operations = spans("client 0", "operations");
        let found = kinds(&operations);
        for kind in ["selecting", "waiting", "exchanging", "succeeded"] {
            assert!(found.contains(&kind.to_owned()), "{kind}");
        }
        let end = data["end"].as_u64().expect("a time");
        for span in &operations {
            let time = |key: &str| span[key].as_u64().expect("a time");
            assert!(time("from") <= time("to") && time("to") <= end, "{span}");
        }
        let marks = data["marks"].as_array().expect("marks");
        let disasters = marks.iter().filter(|mark| mark["kind"] == "disaster");
        let times: Vec<_> = disasters.map(|mark| mark["at"].as_u64()).collect();
        assert!(times.contains(&Some(9_000_000)), "{times:?}");
        assert!(
            data["events"]
                .as_array()
                .is_some_and(|events| events.len() > 100)
        );
        assert!(data["failure"].is_null());
    }
}

#[test]
fn a_page_needs_no_other_file() {
    for page in pages() {
        let data = page.find("id=\"data\">").expect("the data");
        let end = data + page[data..].find("</script>").expect("the end of the data");
        let others = [&page[..data], &page[end..]].concat();
        for link in [
            "http:", "https:", "src=", "href=", "url(", "@import", "import(",
        ] {
            assert!(!others.contains(link), "{link}");
        }
        assert!(!others.contains("/*DATA*/"));
        // No text of the data ends the element that has the data.
        assert!(!page[data..end].contains('<'));
    }
}

#[test]
fn the_picture_does_not_change_the_run() {
    let run = |keep_picture| {
        let mut options = WorldOptions::drawn(5);
        options.safety = Duration::from_secs(5);
        options.keep_picture = keep_picture;
        run_seed(5, Way::Core, options).digest
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_picture_keeps_a_bounded_number_of_events() {
    let mut picture = Picture::default();
    for n in 0..MAX_EVENTS as u64 + 3 {
        let at = Instant::ZERO + Duration::from_micros(n);
        picture.mark(at, MarkKind::Fault, String::new());
    }
    let kept = (picture.marks.len(), picture.missing_events);
    assert_eq!(kept, (MAX_EVENTS, 3));
    assert_eq!(picture.marks[0].at, 3, "the end of the run is kept");
}

#[test]
fn dropped_events_end_what_they_may_have_ended() {
    let mut picture = Picture::default();
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let created = PoolEvent::ConnectionCreated {
        address: Address::tcp("a", 1),
        connection: 1,
    };
    picture.observe(at(1), 0, &EventKind::Pool(created));
    picture.observe(at(2), 0, &EventKind::Dropped { count: 9 });
    picture.finish(at(8));
    let heading = Heading {
        title: "",
        summary: "",
        replay: None,
        failure: None,
    };
    let data = data(&picture.page(heading, at(8)));
    let pool = &data["lanes"][0];
    assert_eq!(pool["name"], "pool a:1");
    assert_eq!(pool["spans"][0]["to"], 2_000_000);
}

#[test]
fn long_texts_are_cut() {
    assert_eq!(cut("ä".repeat(MAX_CHARS)).chars().count(), MAX_CHARS);
    assert!(cut("ä".repeat(MAX_CHARS + 1)).ends_with("ä…"));
}

#[test]
fn members_in_initial_sync_and_removed_ones_are_shown_as_others() {
    let others = MemberState::ALL.into_iter();
    let others = others.filter(|state| kind_of(*state) == SpanKind::Other);
    let names: Vec<&str> = others.map(MemberState::name).collect();
    assert_eq!(names, ["syncing", "removed"]);
}
