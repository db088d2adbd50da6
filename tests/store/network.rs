//! Workers on other machines: `ledger work`, `claim` and `receipt` with `--server URL,URL` race for the steps of one
//! ledger, whose owner is replaced again and again. Each step has one winner, and each result is in the log once.
//!
//! `LEDGER_STORE_RACE_WORKERS` is the number of workers (4 by default), `LEDGER_STORE_RACE_TAKEOVERS` that of takeovers
//! (2 by default), and `LEDGER_STORE_SEED` the seed of the times between them.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::commands::expect_published;
use super::kill::{Acknowledged, Random, check, number};
use super::process::{OPERATOR, Place, Running, WORKER, ask, free_port, write_tokens};

/// More steps than the workers do in the time between two takeovers.
const STEPS_EACH: usize = 1000;

/// What a worker does: a little work, and an output that names its attempt.
const WORK: &str = "sleep 0.1; echo attempt-${LEDGER_TOKEN%%-*}";

/// Two machines that serve one ledger in turn.
struct Machines {
    place: Place,
    ports: [u16; 2],
}

impl Machines {
    fn new(plan: &str) -> Self {
        let place = Place::new();
        // A large plan begins a segment, and a log with an empty one cannot be bound (`format/store.md`, section 11).
        place.ledger("init --ledger @a");
        place.ledger("note begin --ledger @a --by race");
        place.plan("a", plan);
        write_tokens(&place.path("tokens"));
        Self { place, ports: [free_port(), free_port()] }
    }

    fn start(&self, machine: usize, more: &str) -> Running {
        let (folder, port) = (["a", "b"][machine], self.ports[machine]);
        self.place.start(&format!(
            "serve --ledger @{folder} --store URL --no-probe --token-file @tokens --http 127.0.0.1:{port}{more}"
        ))
    }

    /// Both addresses, this one first.
    fn servers(&self, first: usize) -> String {
        let [one, other] = [self.ports[first], self.ports[1 - first]];
        format!("http://127.0.0.1:{one},http://127.0.0.1:{other}")
    }

    /// A command of a worker. There is no ledger on its machine.
    fn command(&self, first: usize, token: &str, line: &str) -> Command {
        let mut command = self.place.command(line);
        command.env("LEDGER_SERVER", self.servers(first)).env("LEDGER_HTTP_TOKEN", token);
        command.env("LEDGER_DIR", self.place.path("none")).stdin(Stdio::null());
        command
    }

    fn run(&self, first: usize, token: &str, line: &str) -> (i32, Value) {
        let output = self.command(first, token, line).output().unwrap();
        (output.status.code().unwrap(), first_line(&output))
    }
}

/// The first line of JSON of a command; `null` without one.
fn first_line(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().next().map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
}

fn plan(steps: usize, races: usize) -> String {
    let steps: String = (0..steps).map(|step| format!("  - {{id: s{step}, goal: x}}\n")).collect();
    let races: String = (0..races)
        .map(|race| format!("  - {{id: race{race}, goal: x, owner: racers}}\n"))
        .collect();
    // A lease outlasts each takeover, so that no step is dispatched twice.
    format!("defaults: {{lease_seconds: 1200}}\nsteps:\n{races}{steps}")
}

