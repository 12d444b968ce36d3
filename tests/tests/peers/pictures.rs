//! Pages with pictures of runs, drawn by Chromium.

use onionskin_core::time::Instant;
use onionskin_simulations::demo::{self, DemoOptions};
use onionskin_tests::peers::{Chromium, Scratch, chromium};
use onionskin_worlds::world::{
    Disaster, Failure, FailureKind, Report, Scheduled, Span, Way, WorldOptions, run_seed,
};
use std::{path::PathBuf, time::Duration};

/// A text that would run a script if it were not shown as text.
const HOSTILE: &str = "</script><img src=x onerror=\"throw 'run'\"> \u{202e}";

/// Runs a replica set whose primary steps down after 5 s, and says that the run has failed after
/// 6 s.
fn failed_run() -> Report {
    let mut options = WorldOptions::drawn(3).calm();
    (options.members, options.clients, options.tasks) = (3, 2, 4);
    (options.sharded, options.load_balanced) = (false, false);
    (options.safety, options.keep_picture) = (Duration::from_secs(20), true);
    options.schedule = Some(vec![Scheduled {
        at: Span(Duration::from_secs(5)),
        event: Disaster::StepDown,
    }]);
    let mut report = run_seed(3, Way::Core, options);
    let at = Instant::ZERO + Duration::from_secs(6);
    report.failure = Some(Failure::new(FailureKind::Correctness, at, HOSTILE));
    report
}

/// A page in a file, and a browser.
struct Opened {
    browser: Chromium,
    page: PathBuf,
    _scratch: Scratch,
}

impl Opened {
    /// Returns the page, or `None` without a browser.
    fn new(page: &str) -> Option<Self> {
        let browser = chromium()?;
        let scratch = Scratch::new().expect("a directory");
        let page = scratch.write("page.html", page).expect("a file");
        Some(Self {
            browser,
            page,
            _scratch: scratch,
        })
    }

    /// Returns the elements of the page. Asserts that it was drawn and that no script has failed.
    fn elements(&self, fragment: &str) -> String {
        let found = self.browser.elements(&self.page, fragment);
        let found = found.expect("the page is opened");
        let (root, _) = found.split_once("<head").expect("a head");
        assert!(root.contains("data-ready=\"true\""), "{root}");
        assert!(!root.contains("data-errors"), "{root}");
        found
    }
}

/// Returns the text of the element with this id, which has no other elements.
fn text<'a>(elements: &'a str, id: &str) -> &'a str {
    let (_, rest) = elements
        .split_once(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("no element {id}"));
    let (_, rest) = rest.split_once('>').expect("the end of a tag");
    rest.split_once('<').expect("the next tag").0
}

/// Returns a page with a script that runs once the lanes are drawn.
fn with_script(page: &str, script: &str) -> String {
    let (rest, end) = page.rsplit_once("</body>").expect("the end of the body");
    format!(
        r#"{rest}<script type="module">
const byId = (id) => document.getElementById(id);
function begin() {{
  if (byId("lanes").dataset.spans === undefined) {{
    setTimeout(begin, 20);
    return;
  }}
  {script}
}}
begin();
</script></body>{end}"#
    )
}

/// Returns the tag of the element with this id, and the part of the page from there to `end`.
fn part<'a>(elements: &'a str, id: &str, end: &str) -> (&'a str, &'a str) {
    let (_, rest) = elements
        .split_once(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("no element {id}"));
    let (tag, rest) = rest.split_once('>').expect("the end of a tag");
    (tag, rest.split_once(end).expect("the end of the part").0)
}

fn drawn_spans(elements: &str) -> u64 {
    let (_, rest) = elements.split_once("data-spans=\"").expect("a number");
    let (number, _) = rest.split_once('"').expect("the end of it");
    number.parse().expect("a number")
}

#[test]
fn chromium_draws_a_run_and_its_failure() {
    let report = failed_run();
    let page = report.page(HOSTILE, Some("onionskin simulate x --seeds 3"));
    let Some(opened) = Opened::new(&page.expect("it was kept")) else {
        return;
    };
    let whole = opened.elements("");
    assert!(drawn_spans(&whole) > 20, "{} spans", drawn_spans(&whole));
    assert!(text(&whole, "title").starts_with("&lt;/script&gt;&lt;img"));
    // The character that changes the direction of text is shown as an escape.
    assert!(text(&whole, "failure-text").ends_with("\\u{202e}"));
    assert!(text(&whole, "summary").contains("s of virtual time"));
    assert_eq!(
        text(&whole, "replay-command"),
        "onionskin simulate x --seeds 3"
    );
    for lane in [
        "member0:27017",
        "server member0:27017",
        "pool member0:27017",
        "operations",
    ] {
        assert!(whole.contains(&format!(">{lane}<")), "no lane {lane}");
    }
    assert!(!whole.contains("<img"), "a text has become an element");
}

#[test]
fn the_address_of_a_page_selects_a_time_and_a_text() {
    let report = failed_run();
    let page = report.page("run", None).expect("it was kept");
    let Some(opened) = Opened::new(&page) else {
        return;
    };
    let part = opened.elements("from=4900000&to=5600000&filter=steps");
    assert!(
        text(&part, "matches").contains("1 event match"),
        "{}",
        text(&part, "matches")
    );
    assert_ne!(text(&part, "window"), text(&opened.elements(""), "window"));
    let nothing = opened.elements("filter=nosuchtext");
    assert!(text(&nothing, "matches").starts_with("0 spans and 0 events"));
    // Values that are no times show the whole run.
    opened.elements("from=x&to=&selected=span:9999:1&collapsed=nothing");
}

