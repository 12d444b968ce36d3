//! Tests of the graph of calls: the calls that it finds, and code that is no call.

use super::{Graph, unlisted};
use crate::syntax::modules;

/// Returns the graph of the files `client/mod.rs` and `client/other.rs`.
fn graph(first: &str, other: &str) -> Graph {
    let first = format!("{HEAD}{first}");
    let files = [
        ("src/lib.rs", "pub mod client; pub mod pool;"),
        ("src/pool.rs", "pub struct Pool;"),
        ("src/client/mod.rs", first.as_str()),
        ("src/client/other.rs", other),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let mut modules = modules(&files.into(), "src/lib.rs");
    modules.retain(|module| module.name.first().is_some_and(|name| name == "client"));
    Graph::of(&modules)
}

/// Returns the cycles if `body` is the body of `Client::run`.
fn cycles(body: &str) -> Vec<Vec<String>> {
    let graph = graph(
        &format!("impl Client {{ fn run(&mut self) {{ {body} }} }} {MORE}"),
        OTHER,
    );
    assert!(graph.unclear.is_empty(), "{:?}", graph.unclear);
    let cycles = graph.cycles().into_iter();
    cycles.map(|cycle| cycle.members).collect()
}

/// The imports and types at the start of `client/mod.rs`.
const HEAD: &str = "mod other;
    use other::{A, Choice, free};
    use crate::pool::Pool;
    struct Client { a: A, pool: Pool, all: BTreeMap<u8, A>, boxed: Option<Box<Client>> }\n";

const OTHER: &str = "use super::Client;
    pub(super) struct A { n: u8 }
    pub(super) enum Choice { One(A), Two { a: A, client: Client }, Three }
    impl A {
        pub(super) fn run(&mut self) {}
        pub(super) fn get(&mut self, c: &mut Client) { c.run() }
    }
    pub(super) trait Part { fn part(&mut self, c: &mut Client); }
    impl Part for A { fn part(&mut self, c: &mut Client) { c.run() } }
    pub(super) fn free(client: &mut Client) { client.run() }\n";

/// More functions that some of the fixtures call.
const MORE: &str = "fn each<P: other::Part>(p: &mut P, c: &mut Client) { p.part(c) }
    impl Client {
        fn choice(&self) -> Choice { Choice::Three }
        fn made(&self) -> A { A { n: 1 } }
    }\n";

#[test]
fn a_function_that_calls_itself_is_found() {
    for text in [
        "self.run()",
        "Self::run(self)",
        "Client::run(self)",
        "crate::client::Client::run(self)",
        "if let Some(c) = &mut self.boxed { c.run() }",
        "self.boxed.as_mut().map(|c| c.run());",
        "self.boxed.as_mut().map(Self::run);",
        "assert!(matches!(self.run(), ()))",
        "let Self { boxed: Some(b), .. } = self else { return }; b.run()",
        "let f = |c: &mut Self| c.run(); f(self)",
        "let mut v = Vec::new(); v.push(self); for c in v { c.run() }",
        "let v: Vec<Self> = make(); v[0].run()",
        "match self.choice() { Choice::Two { client, .. } => client.run(), _ => {} }",
    ] {
        assert_eq!(cycles(text), [["Client::run"]], "{text}");
    }
    let free = "} } fn again(n: u8) { { again(n - 1)";
    assert_eq!(cycles(free), [["client::again"]]);
}

#[test]
fn functions_that_call_each_other_through_two_files_are_found() {
    for (text, other) in [
        ("free(self)", "other::free"),
        ("other::free(self)", "other::free"),
        ("self.a.get(self)", "A::get"),
        ("for a in self.all.values_mut() { a.get(self) }", "A::get"),
        (
            "let Some(a) = self.all.get_mut(&1) else { return }; a.get(self)",
            "A::get",
        ),
        ("self.all.remove(&1).unwrap().get(self)", "A::get"),
        ("self.made().get(self)", "A::get"),
        ("if let Choice::One(a) = choose() { a.get(self) }", "A::get"),
        ("self.a.part(self)", "A::part"),
        (
            "let p: &mut dyn other::Part = &mut self.a; p.part(self)",
            "A::part",
        ),
        ("each(&mut self.a, self)", "A::part"),
    ] {
        let found = cycles(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(&other.to_owned()), "{text}: {found:?}");
        assert!(
            found[0].contains(&"Client::run".to_owned()),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn methods_of_other_types_with_the_same_name_form_no_cycle() {
    for text in [
        "self.a.run()",
        "self.pool.run()",
        "A::run(&mut self.a)",
        "other_crate::run()",
        "let Self { pool, .. } = self; pool.run()",
        "let run = 1; take(run)",
        "let text = \"self.run()\"; println!(\"{}\", text)",
        "while let Some(x) = self.pool.next() { x.run() }",
        "for a in self.all.values_mut() { a.run() }",
        "match choose() { Choice::One(a) => a.run(), _ => {} }",
        "} #[cfg(test)] fn run_all(&mut self) { self.run_all()",
    ] {
        assert_eq!(cycles(text), Vec::<Vec<String>>::new(), "{text}");
    }
}

#[test]
fn a_call_on_a_value_of_unknown_type_is_reported() {
    let text = "impl Client { fn run(&mut self) { let f = |c| c.run(); f(self) } }";
    assert_eq!(graph(text, OTHER).unclear.len(), 1);
    let text = "impl Client { fn run(&mut self) { custom!(self => run()) } }";
    assert_eq!(graph(text, OTHER).unclear.len(), 1);
}

#[test]
fn unlisted_changed_and_obsolete_cycles_are_reported() {
    let text = "impl Client { fn run(&mut self) { free(self) } fn other(&self) { self.other() } }";
    let graph = graph(text, OTHER);
    let both: [&[&str]; 2] = [&["Client::run", "other::free"], &["Client::other"]];
    assert!(unlisted(&graph, &both).is_empty());
    let found = unlisted(&graph, &both[..1]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("Client::other -> Client::other"),
        "{found:?}"
    );
    let gone: [&[&str]; 3] = [both[0], both[1], &["Client::gone"]];
    assert_eq!(unlisted(&graph, &gone).len(), 1);
    // A list that lacks one function of a cycle does not match the cycle.
    let smaller: [&[&str]; 2] = [&["Client::run"], both[1]];
    assert_eq!(unlisted(&graph, &smaller).len(), 2);
}

#[test]
fn the_figures_count_files_fields_methods_and_calls() {
    let text = "impl Client { fn run(&mut self) { free(self); free(self) } fn more(&self) {} }";
    let figures = graph(text, OTHER).figures();
    for expected in [
        "files: 2",
        "fields of `Client`: 4",
        "methods of `Client`: 2",
        // `free` is called twice, and `run` is called from `free`, `get` and `part`.
        "calls from file to file: 5, over 2 pairs of files",
        "pairs of files that call each other: 1",
        "largest cycle: 2 functions",
    ] {
        assert!(figures.contains(&expected.to_owned()), "{figures:#?}");
    }
}
