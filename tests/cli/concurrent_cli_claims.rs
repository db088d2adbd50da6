//! Concurrent `ledger claim` commands from 64 shells: each step has one winner, and each loser is
//! told who it is.
//!
//! Each shell claims seven steps, and three without a server, where each command opens the ledger
//! itself. In CI, `PLAN_LEDGER_RACE_CLAIMS=1000` makes a thousand claims of both.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::command::{Place, Running, json_lines, start};

/// Concurrent shells.
const SHELLS: usize = 64;

/// Claims over all shells.
fn claims(usual: usize) -> usize {
    std::env::var("PLAN_LEDGER_RACE_CLAIMS").map_or(usual, |text| text.parse().unwrap())
}

/// A proposed run of independent steps.
fn planned(steps: usize) -> Place {
    let place = Place::new();
    let steps: String = (1..=steps).map(|number| format!("  - {{id: s{number}}}\n")).collect();
    place.write("plan.yaml", format!("steps:\n{steps}"));
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place
}

/// A shell that claims the steps of a list, one command each.
fn shell(place: &Place, name: &str, steps: &[usize]) -> Command {
    let words: Vec<String> = steps.iter().map(ToString::to_string).collect();
    let script = format!(
        "for n in {}; do code=5; \
         while test $code = 5; do {} claim --step s$n --worker {name} --json; code=$?; done; \
         case $code in 0|6) ;; *) exit $code;; esac; done",
        words.join(" "),
        env!("CARGO_BIN_EXE_ledger")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.path("")).stdin(Stdio::null());
    shell
}

/// Lets several shells claim each step at once, and checks winners and losers.
fn race(place: &Place, steps: usize, contenders: usize) {
    // Shell k claims the steps of its group, each shell of a group in another order.
    let groups = SHELLS / contenders;
    let list = |shell: usize| -> Vec<usize> {
        let mut own: Vec<usize> =
            (1..=steps).filter(|step| step % groups == shell % groups).collect();
        let offset = shell / groups % own.len().max(1);
        own.rotate_left(offset);
        own
    };
    let mut shells: Vec<Running> =
        (0..SHELLS).map(|k| start(&mut shell(place, &format!("shell-{k}"), &list(k)))).collect();
    // A thousand claims that open the ledger take longer than one command may.
    while !shells.iter_mut().all(Running::is_over) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let args = ["claim".to_owned()];
    let mut winners: BTreeMap<u64, String> = BTreeMap::new();
    let mut losers: Vec<(u64, String)> = Vec::new();
    let mut tokens = BTreeSet::new();
    for shell in shells {
        for line in json_lines(&args, &shell.end().code(0).out) {
            if line["kind"] == "locked" {
                // On a busy machine a command may give up waiting for the lock. It then reports
                // that the ledger is locked (by name, unless the lock holder is just writing its
                // name), and the shell tries again.
                assert!(line["message"].as_str().unwrap().contains("locked by another"), "{line}");
                continue;
            }
            let worker = line["worker"].as_str().unwrap().to_owned();
            let number = line["number"].as_u64().unwrap();
            if line["type"] == "task" {
                assert!(winners.insert(number, worker).is_none(), "two winners: {line}");
                assert!(tokens.insert(line["token"].as_str().unwrap().to_owned()));
            } else {
                assert_eq!(line["rejection"], "held_by");
                assert!(line["lease_until_micros"].as_u64().is_some());
                losers.push((number, worker));
            }
        }
    }
    assert_eq!(winners.len(), steps);
    assert_eq!(losers.len(), steps * contenders - steps);
    for (number, worker) in losers {
        assert_eq!(winners[&number], worker, "step {number}");
    }
    assert_eq!(place.state().in_flight.len(), steps);
}

/// Every command opens the ledger.
#[test]
fn claims_of_64_shells_without_a_server() {
    let steps = claims(192) / 4;
    let place = planned(steps);
    race(&place, steps, 4);
}

/// Every command goes through the socket of a server.
#[test]
fn claims_of_64_shells_through_a_server() {
    let steps = claims(448) / 4;
    let place = planned(steps);
    let server = place.serve();
    race(&place, steps, 4);
    server.dismiss();
    place.ledger("verify .ledger --level replay").code(0);
}
