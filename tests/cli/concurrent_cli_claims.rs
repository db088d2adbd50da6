//! Many shells, one ledger: exactly one winner for each step, and every loser is told who it is.
//!
//! Beside a holder there are 1,000 claims. Without one each claim opens the ledger, and there are
//! fewer, but `PLAN_LEDGER_RACE_CLAIMS=1000` has all of them, too.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::command::{Place, Running, json_lines, start, wait_until};

/// Shells at once.
const SHELLS: usize = 64;

/// Claims in all, over all shells.
fn claims(usual: usize) -> usize {
    std::env::var("PLAN_LEDGER_RACE_CLAIMS").map_or(usual, |text| text.parse().unwrap())
}

/// A run of so many steps that depend on nothing.
fn planned(steps: usize) -> Place {
    let place = Place::new();
    let steps: String = (1..=steps).map(|number| format!("  - {{id: s{number}}}\n")).collect();
    place.write("plan.yaml", format!("steps:\n{steps}"));
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place
}

fn holder(place: &Place) -> Running {
    let holder = start(&mut place.command(&["serve"]));
    wait_until("it serves", || holder.said("serving"));
    holder
}

/// A shell that claims steps from a list, one command each.
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

/// Each step is claimed by several shells at once; who wins it, and what the others are told.
fn race(place: &Place, steps: usize, rivals: usize) {
    // Shell k claims the steps of its group, in an order of its own.
    let groups = SHELLS / rivals;
    let list = |shell: usize| -> Vec<usize> {
        let mut own: Vec<usize> =
            (1..=steps).filter(|step| step % groups == shell % groups).collect();
        let turn = shell / groups % own.len().max(1);
        own.rotate_left(turn);
        own
    };
    let mut shells: Vec<Running> =
        (0..SHELLS).map(|k| start(&mut shell(place, &format!("shell-{k}"), &list(k)))).collect();
    // A thousand claims, each of which opens the ledger, take longer than one command may.
    while !shells.iter_mut().all(Running::is_over) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let args = ["claim".to_owned()];
    let mut winners: BTreeMap<u64, String> = BTreeMap::new();
    let mut told: Vec<(u64, String)> = Vec::new();
    let mut tokens = BTreeSet::new();
    for shell in shells {
        for line in json_lines(&args, &shell.end().code(0).out) {
            if line["kind"] == "locked" {
                // On a machine with much else to do, the turn may not come within the patience of
                // a command: it says that somebody has the ledger, by name unless that one is just
                // writing it down, and is asked again.
                assert!(line["message"].as_str().unwrap().contains("held by another"), "{line}");
                continue;
            }
            let worker = line["worker"].as_str().unwrap().to_owned();
            let number = line["number"].as_u64().unwrap();
            if line["type"] == "task" {
                assert!(winners.insert(number, worker).is_none(), "two winners: {line}");
                assert!(tokens.insert(line["token"].as_u64().unwrap()));
            } else {
                assert_eq!(line["rejection"], "held_by");
                assert!(line["lease_until_micros"].as_u64().is_some());
                told.push((number, worker));
            }
        }
    }
    assert_eq!(winners.len(), steps);
    assert_eq!(told.len(), steps * rivals - steps);
    for (number, worker) in told {
        assert_eq!(winners[&number], worker, "step {number}");
    }
    assert_eq!(place.state().in_flight.len(), steps);
}

/// Goal: one winner each, and losers that know who it is, where every command opens the ledger.
#[test]
fn sixty_four_shells_claim_without_a_holder() {
    let steps = claims(192) / 4;
    let place = planned(steps);
    race(&place, steps, 4);
}

/// Goal: the same through the socket of somebody who holds it.
#[test]
fn sixty_four_shells_claim_beside_a_holder() {
    let steps = claims(1000) / 4;
    let place = planned(steps);
    let holder = holder(&place);
    race(&place, steps, 4);
    holder.signal("TERM");
    holder.end().code(0);
    place.ledger("verify .ledger --level replay").code(0);
}
