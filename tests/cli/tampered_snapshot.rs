//! A run whose bytes in a snapshot do not match its hash: every command reports the damage and how
//! to repair it, and none treats the run as missing.

use plan_ledger::{Environment, Ledger};

use super::command::Place;
use super::snapshots::make_forged;

/// Commands that read the run or one of its steps.
const COMMANDS: &[&str] = &[
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
    "unpause plan --by me",
    "cancel plan --by me",
    "budget plan",
    "budget plan --tokens 5 --by me",
    "fork plan --step a --name n",
    "plan propose next.yaml --run plan",
    "plan propose plan.yaml",
    "plan add z --run plan",
    "plan review plan",
    "plan approve plan --by me",
    "plan reject plan --by me",
    "plan withdraw plan --by me",
    "questions",
    "status",
    "status .ledger --run plan",
    "status --view operator",
    "run plan.yaml --stub",
    "inspect .ledger",
    "inspect .ledger plan plan",
    "inspect .ledger step plan #1",
    "inspect .ledger step plan a",
    "inspect .ledger queue",
    "inspect .ledger queue plan",
    "inspect .ledger variables plan",
    "inspect .ledger runs plan",
    "questions plan --decided",
    "inspect .ledger cost plan",
    "inspect .ledger cost",
    "inspect .ledger metrics plan",
    "status .ledger --view operator",
    "inspect .ledger why plan b",
    "inspect .ledger timeline plan",
    "inspect .ledger graph plan",
    "inspect .ledger progress plan",
    "inspect .ledger records --run plan --step a",
];

/// A ledger with one run, one claimed step, and a newer snapshot with a forged run; and the token
/// of the claim.
fn forged_ledger() -> (Place, String) {
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
    let token = line["token"].as_str().unwrap().to_owned();
    let (dir, environment) = (place.path(".ledger"), Environment::system());
    let (ledger, _) = Ledger::open_with(&dir, &environment).unwrap();
    make_forged(&ledger, &environment, &dir);
    ledger.close().unwrap();
    (place, token)
}

/// The commands that do not exit with the code for damage, with their output.
fn commands_without_damage(place: &Place, token: &str) -> Vec<String> {
    let mut commands_without_damage = Vec::new();
    for line in COMMANDS {
        let line = line.replace("TOKEN", token);
        for form in ["", " --json"] {
            let line = match line.split_once(" -- ") {
                Some((before, after)) => format!("{before}{form} -- {after}"),
                None => format!("{line}{form}"),
            };
            let ended = place.ledger(&line);
            let code = ended.status.code();
            if code != Some(4) || !ended.err.contains("remove the files in `snap/`") {
                commands_without_damage
                    .push(format!("{line}: {code:?}\n{}{}", ended.out, ended.err));
            }
        }
    }
    commands_without_damage
}

/// Every command exits with 4, names the damage and the repair, and writes nothing. Without the
/// snapshot all is well.
#[test]
fn every_command_reports_a_forged_run() {
    let (place, token) = forged_ledger();
    let root = place.ledger("root .ledger").code(0).out;
    assert_eq!(commands_without_damage(&place, &token), [""; 0]);
    assert_eq!(place.ledger("root .ledger").code(0).out, root, "a command wrote to the log");
    std::fs::remove_dir_all(place.path(".ledger/snap")).unwrap();
    place.ledger("status .ledger --run plan").code(0);
    place.ledger("get v").code(0);
    place.ledger(&format!("receipt {token}")).code(0);
}

/// The same through a server.
#[test]
fn server_reports_a_forged_run() {
    let (place, token) = forged_ledger();
    let root = place.ledger("root .ledger").code(0).out;
    let mut server = place.serve();
    let mut commands_without_damage = commands_without_damage(&place, &token);
    // `ledger run` needs the lock itself.
    commands_without_damage.retain(|line| !line.starts_with("run "));
    assert_eq!(commands_without_damage, [""; 0]);
    assert!(!server.is_over());
    assert_eq!(place.ledger("root .ledger").code(0).out, root, "a command wrote to the log");
    server.kill();
}

/// A new snapshot is made from older state than the forged one, and the ledger is usable again.
#[test]
fn requested_snapshot_ignores_the_forged_one() {
    let (place, token) = forged_ledger();
    let warnings = place.ledger("snapshot .ledger").code(0).err;
    assert!(warnings.contains("the snapshot is not used"), "{warnings}");
    place.ledger("get v").code(0);
    place.ledger(&format!("receipt {token}")).code(0);
}