/// Let all workers claim the same step at once. The winner reports on it.
fn race(machines: &Machines, race: usize, workers: usize, told: &mut Acknowledged) {
    let claims: Vec<_> = (0..workers)
        .map(|worker| {
            let line = format!("claim r --step race{race} --worker racer{worker} --json");
            let mut command = machines.command(worker % 2, WORKER, &line);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let answers: Vec<Output> =
        claims.into_iter().map(|claim| claim.wait_with_output().unwrap()).collect();
    let won = |output: &&Output| output.status.code() == Some(0);
    let err = || answers.iter().map(|it| String::from_utf8_lossy(&it.stderr)).collect::<String>();
    let winners: Vec<Value> = answers.iter().filter(won).map(first_line).collect();
    assert_eq!(winners.len(), 1, "step race{race} has one winner: {winners:?}\n{}", err());
    let winner = winners[0]["worker"].as_str().unwrap();
    for loser in answers.iter().filter(|it| !won(it)) {
        let line = first_line(loser);
        assert_eq!(
            (loser.status.code(), &line["rejection"]),
            (Some(6), &json!("held_by")),
            "{line}"
        );
        assert_eq!(line["worker"], winner);
    }
    let token = winners[0]["token"].as_str().unwrap();
    let seq: u64 = token.split('-').next().unwrap().parse().unwrap();
    assert_eq!(told.claims.insert(seq, winner.to_owned()), None, "attempt {seq} was given twice");
    let output = format!("race-{race}");
    let line = format!("receipt {token} --output {output} --json");
    let (code, line) = machines.run(race % 2, WORKER, &line);
    assert_eq!((code, &line["status"]), (0, &json!("accepted")), "{line}");
    assert_eq!(told.receipts.insert(output, seq), None);
}

/// What a worker printed: the attempts that it got, and the receipts that were recorded.
fn read_worker(out: &str, name: &str, told: &mut Acknowledged) {
    for line in out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        match line["type"].as_str().unwrap() {
            "task" => {
                let token = line["token"].as_str().unwrap();
                let seq: u64 = token.split('-').next().unwrap().parse().unwrap();
                let before = told.claims.insert(seq, name.to_owned());
                assert_eq!(before, None, "attempt {seq} was given twice");
            }
            "receipt" => {
                let seq = line["token"].as_u64().unwrap();
                let before = told.receipts.insert(format!("attempt-{seq}"), seq);
                assert_eq!(before, None, "the receipt of attempt {seq} was answered twice");
            }
            _ => {}
        }
    }
}

/// Goal: workers on other machines race for claims through many takeovers: each step has one winner, and no result is
/// lost or doubled.
#[test]
fn claims_race_over_the_network() {
    let workers = number("LEDGER_STORE_RACE_WORKERS", 4);
    let takeovers = number("LEDGER_STORE_RACE_TAKEOVERS", 2);
    let mut random = Random(u64::try_from(number("LEDGER_STORE_SEED", 39)).unwrap());
    let machines = Machines::new(&plan((takeovers + 1) * STEPS_EACH, takeovers + 1));
    let mut owner = machines.start(0, "");
    owner.wait_for("serving");
    let mut standby = machines.start(1, " --standby");
    let mut running: Vec<Running> = (0..workers)
        .map(|worker| {
            // The steps of the races are for other workers.
            let line = format!("work r --worker w{worker} --owner others --wait --json -- sh -c");
            let mut command = machines.command(worker % 2, WORKER, &line);
            command.arg(WORK);
            Running::start(&mut command)
        })
        .collect();
    let (mut told, mut machine, mut waits) = (Acknowledged::default(), 0, Vec::new());
    race(&machines, takeovers, workers, &mut told);
    for takeover in 0..takeovers {
        standby.wait_for("standing by");
        std::thread::sleep(Duration::from_millis(500 + random.below(1500)));
        let at = Instant::now();
        // Of three, one ends in order.
        if takeover % 3 == 1 {
            assert_eq!(owner.stop(), 0, "{}", owner.err());
        } else {
            owner.signal(Signal::KILL);
            owner.end();
        }
        // While no process holds the ledger.
        race(&machines, takeover, workers, &mut told);
        waits.push(at.elapsed());
        standby.wait_for("serving");
        let back = machines.start(machine, " --standby");
        (owner, standby, machine) = (standby, back, 1 - machine);
    }
    for worker in &running {
        worker.signal(Signal::INT);
    }
    for (name, worker) in running.iter_mut().enumerate() {
        // It finished its step. On a fast machine no work is left.
        let code = worker.end();
        assert!(code == 3 || code == 0, "{code}: {}\n{}", worker.out(), worker.err());
        read_worker(&worker.out(), &format!("w{name}"), &mut told);
    }
    standby.wait_for("standing by");
    assert_eq!(standby.stop(), 0, "{}", standby.err());
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    check(&machines.place, &told, 0);
    assert!(told.receipts.len() > takeovers + workers, "{} results", told.receipts.len());
    waits.sort();
    println!(
        "claims race: {workers} workers, {takeovers} takeovers, {} results, {} raced steps with one winner each; from the end of \
         an owner to the end of a race at most {:.1} s",
        told.receipts.len(),
        takeovers + 1,
        waits.last().copied().unwrap_or_default().as_secs_f64()
    );
}

/// Goal: an owner and a standby say what they are; a standby executes nothing, checks tokens, and names the owner.
#[test]
fn standby_sends_clients_to_the_owner() {
    let machines = Machines::new(&plan(3, 0));
    let mut owner = machines.start(0, " --http-host localhost");
    owner.wait_for("serving");
    let mut standby = machines.start(1, " --standby");
    standby.wait_for("standing by");
    let [port, other] = machines.ports;
    let until = Instant::now() + Duration::from_secs(60);
    let get = |port, path: &str, token: &str| {
        ask(port, token, &format!("GET {path}"), "key", &json!({})).unwrap()
    };
    // The first look at the hint of the owner comes a moment after it stands by.
    while get(other, "/v1/runs", WORKER).0 != 307 {
        assert!(Instant::now() < until, "{}", standby.err());
        std::thread::sleep(Duration::from_millis(20));
    }
    let health = |port| {
        let (status, body) = get(port, "/v1/health", "");
        assert_eq!(status, 200);
        let line: Value = serde_json::from_str(&body).unwrap();
        expect_published("serve.store_health", &line);
        line
    };
    let (first, second) = (health(port), health(other));
    assert_eq!((&first["role"], &second["role"]), (&json!("owner"), &json!("standby")));
    assert_eq!((&first["epoch"], &first["seq"]), (&second["epoch"], &second["seq"]));
    assert_eq!((&first["lag_records"], &second["lag_records"]), (&json!(0), &Value::Null));
    assert_eq!((&first["ack"], &first["url"]), (&json!("store"), &second["url"]));
    assert_eq!(
        (&first["owner"], &second["owner"]),
        (&Value::Null, &json!(format!("http://localhost:{port}")))
    );
    // `ledger status` says the same first, on either machine, while the processes run.
    for (folder, role) in [("a", "owner"), ("b", "standby")] {
        while !machines.place.path(folder).join("store-health.json").exists() {
            assert!(Instant::now() < until, "no health of {folder}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let line = machines.place.json(&format!("status @{folder} --json"));
        expect_published("status.store_health", &line);
        assert_eq!((&line["role"], &line["epoch"]), (&json!(role), &first["epoch"]));
        let text = machines.place.ledger(&format!("status @{folder}"));
        assert!(text.starts_with("the log is in "), "{text}");
    }
    // The metrics have their published names; a standby has none of the lag and of damage.
    let guide = include_str!("../../docs/src/reach.md");
    let rows = guide.lines().filter(|line| line.starts_with("| `plan_ledger_store_"));
    let published: BTreeSet<&str> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter_map(|name| name.split('{').next())
        .filter(|name| name.starts_with("plan_ledger_"))
        .collect();
    let served = |port| {
        let (status, text) = get(port, "/metrics", WORKER);
        assert_eq!(status, 200, "{text}");
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        names.filter(|name| name.contains("_store_")).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    assert_eq!(served(port).iter().map(String::as_str).collect::<BTreeSet<_>>(), published);
    assert_eq!(
        published.difference(&served(other).iter().map(String::as_str).collect()).count(),
        4
    );
    let (_, body) = get(other, "/v1/runs?at=2", WORKER);
    assert!(body.contains(&format!("http://localhost:{port}/v1/runs?at=2")), "{body}");
    assert_eq!(get(other, "/v1/ready", "").0, 503);
    assert_eq!(get(port, "/v1/ready", "").0, 200);
    assert_eq!(get(other, "/v1/runs", "a-foreign-token-1").0, 401);

    // The name of the owner is not in the list, and the address of another machine gets nothing: its own address is.
    let line = "claim r --worker w --json";
    let (code, task) = machines.run(1, WORKER, line);
    assert_eq!((code, &task["type"]), (0, &json!("task")), "{task}");
    let request = json!({ "act": "tick", "once": "tick" });
    let (_, body) = ask(port, OPERATOR, "POST /v1/requests", "tick", &request).unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["acked_by"], "store", "{answer}");
    let (code, refused) = machines.run(1, "a-foreign-token-1", line);
    assert_eq!((code, &refused["kind"]), (6, &json!("no_access")), "{refused}");
    // A step of a worker that has no right to pause the run, and no ledger on its machine.
    let token = task["token"].as_str().unwrap();
    for line in [
        format!("renew {token} --json"),
        format!("effect mail --token {token} --json"),
        "set region eu --run r --by w --json".to_owned(),
        "note hello --run r --by w --json".to_owned(),
        format!("receipt {token} --output done --next --json"),
    ] {
        let (code, answer) = machines.run(1, WORKER, &line);
        assert_eq!(code, 0, "{line}: {answer}");
    }
    let pid = machines.command(0, WORKER, "claim r --worker w --pid 1").output().unwrap();
    assert_eq!(pid.status.code(), Some(2), "{}", String::from_utf8_lossy(&pid.stderr));
    // A folder that is named counts more than the variable.
    let mut named = machines.command(0, WORKER, "note hello --run r --by w --ledger @none");
    assert_eq!(named.output().unwrap().status.code(), Some(2));

    // The same port serves the ledger after the takeover.
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    standby.wait_for("serving");
    let line = health(other);
    assert_eq!((&line["role"], &line["owner"]), (&json!("owner"), &Value::Null));
    assert!(line["epoch"].as_u64() > first["epoch"].as_u64(), "{line}");
    assert_eq!(get(other, "/v1/runs", WORKER).0, 200);
    let (code, task) = machines.run(0, WORKER, "claim r --worker v --json");
    assert_eq!((code, &task["type"]), (0, &json!("task")), "{task}");
    assert_eq!(standby.stop(), 0, "{}", standby.err());
}
