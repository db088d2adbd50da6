//! The commands `ledger store` on a folder and on small servers: their output, recorded, and their JSON
//! against the published schema.
//!
//! To record again: `INSTA_UPDATE=always cargo test -p plan-ledger-cli --features store --test store commands::`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Value, json};

use plan_ledger::internals::store::{DirectoryObjects, Objects, bind};

use super::engine::IDENTITY;
use super::flawed::FlawedServer;
use super::node::Node;

/// A command that has ended.
pub(crate) struct Ended {
    line: String,
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn code(&self, code: i32) {
        assert_eq!(self.status, code, "{}\n{}\n{}", self.line, self.out, self.err);
    }

    /// Its only line of JSON, which the published schema describes.
    #[track_caller]
    fn json(&self) -> Value {
        let line: Value = serde_json::from_str(self.out.trim()).unwrap();
        let name = match line["type"].as_str().unwrap() {
            "error" => "any.error".to_owned(),
            "replicated" => "replicate.replicated".to_owned(),
            kind => format!("store.{kind}"),
        };
        expect_published(&name, &line);
        line
    }
}

/// The published schema describes a line of JSON.
#[track_caller]
pub(crate) fn expect_published(name: &str, line: &Value) {
    let published = include_str!("../../format/json-lines.schema.json");
    let schema: Value = serde_json::from_str(published).unwrap();
    let mut definition = schema["$defs"][name].clone();
    assert!(definition.is_object(), "{name} is not published");
    definition["additionalProperties"] = json!(false);
    definition["$defs"] = schema["$defs"].clone();
    let validator = jsonschema::validator_for(&definition).unwrap();
    assert!(validator.is_valid(line), "{name}: {line}");
    // Every member is there, but for those of errors that only some have.
    let members = line.as_object().unwrap().len();
    let published = definition["properties"].as_object().unwrap().len();
    assert!(members == published || line["type"] == "error", "{line}");
}

