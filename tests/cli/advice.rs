//! Goal: each command that the program prints is accepted in the situation in which it was printed, and has the effect
//! that it names, or ends the situation; no hint leads back to itself, and an agent session is shown no command that it
//! is refused.
//!
//! Method: stories and random histories leave a ledger in some situation. There, all interfaces that print commands
//! are asked, and commands that are typically refused are typed. Each printed command is executed in a copy of the
//! situation, and so are the commands that it prints, to a depth of three.
//!
//! `PLAN_LEDGER_ADVICE='a fork'` explores only that story, and `PLAN_LEDGER_ADVICE='seed 17'` that random history.

mod cases;
mod effects;
mod explorer;
mod interfaces;
mod printed;
mod stories;

use plan_ledger::internals::sim::sweep;
use plan_ledger::plan::{Command, Limits};
use plan_ledger::{Environment, Ledger};

use crate::command::Place;
use crate::random_commands::play;
use crate::time_travel::ignore_rejection;

use explorer::{Asked, Explorer};
use stories::{STORIES, Situation, Story};

pub(crate) use stories::{archived, flip_head, flip_header, flip_record, remove_head};

/// Explores a situation as a person, and where that is possible as an agent.
fn faults_of(name: &str, asked: Asked, make: fn() -> Situation) -> Vec<String> {
    let of = |is_agent: bool| {
        let situation = make();
        if is_agent && !situation.is_for_agents {
            return Vec::new();
        }
        let reader = if is_agent { "agent" } else { "person" };
        let mut explorer = Explorer::new(&situation, is_agent, asked);
        explorer.explore();
        let faults = explorer.faults.into_iter();
        faults.map(|fault| format!("{name}, {reader}: {fault}")).collect()
    };
    [of(false), of(true)].concat()
}

/// Explores situations with as many threads as there are processors.
fn all_faults<T: Copy + Send + Sync>(
    of: &[T],
    explore: impl Fn(T) -> Vec<String> + Sync,
) -> Vec<String> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let found = std::sync::Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(one) =
                    of.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let faults = explore(*one);
                    found.lock().unwrap().extend(faults);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// Whether a story or a random history is explored: it is the one that is asked for, or none is.
fn is_chosen(name: &str, is_included: bool) -> bool {
    std::env::var("PLAN_LEDGER_ADVICE").map_or(is_included, |chosen| chosen == name)
}

#[test]
fn sweep_printed_commands_are_accepted_and_have_their_effect() {
    let asked = sweep(Asked::Few, Asked::Few, Asked::All);
    let is_included = |story: &&Story| is_chosen(story.name, sweep(story.is_sample, true, true));
    let stories: Vec<_> = STORIES.iter().filter(is_included).collect();
    let faults = all_faults(&stories, |story| faults_of(story.name, asked, story.make));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// A random history in which most commands are rejected.
fn random(seed: u64) -> Situation {
    let place = Place::new();
    let ledger = Ledger::create(&place.path(".ledger"), &Environment::system()).unwrap();
    play(&ledger, seed, 20 + 10 * (seed % 9));
    // A limit of seconds would be reached between the print of a command and its execution.
    let state = ledger.state().unwrap();
    let limited = state.runs.values().filter(|run| run.limits().wall_seconds.is_some());
    for run in limited {
        let limits = Some(Limits { wall_seconds: Some(86_400), ..run.limits() });
        let raise = Command::SetBudget { run: Some(run.id), limits, by: "ann".to_owned() };
        ignore_rejection(ledger.execute(&raise).map(drop));
    }
    drop(state);
    ledger.close().unwrap();
    place.write("plan.yaml", "steps: [{id: s0, command: 'true'}, {id: s9, command: 'true'}]");
    Situation::of(place)
}

/// The seeds that can be asked for.
const SEEDS: u64 = 10_000;

#[test]
fn sweep_printed_commands_of_random_runs_are_accepted() {
    let is_included = |seed: &u64| is_chosen(&format!("seed {seed}"), *seed < sweep(1, 15, 40));
    let seeds: Vec<u64> = (0..SEEDS).filter(is_included).collect();
    let faults = all_faults(&seeds, |seed| {
        let situation = random(seed);
        let mut explorer = Explorer::new(&situation, seed % 4 == 3, Asked::Few);
        explorer.explore();
        explorer.faults.into_iter().map(|fault| format!("seed {seed}: {fault}")).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
