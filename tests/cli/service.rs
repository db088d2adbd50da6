//! Goal: a unit of `ledger setup service` resumes a run after a kill of everything, in an environment of
//! its own; it starts nothing else, holds no key, and gives up in the end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::command::{Ended, Place, Running, report_skipped, start, wait_until};
use super::limits_of_agents::hours_around_now;

/// The first step waits while there is a file `hold`.
const PLAN: &str = "
steps:
  - { id: one, goal: One, retry: { max_attempts: 9 }, command: 'echo one >> \"$PWD/begun\"; while test -e hold; do sleep 0.05; done' }
  - { id: two, after: [one], goal: Two, command: 'echo \"$COLOR\" > two' }
";

const KEY: &str = "sk-of-a-test";

/// A run whose runner and worker were killed in the first step.
fn killed() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("config")).unwrap();
    place.write("plan.yaml", PLAN);
    place.write("hold", "");
    let mut command = command(&place, "run plan.yaml --yes");
    kill_all(&place, start(&mut command));
    place
}

/// Kills the runner when its worker has begun, and the worker as well.
fn kill_all(place: &Place, runner: Running) {
    let before = place.read("begun").lines().count();
    wait_until("the worker begins", || place.read("begun").lines().count() > before);
    runner.kill();
    // The worker ends when its step no longer waits, and its runner is gone: its result is recorded at the
    // next start. To lose it as in a reboot, all processes in this folder are killed.
    let folder = place.path("").canonicalize().unwrap();
    let in_folder = |id: &PathBuf| fs::read_link(id.join("cwd")).is_ok_and(|cwd| cwd == folder);
    let processes = || {
        let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        entries.filter(in_folder).collect::<Vec<_>>()
    };
    wait_until("all processes are gone", || {
        for process in processes() {
            let id = process.file_name().unwrap().to_owned();
            let _ = Command::new("kill").arg("-9").arg(id).output();
        }
        processes().is_empty()
    });
}

fn command(place: &Place, line: &str) -> Command {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = place.command(&words);
    command.env("XDG_STATE_HOME", place.path("state")).env("XDG_CONFIG_HOME", place.path("config"));
    command.env("SOME_API_KEY", KEY);
    command
}

fn ledger(place: &Place, line: &str) -> Ended {
    start(&mut command(place, line)).end()
}

/// The unit of the run.
fn unit(place: &Place) -> String {
    fs::read_to_string(unit_path(place)).unwrap()
}

fn unit_path(place: &Place) -> PathBuf {
    let line = ledger(place, "setup service --check --json").lines()[0].clone();
    PathBuf::from(line["unit"].as_str().unwrap())
}

/// The command that the unit starts, in the environment that the unit describes.
fn unit_command(place: &Place) -> Command {
    let unit = unit(place);
    let value = |name: &str| {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let words = value("ExecStart").remove(0);
    let words: Vec<&str> = words.trim_matches('"').split("\" \"").collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear().current_dir(value("WorkingDirectory").remove(0));
    // A seeded bug is in the unit's program, too.
    let is_of_mutant = |name: &str| name.starts_with("PLAN_LEDGER_MUTANT");
    command.envs(std::env::vars().filter(|(name, _)| is_of_mutant(name)));
    for pair in value("Environment") {
        let (name, value) = pair.trim_matches('"').split_once('=').unwrap();
        command.env(name, value);
    }
    for file in value("EnvironmentFile") {
        for line in fs::read_to_string(file.trim_start_matches('-')).unwrap().lines() {
            if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                command.env(name, value);
            }
        }
    }
    command
}

#[test]
fn unit_resumes_the_run_in_an_empty_environment_after_a_kill_of_everything() {
    let place = killed();
    let set = ledger(&place, "setup service --json").code(0).lines()[0].clone();
    assert_eq!(set["action"], "created");
    let keys = PathBuf::from(set["environment_file"].as_str().unwrap());
    let mut text = fs::read_to_string(&keys).unwrap();
    text.push_str("COLOR=green\n");
    fs::write(&keys, text).unwrap();
    fs::remove_file(place.path("hold")).unwrap();
    start(&mut unit_command(&place)).end().code(0);
    assert_eq!(place.read("two"), "green\n");
    // When the run is done, a start is no error.
    start(&mut unit_command(&place)).end().code(0);
    let removed = ledger(&place, "setup service --remove").code(0);
    assert!(removed.out.contains("deleted"), "{removed:?}");
}