/// Run `ledger` with these words, split at spaces.
pub(crate) fn ledger(line: &str, environment: &[(&str, String)]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command.env_clear().env("NO_COLOR", "1").env("COLUMNS", "100").env("TZ", "UTC");
    command.args(line.split(' '));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    Ended {
        line: line.to_owned(),
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A store in a folder, with a ledger of four records and two epochs.
fn write_ledger(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let objects: Arc<dyn Objects> = Arc::new(DirectoryObjects::open(folder).unwrap());
    bind(&*objects, &IDENTITY, 1_000, &|_| false).unwrap();
    let mut first = Node::open(&objects, 1).unwrap();
    first.append("two").unwrap();
    first.upload_part();
    let mut second = Node::open(&objects, 2).unwrap();
    second.append("four").unwrap();
}

/// What depends on the machine or on the moment, and what stands in its place.
fn normalized(text: &str, folder: &Path) -> String {
    let text = text.replace(&folder.display().to_string(), "/FOLDER");
    let filters = [
        (r"\b\d+\.\d ms\b", "[TIME]"),
        (r"_micros\x22:\d+", "_micros\":[TIME]"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]"),
        (r"probe/[0-9a-f]{32}", "probe/[ID]"),
        (r"(beside, [^\n]*\n  root  \d+:)[0-9a-f]{64}", "${1}[CHAIN]"),
        // How many racers win depends on the moment.
        (r"race \d: \d+ clients", "race [N]: [N] clients"),
        (r"\d+ succeeded, \d+ of names", "[N] succeeded, [N] of names"),
        (r#""(created|refused)":\d+"#, "\"$1\":[N]"),
    ];
    filters.iter().fold(text, |text, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}

/// The commands whose output is recorded. FOLDER is a folder of the test.
const COMMANDS: &[&str] = &[
    "help --all",
    "store --help",
    "restore --help",
    "serve --help",
    "run --help",
    "claim --help",
    "work --help",
    "store probe --help",
    "store status --help",
    "store rejoin --help",
    "store gc --help",
    "store prune --help",
    "replicate --help",
    "store probe file://FOLDER/empty",
    "store probe file://FOLDER/empty --json",
    "store probe s3://bucket/night",
    "store probe s3://bucket/night --json",
    "store probe file://FOLDER/none",
    "store probe s3:bucket",
    "store probe s3://KEY:SECRET@bucket",
    "store probe az://box/night",
    "store status file://FOLDER/store",
    "store status file://FOLDER/store --json",
    "store status file://FOLDER/empty",
    "store status file://FOLDER/empty --json",
    "store status s3://bucket/night",
    "store gc file://FOLDER/store",
    "store gc file://FOLDER/store --yes --json",
    "store gc file://FOLDER/empty",
    "store prune file://FOLDER/store",
    "store prune file://FOLDER/store --yes --json",
    "store prune file://FOLDER/empty --json",
    "restore file://FOLDER/store FOLDER/copy",
    "restore file://FOLDER/store FOLDER/copy --json",
    "restore file://FOLDER/empty FOLDER/other",
    "restore s3:bucket FOLDER/copy --json",
    "serve --ledger FOLDER/none --store file://FOLDER/empty",
    "serve --ledger FOLDER/none --standby",
    "serve --ledger FOLDER/none --store file://FOLDER/empty --ack bounded:0",
    "serve --ledger FOLDER/none --store file://FOLDER/empty --ack disk",
    "init --ledger FOLDER/run",
    "plan propose FOLDER/plan.yaml --run r --ledger FOLDER/run",
    "replicate file://FOLDER/beside --ledger FOLDER/run --once",
    "replicate file://FOLDER/beside --ledger FOLDER/run --once --json",
    "replicate file://FOLDER/store --ledger FOLDER/run --once",
    "replicate file://FOLDER/beside --ledger FOLDER/none --once --json",
    "replicate file://FOLDER/beside --every 0",
    "restore file://FOLDER/beside FOLDER/bound",
    "replicate file://FOLDER/beside --ledger FOLDER/bound --once",
    "note hello --ledger FOLDER/bound",
    "run FOLDER/plan.yaml --run r --worker true --ledger FOLDER/bound",
    "serve --ledger FOLDER/bound",
    "run FOLDER/plan.yaml --run r --stub --quiet --ledger FOLDER/none --store file://FOLDER/none",
    "run FOLDER/plan.yaml --run r --ledger FOLDER/none --ack local",
    "claim --server http://ledger.example.org",
    "claim --server http://127.0.0.1:1,ftp://127.0.0.1",
    "claim --server http://127.0.0.1:1 --server-token-file FOLDER/none",
    "claim --server http://127.0.0.1:1 --pid 1",
    "store rejoin file://FOLDER/beside --ledger FOLDER/bound",
    "store rejoin file://FOLDER/beside --ledger FOLDER/bound --yes --json",
    "store rejoin file://FOLDER/store --ledger FOLDER/run",
];

#[test]
fn output_of_the_commands() {
    let place = tempfile::tempdir().unwrap();
    let (folder, ignoring) = (place.path().join("store"), FlawedServer::start("ignores"));
    let (own, none) = (ignoring.environment(), Vec::new());
    write_ledger(&folder);
    std::fs::create_dir(place.path().join("empty")).unwrap();
    std::fs::create_dir(place.path().join("beside")).unwrap();
    let plan = place.path().join("plan.yaml");
    std::fs::write(plan, "steps:\n  - {id: one, goal: First}\n").unwrap();
    let at = |line: &str| line.replace("FOLDER", &place.path().display().to_string());
    let mut transcript = String::new();
    for line in COMMANDS {
        // This store ignores the condition on which a writer depends.
        let environment = if line.contains("s3://bucket/night") { &own } else { &none };
        let ended = ledger(&at(line), environment);
        assert!(!ended.err.contains("SECRET"), "{}", ended.err);
        let out = match *line {
            // The other commands are recorded elsewhere.
            "help --all" => {
                ended.out.lines().find(|line| line.starts_with("  store ")).unwrap().to_owned()
            }
            _ => ended.out,
        };
        writeln!(transcript, "$ ledger {line}\nexit code: {}", ended.status).unwrap();
        for (name, stream) in [("stdout", &out), ("stderr", &ended.err)] {
            if !stream.is_empty() {
                writeln!(transcript, "--- {name}\n{}", stream.trim_end()).unwrap();
            }
        }
        transcript.push('\n');
    }
    let text = normalized(&transcript, place.path());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("store", text));
}

#[test]
fn json_follows_the_published_schema() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("store");
    write_ledger(&folder);
    let url = format!("file://{}", folder.display());
    let probed = ledger(&format!("store probe {url} --json"), &[]);
    probed.code(0);
    let line = probed.json();
    assert_eq!((&line["fit"], &line["engine"]), (&json!(true), &json!("folder")));
    assert_eq!((&line["created"], &line["refused"]), (&json!(6), &json!(36)));
    assert_eq!((&line["left"], &line["states_time"]), (&json!([]), &json!(true)));
    let line = ledger(&format!("store status {url} --json"), &[]).json();
    assert_eq!((&line["seq"], &line["epoch"], &line["floor"]), (&json!(4), &json!(2), &json!(2)));
    assert_eq!((&line["slots"], &line["segments"]), (&json!(4), &json!(1)));
    assert_eq!(line["ledger"], json!("b1".repeat(16)));
    assert_eq!(line["node"], json!("02".repeat(16)));
    let line = ledger(&format!("store gc {url} --json"), &[]).json();
    assert_eq!((&line["kept_young"], &line["kept_uncovered"]), (&json!(2), &json!(2)));
    let line = ledger(&format!("store prune {url} --json"), &[]).json();
    assert_eq!((&line["note_seq"], &line["segments"]), (&Value::Null, &json!(0)));
    std::fs::create_dir(place.path().join("beside")).unwrap();
    let at = |line: &str| line.replace("FOLDER", &place.path().display().to_string());
    ledger(&at("init --ledger FOLDER/run"), &[]).code(0);
    let copied =
        ledger(&at("replicate file://FOLDER/beside --ledger FOLDER/run --once --json"), &[]);
    copied.code(0);
    assert_eq!(copied.json()["records"], json!(0));
    let none = ledger(&format!("store status file://{}/none --json", place.path().display()), &[]);
    none.code(2);
    assert_eq!(none.json()["kind"], json!("usage"));
    let ignoring = FlawedServer::start("ignores").ledger("store probe s3://b/x --json");
    ignoring.code(6);
    assert_eq!(ignoring.json()["fit"], json!(false));
}

/// What was written by another program, or changed, is damage and no status.
#[test]
fn damaged_objects_have_no_status() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("store");
    write_ledger(&folder);
    let status = || ledger(&format!("store status file://{}", folder.display()), &[]);
    status().code(0);
    let last = folder.join("tail/00000000000000000004.slot");
    let whole = std::fs::read(&last).unwrap();
    for at in [9, 40, 100, 210, 300, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        std::fs::write(&last, changed).unwrap();
        let ended = status();
        ended.code(4);
        assert!(ended.err.contains("00000000000000000004.slot"), "{at}: {}", ended.err);
    }
    std::fs::write(&last, whole).unwrap();
    std::fs::write(folder.join("LEDGER.json"), "{}").unwrap();
    let ended = status();
    ended.code(4);
    assert!(ended.err.contains("LEDGER.json"), "{}", ended.err);
}
