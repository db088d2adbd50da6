//! A run whose bytes in a snapshot are not those of its hash, met by every command of the binary:
//! none takes it for a run that is not there, and all say the same.

use plan_ledger::{Environment, Ledger};

use super::command::{Place, start, wait_until};
use super::snapshots::make_forged;

/// What looks at the run, or at any of its steps.
const LINES: &[&str] = &[
    "get v --run plan",
    "get v",
    "next",
    "next plan",
    "set v 1 --run plan",
    "set v 1",
    "claim",
    "claim plan --step a",
    "renew TOKEN",
    "release TOKEN",
    "receipt TOKEN",
    "receipt TOKEN --next",
    "effect key --token TOKEN",
    "work -- true",
    "work plan -- true",
    "accept plan b --by me",
    "reject plan plan --by me",
    "answer plan a yes --by me",
    "decide plan a retry",
    "retry plan a --by me",
    "retry plan --by me",
    "skip plan a --reason x",
    "note x --run plan",
    "note x --run plan --step a",
    "pause plan --by me",
    "resume plan --by me",
    "cancel plan --by me",
    "budget plan",
    "budget plan --tokens 5 --by me",
    "fork plan --step a --name n",
    "plan propose next.yaml --run plan",
    "plan propose plan.yaml",
    "plan add z --run plan",
    "plan history",
    "plan history plan",
    "plan review plan",
    "plan approve plan --by me",
    "plan reject plan --by me",
    "plan withdraw plan --by me",
    "questions",
    "status",
    "status --view operator",
    "run plan.yaml --stub",
    "inspect .ledger",
    "inspect .ledger plan plan",
    "inspect .ledger step plan #1",
    "inspect .ledger step plan a",
    "inspect .ledger queue",
    "inspect .ledger queue plan",
    "inspect .ledger variables plan",
    "inspect .ledger barriers plan",
    "inspect .ledger budget plan",
    "inspect .ledger approvals plan",
    "inspect .ledger cost plan",
    "inspect .ledger cost",
    "inspect .ledger metrics plan",
    "inspect .ledger view operator",
    "inspect .ledger why plan b",
    "inspect .ledger history plan a",
    "inspect .ledger timeline plan",
    "inspect .ledger graph plan",
    "inspect .ledger progress plan",
    "inspect .ledger records --run plan --step a",
];

/// A ledger with one run, a step of which is claimed, behind a snapshot that forges the run; and
/// the token of the claim.
fn forged() -> (Place, String) {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:\n  - {id: a, outputs: [v]}\n  - {id: b, after: [a], acceptance: [{text: it is good}]}\n",
    );
    place.write("next.yaml", "steps: [{id: a}, {id: b}, {id: c}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let claimed = place.ledger("claim --worker w --json").code(0);
    let line: serde_json::Value =
        serde_json::from_str(claimed.out.lines().last().unwrap()).unwrap();
    let token = line["token"].to_string();
    let (dir, environment) = (place.path(".ledger"), Environment::system());
    let (ledger, _) = Ledger::open(&dir, &environment).unwrap();
    make_forged(&ledger, &environment, &dir);
    ledger.close().unwrap();
    (place, token)
}

/// The lines that do not end with the exit code for damage, and how they end.
fn wrong(place: &Place, token: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in LINES {
        let line = line.replace("TOKEN", token);
        for form in ["", " --json"] {
            let line = match line.split_once(" -- ") {
                Some((before, after)) => format!("{before}{form} -- {after}"),
                None => format!("{line}{form}"),
            };
            let ended = place.ledger(&line);
            let code = ended.status.code();
            if code != Some(4) || !ended.err.contains("remove the files in `snap/`") {
                wrong.push(format!("{line}: {code:?}\n{}{}", ended.out, ended.err));
            }
        }
    }
    wrong
}

/// Goal: whoever asks for the run in any way is told of the damage and what to do, with the exit
/// code for it; nothing is written; and without the snapshot all is well.
#[test]
fn every_command_says_the_same_of_a_forged_run() {
    let (place, token) = forged();
    let root = place.ledger("root .ledger").code(0).out;
    assert_eq!(wrong(&place, &token), [""; 0]);
    assert_eq!(place.ledger("root .ledger").code(0).out, root, "something was written");
    std::fs::remove_dir_all(place.path(".ledger/snap")).unwrap();
    place.ledger("get v").code(0);
    place.ledger(&format!("receipt {token}")).code(0);
}

/// Goal: the same of whoever holds the ledger for others.
#[test]
fn whoever_serves_a_forged_run_says_so_to_everybody() {
    let (place, token) = forged();
    let root = place.ledger("root .ledger").code(0).out;
    let mut holder = start(&mut place.command(&["serve"]));
    wait_until("it serves", || holder.said("serving"));
    let mut wrong = wrong(&place, &token);
    // A runner wants the ledger for itself.
    wrong.retain(|line| !line.starts_with("run "));
    assert_eq!(wrong, [""; 0]);
    assert!(!holder.is_over());
    assert_eq!(place.ledger("root .ledger").code(0).out, root, "something was written");
    holder.kill();
}

/// Goal: a snapshot that is asked for does not carry the forged run on, whether or not anybody has
/// looked at it: it is made of what is older, and whoever opens the ledger next is well.
#[test]
fn a_snapshot_on_request_is_made_without_the_forged_one() {
    let (place, token) = forged();
    let said = place.ledger("snapshot .ledger").code(0).err;
    assert!(said.contains("the snapshot is not used"), "{said}");
    place.ledger("get v").code(0);
    place.ledger(&format!("receipt {token}")).code(0);
}