#[test]
fn an_empty_run_is_drawn_and_a_screenshot_is_not_empty() {
    let mut report = failed_run();
    report.failure = None;
    report.picture = Some(Box::default());
    let Some(opened) = Opened::new(&report.page("nothing", None).expect("it was kept")) else {
        return;
    };
    opened.elements("");
    let page = failed_run().page("run", None).expect("it was kept");
    let opened = Opened::new(&page).expect("there was a browser");
    let picture = opened.browser.screenshot(&opened.page, "");
    let picture = picture.expect("a screenshot");
    assert!(picture.starts_with(b"\x89PNG"));
    // A page of one colour has a much smaller picture.
    assert!(picture.len() > 30_000, "{} bytes", picture.len());
}

#[test]
fn the_button_goes_to_the_failure() {
    let page = failed_run().page("run", None).expect("it was kept");
    let page = with_script(&page, r#"byId("go-to-failure").click();"#);
    let Some(opened) = Opened::new(&page) else {
        return;
    };
    let shown = opened.elements("");
    // Two seconds before the failure, and half a second after it.
    assert_eq!(text(&shown, "window"), "4.000 s to 6.500 s (2.500 s)");
    let (_, details) = part(&shown, "details", "</main>");
    assert!(details.contains(">failure<"), "{details}");
    assert!(details.contains("\\u{202e}"), "{details}");
}

#[test]
fn the_pointer_shows_what_is_below_it() {
    let page = failed_run().page("run", None).expect("it was kept");
    let scripts = [
        // The failure is at four fifths of the time window.
        (
            r#"byId("go-to-failure").click();
               const axis = byId("axis");
               const { left, top, width } = axis.getBoundingClientRect();
               const place = { clientX: left + 0.8 * width, clientY: top + 5 };
               axis.dispatchEvent(new PointerEvent("pointermove", place));"#,
            "failure at 6.000000 s",
        ),
        (
            r#"const lanes = byId("lanes");
               const { left, top, width, height } = lanes.getBoundingClientRect();
               for (let y = 2; y < height; y += 4) {
                 const place = { clientX: left + width / 2, clientY: top + y };
                 lanes.dispatchEvent(new PointerEvent("pointermove", place));
                 if (byId("tooltip").textContent.includes("Deployment, member0:27017")) break;
               }"#,
            "Deployment, member0:27017",
        ),
    ];
    for (script, wanted) in scripts {
        let Some(opened) = Opened::new(&with_script(&page, script)) else {
            return;
        };
        let elements = opened.elements("");
        let (tag, tooltip) = part(&elements, "tooltip", "<script");
        assert!(!tag.contains("hidden"), "{tag}");
        assert!(tooltip.contains(wanted), "{tooltip}");
        assert!(!tooltip.contains("<img"), "a text has become an element");
    }
}

#[test]
fn the_style_of_dark_systems_has_colours_of_its_own() {
    let light = failed_run().page("run", None).expect("it was kept");
    // The style applies to all systems, because that of the browser cannot be chosen.
    let dark = light.replace("@media (prefers-color-scheme: dark)", "@media all");
    assert!(light != dark, "the page has a style for dark systems");
    // Finds the colours of a primary in both styles.
    let script = r#"const lanes = byId("lanes");
        const { data } = lanes.getContext("2d").getImageData(0, 0, lanes.width, lanes.height);
        const has = (red, green, blue) => {
          for (let at = 0; at < data.length; at += 4) {
            if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) return true;
          }
          return false;
        };
        const found = document.documentElement.dataset;
        found.lightPrimary = has(0x00, 0x72, 0xb2);
        found.darkPrimary = has(0x2f, 0x8f, 0xd0);
        found.back = getComputedStyle(document.body).backgroundColor;"#;
    for (page, colours) in [
        (light, ["true", "false", "rgb(255, 255, 255)"]),
        (dark, ["false", "true", "rgb(21, 24, 29)"]),
    ] {
        let Some(opened) = Opened::new(&with_script(&page, script)) else {
            return;
        };
        let elements = opened.elements("");
        let names = ["light-primary", "dark-primary", "back"];
        for (name, colour) in names.into_iter().zip(colours) {
            let wanted = format!("data-{name}=\"{colour}\"");
            assert!(elements.contains(&wanted), "{wanted}");
        }
    }
}

#[tokio::test]
async fn chromium_draws_a_demonstration_on_sockets() {
    if chromium().is_none() {
        return;
    }
    let options = DemoOptions {
        tasks: 4,
        duration: Duration::from_secs(3),
        keep_picture: true,
        ..DemoOptions::default()
    };
    let report = demo::run(onionskin_tokio::TokioRuntime::default, "tokio", &options).await;
    let report = report.expect("it runs");
    let Some(opened) = Opened::new(report.page().expect("it was kept")) else {
        return;
    };
    let whole = opened.elements("");
    assert!(drawn_spans(&whole) > 20, "{} spans", drawn_spans(&whole));
    assert_eq!(text(&whole, "title"), "demonstration on tokio");
    assert!(text(&whole, "summary").contains("s of real time"));
    for word in [">server 127.0.0.1:", ">pool 127.0.0.1:", ">operations<"] {
        assert!(whole.contains(word), "no {word}");
    }
    let killed = opened.elements("filter=is+killed");
    assert!(
        text(&killed, "matches").contains("1 event match"),
        "{}",
        text(&killed, "matches")
    );
}
