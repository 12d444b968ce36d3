//! Tests of the turns of hosts.

use super::*;

const LIMITS: TurnLimits = TurnLimits {
    all: 4,
    unanswered: 3,
    strangers: 3,
};

impl Turns {
    /// Requests a turn. Returns true if it is granted at once.
    fn try_now(&mut self, now: Instant, host: &str) -> bool {
        let id = self.ask(now, host);
        self.is_granted(id)
    }

    fn ask(&mut self, now: Instant, host: &str) -> TurnId {
        self.request(now, host, false)
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[test]
fn turns_are_granted_in_order_up_to_the_limit() {
    let mut turns = Turns::new(LIMITS);
    let ids: Vec<_> = (0..5).map(|n| turns.ask(at(0), &n.to_string())).collect();
    let granted: Vec<_> = ids.iter().map(|id| turns.is_granted(*id)).collect();
    assert_eq!(granted, [true, true, true, false, false]);
    assert_eq!(turns.poll_granted(), None, "nothing has waited");
    turns.end(at(0), ids[1], Some(false));
    assert_eq!(turns.poll_granted(), Some(ids[3]));
    // A request that is withdrawn is skipped, and a late or double end changes nothing.
    turns.end(at(0), ids[4], None);
    turns.end(at(0), ids[1], Some(true));
    turns.end(at(0), ids[0], Some(false));
    assert_eq!(turns.poll_granted(), None);
    assert!(turns.try_now(at(0), "next"));
}

#[test]
fn hosts_that_never_answer_do_not_delay_one_that_has() {
    let mut turns = Turns::new(LIMITS);
    let good = turns.ask(at(0), "good");
    turns.end(at(1), good, Some(true));
    let bad: Vec<_> = (0..250).map(|n| turns.ask(at(2), &n.to_string())).collect();
    let good = turns.ask(at(3), "good");
    assert!(turns.is_granted(good), "a turn is reserved");
    let again = turns.ask(at(3), "good");
    assert!(!turns.is_granted(again));
    turns.end(at(4), bad[0], Some(false));
    assert_eq!(turns.poll_granted(), Some(again), "it goes first");
}

#[test]
fn a_host_that_stops_to_answer_loses_its_precedence() {
    for (answered, ended, keeps) in [
        (Some(false), 1, false),
        (None, 999, true),
        (None, 1000, false),
        (Some(true), 5000, true),
    ] {
        let mut turns = Turns::new(LIMITS);
        let first = turns.ask(at(0), "host");
        turns.end(at(0), first, Some(true));
        let second = turns.ask(at(0), "host");
        turns.end(at(ended), second, answered);
        let others: Vec<_> = (0..3).map(|n| turns.ask(at(0), &n.to_string())).collect();
        assert!(others.iter().all(|id| turns.is_granted(*id)));
        let third = turns.ask(at(0), "host");
        assert_eq!(turns.is_granted(third), keeps, "{answered:?} {ended}");
    }
}

#[test]
fn the_host_whose_last_turn_is_the_longest_ago_goes_first() {
    let mut turns = Turns::new(LIMITS);
    let mut served = [0; 20];
    let mut running: VecDeque<(usize, TurnId)> = VecDeque::new();
    // All hosts but the running ones ask again and again, and withdraw before their turn.
    for round in 0..200 {
        let ids: Vec<_> = (0..20)
            .map(|host| (host, turns.ask(at(round), &host.to_string())))
            .collect();
        if let Some((_, id)) = running.pop_front() {
            turns.end(at(round), id, Some(false));
        }
        for (host, id) in ids {
            if turns.is_granted(id) {
                served[host] += 1;
                running.push_back((host, id));
            } else {
                turns.end(at(round), id, None);
            }
        }
    }
    let (least, most) = (served.iter().min(), served.iter().max());
    assert!(least >= Some(&9) && most <= Some(&12), "{served:?}");
}

#[test]
fn new_names_do_not_push_a_host_back_that_has_failed() {
    let mut turns = Turns::new(LIMITS);
    let host = turns.ask(at(0), "host");
    turns.end(at(0), host, Some(false));
    let mut running: VecDeque<_> = (0..3)
        .map(|n| turns.request(at(0), &format!("first{n}"), true))
        .collect();
    let host = turns.ask(at(0), "host");
    for n in 0..100 {
        let new = turns.request(at(0), &format!("new{n}"), true);
        let ended = running.pop_front().expect("a turn");
        turns.end(at(0), ended, Some(false));
        if turns.is_granted(host) {
            return;
        }
        assert!(turns.is_granted(new));
        running.push_back(new);
    }
    panic!("it never has a turn");
}

#[test]
fn strangers_leave_turns_to_other_hosts() {
    let mut turns = Turns::new(TurnLimits {
        strangers: 2,
        ..LIMITS
    });
    let strangers: Vec<_> = (0..9)
        .map(|n| turns.request(at(0), &n.to_string(), true))
        .collect();
    let granted = strangers.iter().filter(|id| turns.is_granted(**id));
    assert_eq!(granted.count(), 2);
    assert!(turns.try_now(at(0), "seed"), "a turn is reserved");
    // Abandoned work keeps its turn until it ends.
    let other = turns.ask(at(0), "other");
    assert!(!turns.is_granted(other));
    turns.end(at(0), strangers[0], None);
    assert_eq!(
        turns.poll_granted(),
        Some(strangers[2]),
        "it has waited longer"
    );
    turns.end(at(0), strangers[1], None);
    assert_eq!(
        turns.poll_granted(),
        Some(strangers[3]),
        "it has waited longer"
    );
    for id in &strangers[4..] {
        turns.end(at(0), *id, None);
    }
    turns.end(at(0), strangers[2], None);
    assert_eq!(turns.poll_granted(), Some(other));
}

#[test]
fn the_number_of_remembered_hosts_is_bounded() {
    let mut turns = Turns::new(LIMITS);
    for n in 0..3 * MAX_REMEMBERED {
        let id = turns.ask(at(0), &n.to_string());
        turns.end(at(0), id, Some(true));
        if n % 2 == 0 {
            let id = turns.ask(at(0), &n.to_string());
            turns.end(at(0), id, Some(false));
        }
    }
    assert!(turns.order.len() <= MAX_REMEMBERED && turns.answered.len() <= MAX_REMEMBERED);
    assert!(turns.since.len() == turns.hosts.len() && turns.since.len() <= MAX_REMEMBERED);
    assert!(
        turns
            .answered
            .contains(&*(3 * MAX_REMEMBERED - 1).to_string())
    );
    assert!(turns.running.is_empty() && turns.unanswered == 0);
}

#[test]
fn a_fork_ends_all_turns_but_not_the_precedence() {
    let mut turns = Turns::new(LIMITS);
    let ids: Vec<_> = (0..9).map(|n| turns.ask(at(0), &n.to_string())).collect();
    turns.end(at(0), ids[0], Some(true));
    turns.handle_forked();
    assert!(ids.iter().all(|id| !turns.is_granted(*id)));
    // The ends of turns from before the fork change nothing.
    turns.end(at(9000), ids[1], Some(false));
    let others: Vec<_> = (10..13).map(|n| turns.ask(at(0), &n.to_string())).collect();
    assert!(others.iter().all(|id| turns.is_granted(*id)));
    assert!(turns.try_now(at(0), "0"));
}