#[test]
fn unit_is_valid_and_has_no_key() {
    let place = killed();
    let set = ledger(&place, "setup service").code(0).says(&["SOME_API_KEY", "enable"]);
    assert!(!set.out.contains(KEY));
    assert!(!unit(&place).contains(KEY));
    let line = ledger(&place, "setup service --check --json").code(1).lines()[0].clone();
    assert_eq!(
        (line["action"].as_str(), line["is_complete"].as_bool()),
        (Some("unchanged"), Some(false))
    );
    let keys = PathBuf::from(line["environment_file"].as_str().unwrap());
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    ledger(&place, "setup service --check").code(1).says(&["chmod 600"]);
    let path = unit_path(&place);
    let analyze = Command::new("systemd-analyze")
        .args(["verify", "--user"])
        .arg(&path)
        .env("XDG_RUNTIME_DIR", place.path("config"))
        .output();
    match analyze {
        Err(_) => report_skipped("systemd-analyze is not installed: no unit is verified"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.is_empty(), "{text}");
        }
    }
    fs::write(&path, "[Unit]\n").unwrap();
    ledger(&place, "setup service").code(2).complains(&["did not write it"]);
    ledger(&place, "setup service --remove").code(2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "[Unit]\n");
}

#[test]
fn unit_starts_nothing_but_what_is_recorded() {
    let place = killed();
    ledger(&place, "setup service").code(0);
    // Another command line is recorded by now.
    let mut other = command(&place, "run plan.yaml --yes --max-parallel 2 --kill-orphans");
    kill_all(&place, start(&mut other));
    // What is started nevertheless ends at once.
    fs::remove_file(place.path("hold")).unwrap();
    start(&mut unit_command(&place)).end().code(6).complains(&["another command line"]);
    ledger(&place, "setup service").code(0).says(&["changed"]);
    // A ledger that was moved: the unit does not find it, and starts nothing in the new place.
    let mut unit = unit_command(&place);
    fs::rename(place.path(".ledger"), place.path("moved")).unwrap();
    start(&mut unit).end().code(2);
    fs::rename(place.path("moved"), place.path(".ledger")).unwrap();
    let mut agent = command(&place, "setup service");
    agent.env("CLAUDECODE", "1").env("AI_AGENT", "claude-code_agent");
    start(&mut agent).end().code(6);
}

#[test]
fn service_gives_up_after_three_starts_without_a_finished_step() {
    let place = killed();
    ledger(&place, "setup service").code(0);
    for _ in 0..3 {
        kill_all(&place, start(&mut unit_command(&place)));
    }
    start(&mut unit_command(&place)).end().code(6).complains(&["gives up", "ledger resume"]);
    // A person begins a new count.
    kill_all(&place, start(&mut command(&place, "resume")));
    kill_all(&place, start(&mut unit_command(&place)));
}

/// By day a runner with hours only waits: however often the machine reboots, the service does not give up.
#[test]
fn start_that_only_waits_does_not_count() {
    let place = Place::new();
    fs::create_dir(place.path("config")).unwrap();
    place.write("plan.yaml", PLAN);
    let run = format!("run plan.yaml --yes --hours {}", hours_around_now(-120, 180));
    let wait = |mut command: Command| {
        let waiting = start(command.env("TZ", "UTC"));
        wait_until("it waits for its hours", || waiting.complained("work starts then (--hours)"));
        waiting.kill();
    };
    wait(command(&place, &run));
    ledger(&place, "setup service").code(0);
    for _ in 0..5 {
        wait(unit_command(&place));
    }
    assert_eq!(place.read("begun"), "", "no step was begun");
}

/// In a mount namespace of its own, `cron` starts the line as after a boot.
#[test]
fn line_for_cron_resumes_the_run_at_a_reboot() {
    let place = killed();
    let line = ledger(&place, "setup service --json").code(0).lines()[0].clone();
    fs::remove_file(place.path("hold")).unwrap();
    place.write("crontab", format!("SHELL=/bin/sh\n{}\n", line["cron"].as_str().unwrap()));
    let script = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc/cron.d &&
        mount --bind /dev/null /etc/crontab && mount -t tmpfs tmpfs /var/spool/cron || exit 77
        mkdir /var/spool/cron/crontabs && cp crontab /var/spool/cron/crontabs/root &&
        chmod 600 /var/spool/cron/crontabs/root && exec cron -f";
    let is_there = |program: &str| {
        Command::new("which").arg(program).output().is_ok_and(|which| which.status.success())
    };
    if !is_there("cron") || !is_there("unshare") {
        report_skipped("cron or unshare is not installed: the line for cron is not started");
        return;
    }
    let mut cron = Command::new("unshare");
    cron.args(["--mount", "sh", "-c", script]).current_dir(place.path(""));
    let mut cron = start(&mut cron);
    let mut is_over = false;
    wait_until("cron starts the run", || {
        is_over = cron.is_over();
        is_over || place.path("two").exists()
    });
    if is_over {
        report_skipped("no mount namespace here: the line for cron is not started by it");
        return;
    }
    wait_until("the run ends", || ledger(&place, "status").out.contains("): done"));
    cron.kill();
}
