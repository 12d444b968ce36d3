//! The graph of calls between the functions of some modules, and the cycles in it.
//!
//! Calls are found by the written types of fields, parameters, results and variables. A value that
//! comes from a collection, an option or a closure is taken to have every type of the modules that
//! the written type of the collection or option names. Calls that the compiler adds (`Drop`,
//! operators, `into`) are not followed.

mod body;
#[cfg(test)]
mod fixtures;
mod kinds;
mod names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::syntax::Module;
use body::Body;
use names::{Function, Names};

/// The type whose number of fields is printed.
const CLIENT: &str = "client::Client";

/// The functions of some modules and their calls.
pub(crate) struct Graph {
    /// The file and the label of each function, by number.
    functions: Vec<(String, String)>,
    /// The caller and the called function, once for each place of a call.
    calls: Vec<(usize, usize)>,
    /// Messages about calls that could not be followed.
    pub(crate) unclear: Vec<String>,
    files: usize,
    client_fields: usize,
}

impl Graph {
    pub(crate) fn of(modules: &[Module]) -> Self {
        let names = Names::of(modules);
        let files: BTreeSet<&str> = modules.iter().map(|module| module.file.as_str()).collect();
        let mut graph = Self {
            functions: Vec::new(),
            calls: Vec::new(),
            unclear: Vec::new(),
            files: files.len(),
            client_fields: names.field_count(CLIENT),
        };
        for (number, function) in names.functions.iter().enumerate() {
            let body = Body::of(&names, function);
            graph
                .calls
                .extend(body.calls.iter().map(|&to| (number, to)));
            let file = &function.module.file;
            let unclear = body.unclear.iter();
            graph.unclear.extend(unclear.map(|name| {
                let caller = &function.name;
                format!("{file}: `{caller}` calls `{name}` on a value whose type is not written")
            }));
            graph.functions.push((file.clone(), label(function)));
        }
        graph
    }

    fn next(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for &(from, to) in &self.calls {
            next.entry(from).or_default().insert(to);
        }
        next
    }

    /// Returns the groups of functions that reach each other. Each group is sorted and has its
    /// shortest cycle.
    pub(crate) fn cycles(&self) -> Vec<Cycle> {
        let next = self.next();
        let reached: Vec<BTreeSet<usize>> = (0..self.functions.len())
            .map(|from| {
                let mut reached = BTreeSet::new();
                let mut ahead = vec![from];
                while let Some(at) = ahead.pop() {
                    let new = next.get(&at).into_iter().flatten();
                    ahead.extend(new.filter(|&&to| reached.insert(to)));
                }
                reached
            })
            .collect();
        let mut groups = BTreeSet::new();
        for from in 0..self.functions.len() {
            if reached[from].contains(&from) {
                let both = |&to: &usize| reached[to].contains(&from);
                groups.insert(
                    reached[from]
                        .iter()
                        .copied()
                        .filter(both)
                        .collect::<Vec<_>>(),
                );
            }
        }
        let name = |at: &usize| self.functions[*at].1.clone();
        let cycle = |group: Vec<usize>| {
            let mut members: Vec<String> = group.iter().map(name).collect();
            members.sort();
            let shortest = group.iter().filter_map(|&from| way_around(&next, from));
            let shortest = shortest.min_by_key(Vec::len).unwrap_or_default();
            let shortest = shortest.iter().map(name).collect::<Vec<_>>();
            Cycle { members, shortest }
        };
        groups.into_iter().map(cycle).collect()
    }

    /// Returns lines about the size of the graph, to compare before and after a change.
    pub(crate) fn figures(&self) -> Vec<String> {
        let is_method = |(_, label): &&(String, String)| label.starts_with("Client::");
        let methods = self.functions.iter().filter(is_method).count();
        let between = self.between_files();
        let places: usize = between.values().sum();
        let mutual = between
            .keys()
            .filter(|&&(from, to)| from < to && between.contains_key(&(to, from)));
        let largest = self.cycles().iter().map(|cycle| cycle.members.len()).max();
        vec![
            format!("files: {}", self.files),
            format!("functions: {}", self.functions.len()),
            format!("fields of `Client`: {}", self.client_fields),
            format!("methods of `Client`: {methods}"),
            format!("calls: {}", self.calls.len()),
            format!(
                "calls from file to file: {places}, over {} pairs of files",
                between.len()
            ),
            format!("pairs of files that call each other: {}", mutual.count()),
            format!("cycles: {}", self.cycles().len()),
            format!("largest cycle: {} functions", largest.unwrap_or_default()),
        ]
    }

    /// Returns the number of calls from one file to another one, for each such pair of files.
    fn between_files(&self) -> BTreeMap<(&str, &str), usize> {
        let mut found = BTreeMap::new();
        for &(from, to) in &self.calls {
            let (from, to) = (&self.functions[from].0, &self.functions[to].0);
            if from != to {
                *found.entry((from.as_str(), to.as_str())).or_default() += 1;
            }
        }
        found
    }
}

/// A group of functions that reach each other, or one function that reaches itself.
pub(crate) struct Cycle {
    pub(crate) members: Vec<String>,
    /// The shortest path from one of the functions to itself.
    pub(crate) shortest: Vec<String>,
}

fn label(function: &Function<'_>) -> String {
    let owner = match &function.owner {
        Some(owner) => owner.rsplit("::").next(),
        None => function.module.name.last().map(String::as_str),
    };
    format!("{}::{}", owner.unwrap_or("crate"), function.name)
}

fn way_around(next: &BTreeMap<usize, BTreeSet<usize>>, from: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::new();
    let mut ahead = VecDeque::from([from]);
    while let Some(at) = ahead.pop_front() {
        for &to in next.get(&at).into_iter().flatten() {
            if to == from {
                let mut way = vec![from, at];
                while let Some(&earlier) = before.get(&way[way.len() - 1]) {
                    way.push(earlier);
                }
                way.reverse();
                return Some(way);
            }
            if to != from && !before.contains_key(&to) {
                before.insert(to, at);
                ahead.push_back(to);
            }
        }
    }
    None
}

/// Returns messages about calls that could not be followed, cycles that are not listed, and listed
/// groups that are no cycles.
pub(crate) fn unlisted(graph: &Graph, listed: &[&[&str]]) -> Vec<String> {
    let cycles = graph.cycles();
    let mut found = graph.unclear.clone();
    for cycle in &cycles {
        if !listed.iter().any(|members| *members == cycle.members) {
            let members = cycle.members.join(", ");
            let way = cycle.shortest.join(" -> ");
            found.push(format!(
                "functions that reach themselves: {members}; for one: {way}"
            ));
        }
    }
    for members in listed {
        if !cycles.iter().any(|cycle| cycle.members == **members) {
            let members = members.join(", ");
            found.push(format!("listed, but not what there is: {members}"));
        }
    }
    found
}
