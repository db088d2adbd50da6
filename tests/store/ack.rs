//! `ledger serve --store --ack`, `ledger replicate` and `ledger store rejoin` as processes, with a folder as the store:
//! an outage is a folder that is moved away.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::commands::expect_published;
use super::process::{Place, Running};

const PLAN: &str = "\
steps:
  - {id: one, goal: First}
  - {id: two, goal: Second}
  - {id: three, goal: Third}
  - {id: four, goal: Fourth}
";

/// A store in a folder, so that it can be taken away.
struct Store {
    place: Place,
    folder: PathBuf,
}

impl Store {
    fn new() -> Self {
        let mut place = Place::new();
        let folder = place.path("shelf");
        std::fs::create_dir(&folder).unwrap();
        place.url = format!("file://{}", folder.display());
        place.plan("first", PLAN);
        Self { place, folder }
    }

    /// The store does not answer any more.
    fn take_away(&self) {
        std::fs::rename(&self.folder, self.folder.with_extension("away")).unwrap();
    }

    fn bring_back(&self) {
        // A create that failed may have left the folder.
        let _ = std::fs::remove_dir_all(&self.folder);
        std::fs::rename(self.folder.with_extension("away"), &self.folder).unwrap();
    }

    fn serve(&self, options: &str) -> Running {
        let mut owner = self.place.start(&format!("serve --store URL --json {options}"));
        owner.wait_for("\"type\":\"serving\"");
        owner
    }

    fn claim(&self, folder: &str) -> Value {
        let task = self.place.json(&format!("claim --worker w --ledger @{folder} --json"));
        assert_eq!(task["type"], "task");
        task
    }

    /// The last record of a folder.
    fn seq(&self, folder: &str) -> u64 {
        self.place.json(&format!("root --ledger @{folder} --json"))["seq"].as_u64().unwrap()
    }

    /// The last record of the store.
    fn stored(&self) -> u64 {
        self.place.json("store status URL --json")["seq"].as_u64().unwrap()
    }

    /// Wait until the store has a record.
    #[track_caller]
    fn wait_for(&self, seq: u64) {
        let until = Instant::now() + Duration::from_secs(120);
        while self.stored() < seq {
            assert!(Instant::now() < until, "the store has {} of {seq} records", self.stored());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The last line of a type that a process printed.
fn last_line(process: &Running, kind: &str) -> Value {
    let out = process.out();
    let mut lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.rfind(|line| line["type"] == kind).unwrap()
}

/// Goal: in `local` the store gets everything soon, without any end of the server; the owner's hint has the mode.
#[test]
fn local_owner_ships_while_it_serves() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first --ack local");
    assert_eq!(last_line(&owner, "serving")["store"]["ack"], "local");
    store.claim("first");
    let seq = store.seq("first");
    store.wait_for(seq);
    let status = store.place.json("store status URL --json");
    assert_eq!(status["owner"]["ack"], "local");
    // The machine is lost, and nothing with it.
    owner.signal(Signal::KILL);
    owner.end();
    store.place.ledger("restore URL @second");
    assert_eq!(store.seq("second"), seq);
}

/// Goal: an outage stops no `local` owner, which says that the store lags, and that it is caught up. At an orderly end
/// everything is shipped.
#[test]
fn outage_stops_no_local_owner_and_is_reported() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first --ack local");
    store.take_away();
    store.claim("first");
    owner.wait_for("\"lags\":true");
    let line = last_line(&owner, "store_lag");
    expect_published("serve.store_lag", &line);
    expect_published("serve.serving", &last_line(&owner, "serving"));
    assert_eq!((&line["ack"], &line["url"]), (&"local".into(), &store.place.url.as_str().into()));
    assert!(line["records"].as_u64().unwrap() > 0 && line["bytes"].as_u64().unwrap() > 0, "{line}");
    assert!(line["oldest_micros"].as_u64().unwrap() >= 5_000_000, "{line}");
    store.claim("first");
    store.bring_back();
    owner.wait_for("\"lags\":false");
    let line = last_line(&owner, "store_lag");
    assert!(line["oldest_micros"].as_u64().unwrap() <= 2_500_000, "{line}");
    store.claim("first");
    let seq = store.seq("first");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    assert_eq!(store.stored(), seq);
    assert_eq!(store.place.json("store status URL --json")["owner"]["free"], true);
}

/// Goal: an owner that cannot ship at its end fails, names what the store lacks, and does not say that the ledger is free; the
/// next start ships it.
#[test]
fn orderly_end_without_the_store_fails_and_loses_nothing() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first --ack local");
    store.take_away();
    store.claim("first");
    let seq = store.seq("first");
    assert_eq!(owner.stop(), 7, "{}", owner.err());
    let err = owner.err() + &owner.out();
    assert!(err.contains("are only in this folder") && err.contains("safe here"), "{err}");
    // The end waits for the store, and not for long.
    assert!(err.contains("the store accepted none of them for 10 s"), "{err}");
    assert!(err.contains(&store.place.url), "{err}");
    store.bring_back();
    assert!(store.stored() < seq);
    assert_eq!(store.place.json("store status URL --json")["owner"]["free"], false);
    let mut owner = store.serve("--ledger @first --ack local");
    let serving = last_line(&owner, "serving");
    assert!(serving["store"]["shipped"].as_u64().unwrap() > 0, "{serving}");
    assert!(store.stored() > seq);
    assert_eq!(owner.stop(), 0, "{}", owner.err());
}

/// Goal: a second signal ends the wait for a store that does not answer, and the records are named all the same.
#[test]
fn second_signal_ends_the_wait_for_the_store() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first --ack local");
    store.take_away();
    store.claim("first");
    owner.signal(Signal::TERM);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(owner.stop(), 7, "{}", owner.err());
    let err = owner.err() + &owner.out();
    assert!(err.contains("are only in this folder"), "{err}");
    assert!(err.contains("a second signal ended the wait"), "{err}");
    store.bring_back();
    let mut owner = store.serve("--ledger @first --ack local");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    assert_eq!(store.stored(), store.seq("first"));
}

/// Regression: the line about the records that only the folder of a replaced owner has named too few of them, since the owner
/// acknowledged more after it.
#[test]
fn replaced_local_owner_names_all_that_it_acknowledged() {
    let store = Store::new();
    let place = &store.place;
    let mut owner = store.serve("--ledger @first --ack local");
    store.take_away();
    store.claim("first");
    owner.signal(Signal::STOP);
    store.bring_back();
    let mut second = store.serve("--ledger @second --lease 5s");
    owner.signal(Signal::CONT);
    // Work goes on at the old owner until it notices.
    let mut acknowledged = 0;
    while owner.is_running() {
        let (code, ..) = place.run("note more --ledger @first");
        acknowledged += u64::from(code == 0);
    }
    assert_eq!(owner.end(), 6, "{}", owner.err());
    let err = owner.out() + &owner.err();
    assert_eq!(second.stop(), 0, "{}", second.err());
    let plan = place.json("store rejoin URL --ledger @first --json");
    let common = plan["common_seq"].as_u64().unwrap();
    let last = common + plan["acknowledged"].as_u64().unwrap();
    assert!(plan["acknowledged"].as_u64().unwrap() >= acknowledged, "{plan}: {acknowledged}");
    let named = format!("records {} to {last} (", common + 1);
    assert!(err.contains(&named), "expected `{named}`, {acknowledged} more: {err}");
    assert!(err.contains("shows everything that only this folder has"), "{err}");
}

/// Goal: a large value that the store does not take is refused: nothing is recorded, the message says that the request may
/// be sent again, and the server continues.
#[test]
fn large_value_that_cannot_be_uploaded_records_nothing() {
    let store = Store::new();
    let place = &store.place;
    let mut owner = store.serve("--ledger @first");
    let task = store.claim("first");
    let token = task["token"].as_str().unwrap();
    std::fs::write(place.path("large"), "x".repeat(1 << 20)).unwrap();
    // There is no room for blobs.
    let blobs = store.folder.join("blob");
    // The folder may be there already.
    let _ = std::fs::remove_dir(&blobs);
    std::fs::write(&blobs, "").unwrap();
    let seq = store.seq("first");
    let receipt = || {
        let mut command = place.command("receipt");
        command.arg(token).arg("--output").arg(format!("@{}", place.path("large").display()));
        let output = command.arg("--ledger").arg(place.path("first")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = receipt();
    assert_eq!(code, Some(7), "{err}");
    for word in ["nothing was recorded", "send the request again", &place.url, "blob/"] {
        assert!(err.contains(word), "{word}: {err}");
    }
    assert_eq!(store.seq("first"), seq);
    assert!(owner.is_running(), "{}", owner.err());
    std::fs::remove_file(&blobs).unwrap();
    std::fs::create_dir(&blobs).unwrap();
    let (code, err) = receipt();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    assert_eq!(store.stored(), store.seq("first"));
    place.ledger("verify URL --level snapshots");
}

/// Regression: `verify` refused a sealed segment whose footer was cut, and blamed the index object; `restore` took it in
/// without a word.
#[test]
fn verify_and_restore_agree_about_a_segment_object() {
    let store = Store::new();
    let place = &store.place;
    for _ in 0..2 {
        let mut owner = store.serve("--ledger @first");
        store.place.ledger("note more --ledger @first");
        assert_eq!(owner.stop(), 0, "{}", owner.err());
    }
    let mut owner = store.serve("--ledger @first");
    let status = || place.json("store status URL --json");
    let until = Instant::now() + Duration::from_secs(120);
    while status()["segments"] != 3 || status()["indexes"] != 3 {
        assert!(Instant::now() < until, "{}", status());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let objects = std::fs::read_dir(store.folder.join("seg")).unwrap();
    let paths = objects.map(|entry| entry.unwrap().path());
    let segment =
        paths.filter(|path| path.extension().is_some_and(|it| it == "seg")).max().unwrap();
    let name = format!("{}/seg/{}", place.url, segment.file_name().unwrap().to_str().unwrap());
    let whole = std::fs::read(&segment).unwrap();
    // Without its footer all of its records are there; without more of it they are not.
    for (length, restored) in [(whole.len() - 100, 0), (4_300, 4), (0, 4)] {
        std::fs::write(&segment, &whole[..length]).unwrap();
        let (code, out, err) = place.run("verify URL");
        assert_eq!(code, 4, "{length}: {out}{err}");
        assert!(err.contains(&format!("error: {name}: ")), "{length}: {err}");
        assert!(err.contains("move this object out of the prefix, and keep it"), "{length}: {err}");
        let (code, out, err) = place.run(&format!("restore URL @restored-{length}"));
        assert_eq!(code, restored, "{length}: {out}{err}");
        assert!(err.contains(&format!("{name}: ")), "{length}: {err}");
        assert!(err.contains("move this object out of the prefix, and keep it"), "{length}: {err}");
        if restored == 0 {
            place.ledger(&format!("verify @restored-{length}"));
            assert_eq!(store.seq(&format!("restored-{length}")), store.seq("first"));
        }
    }
    std::fs::write(&segment, &whole).unwrap();
    // An empty file in the place of the next slot is damage for both.
    let next = format!("tail/{:020}.slot", store.seq("first") + 1);
    std::fs::write(store.folder.join(&next), "").unwrap();
    for line in ["verify URL", "restore URL @last"] {
        let (code, _, err) = place.run(line);
        assert_eq!(code, 4, "{line}: {err}");
        assert!(err.contains(&format!("error: {}/{next}: ", place.url)), "{line}: {err}");
    }
    std::fs::remove_file(store.folder.join(&next)).unwrap();
    place.ledger("verify URL");
    place.ledger("restore URL @last");
}

/// Goal: in `bounded` a result within the bound does not wait for a store that is away, a later one does.
#[test]
fn bounded_commit_waits_for_a_store_that_lags() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first --ack bounded:2s");
    assert_eq!(last_line(&owner, "serving")["store"]["ack"], "bounded:2s");
    store.take_away();
    store.claim("first");
    owner.wait_for("\"lags\":true");
    let line = "claim --worker w --ledger @first --json";
    let mut waiting = store.place.start(line);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(waiting.out(), "");
    store.bring_back();
    waiting.wait_for("\"type\":\"task\"");
    assert_eq!(waiting.end(), 0, "{}", waiting.err());
    owner.wait_for("\"lags\":false");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    assert_eq!(store.stored(), store.seq("first"));
}

/// Goal: a `bounded` owner whose store stays away ends when a commit has waited for it, and everything that it acknowledged
/// is in its folder, and goes to the store at the next start.
#[test]
fn bounded_owner_ends_if_the_store_stays_away() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first --ack bounded:1s");
    store.take_away();
    store.claim("first");
    let seq = store.seq("first");
    owner.wait_for("\"lags\":true");
    let (code, out, err) = store.place.run("claim --worker w --ledger @first");
    assert_ne!(code, 0, "{out}\n{err}");
    assert_eq!(owner.end(), 7, "{}", owner.err());
    store.bring_back();
    assert_eq!(store.place.json("store status URL --json")["owner"]["free"], false);
    assert!(store.seq("first") >= seq);
    let mut owner = store.serve("--ledger @first --ack bounded:1s");
    assert!(store.stored() > seq);
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    assert_eq!(store.place.json("store status URL --json")["owner"]["free"], true);
}

/// Goal: after another machine took over without them, records that a `local` owner acknowledged are named by the owner and by
/// the next start, and `rejoin` saves them. Nothing is changed before.
#[test]
fn diverged_folder_is_named_and_rejoins() {
    let store = Store::new();
    let (place, common) = (&store.place, {
        let mut owner = store.serve("--ledger @first --ack local");
        assert_eq!(owner.stop(), 0, "{}", owner.err());
        store.seq("first") + 1
    });
    let mut owner = store.serve("--ledger @first --ack local");
    let (code, _, err) = place.run("store rejoin URL --ledger @first");
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("did not diverge"), "{err}");
    store.take_away();
    let task = store.claim("first");
    let lost = store.seq("first");
    owner.signal(Signal::STOP);
    store.bring_back();
    let mut second = store.serve("--ledger @second --lease 5s");
    store.claim("second");
    owner.signal(Signal::CONT);
    assert_eq!(owner.end(), 6, "{}", owner.err());
    let err = owner.out() + &owner.err();
    assert!(err.contains("fenced: process") && err.contains("store rejoin"), "{err}");
    assert!(err.contains("are only in this folder"), "{err}");
    assert_eq!(second.stop(), 0, "{}", second.err());

    let (code, _, err) = place.run("serve --ledger @first --store URL");
    assert_eq!(code, 6, "{err}");
    assert!(err.contains(&format!("records {} to {lost}", common + 1)), "{err}");
    assert!(err.contains("store rejoin file://"), "{err}");
    let plan = place.json("store rejoin URL --ledger @first --json");
    expect_published("store.rejoin", &plan);
    assert_eq!((&plan["done"], &plan["kept"]), (&false.into(), &Value::Null));
    assert_eq!(plan["common_seq"].as_u64(), Some(common));
    assert_eq!(plan["lost"].as_u64(), Some(lost - common));
    assert_eq!(plan["acknowledged"], plan["lost"]);
    assert_eq!(plan["seq"].as_u64(), Some(store.stored()));
    let shown = place.ledger("store rejoin URL --ledger @first");
    assert!(shown.contains("add --yes"), "{shown}");
    assert_eq!(store.seq("first"), lost);

    let done = place.json("store rejoin URL --ledger @first --yes --json");
    for name in ["common_seq", "lost", "acknowledged", "seq", "dir", "url"] {
        assert_eq!(done[name], plan[name], "{name}");
    }
    expect_published("store.rejoin", &done);
    assert_eq!(done["done"], true);
    let exported = std::fs::read_to_string(done["exported"].as_str().unwrap()).unwrap();
    let lines: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), usize::try_from(lost - common).unwrap());
    assert!(lines.iter().any(|line| line["kind"] == "dispatched"), "{exported}");
    assert!(done["exported"].as_str().unwrap().starts_with(done["kept"].as_str().unwrap()));
    // The folder has what the store has, and its server continues.
    assert_eq!(store.seq("first"), store.stored());
    let mut owner = store.serve("--ledger @first");
    let token = task["token"].as_str().unwrap();
    let (code, _, err) = place.run(&format!("receipt {token} --output x --ledger @first"));
    assert_eq!(code, 6, "the claim was lost: {err}");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
}

/// Goal: segments that are complete get their objects while the server works, in the mode `store`, too.
#[test]
fn complete_segments_are_uploaded() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let status = || store.place.json("store status URL --json");
    assert_eq!(status()["segments"], 0);
    let mut owner = store.serve("--ledger @first");
    store.claim("first");
    let until = Instant::now() + Duration::from_secs(120);
    while status()["segments"] == 0 {
        assert!(Instant::now() < until, "{}", status());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    store.place.ledger("restore URL @second");
    assert_eq!(store.seq("second"), store.seq("first"));
}

/// Goal: a command waits for the server of a folder that is bound to a store, and writes nothing without it.
#[test]
fn command_on_a_bound_folder_waits_for_its_server() {
    let store = Store::new();
    let mut owner = store.serve("--ledger @first");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let seq = store.seq("first");
    let (code, _, err) = store.place.run("claim --worker w --ledger @first");
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("ledger serve --store file://") && err.contains("does not run"), "{err}");
    assert_eq!(store.seq("first"), seq);
    let mut waiting = store.place.start("claim --worker w --ledger @first --wait 60s --json");
    let mut owner = store.serve("--ledger @first");
    waiting.wait_for("\"type\":\"task\"");
    assert_eq!(waiting.end(), 0, "{}", waiting.err());
    assert_eq!(owner.stop(), 0, "{}", owner.err());
}

/// Goal: a side-car brings to the store what an ordinary process writes, refuses a store that another machine continued,
/// and a folder that is bound.
#[test]
fn side_car_ships_what_a_run_writes() {
    let store = Store::new();
    let place = &store.place;
    let once = "replicate URL --ledger @first --once --json";
    let line = place.json(once);
    assert_eq!(line["seq"].as_u64(), Some(store.seq("first")));
    assert_eq!((&line["records"], &line["shipped"]), (&0.into(), &line["seq"]));
    let mut car = place.start("replicate URL --ledger @first --json");
    car.wait_for("\"type\":\"replicated\"");
    for _ in 0..2 {
        let task = store.claim("first");
        let token = task["token"].as_str().unwrap();
        place.ledger(&format!("receipt {token} --output done --ledger @first"));
        store.wait_for(store.seq("first"));
    }
    let worker = place.path("quick");
    std::fs::write(&worker, "#!/bin/sh\necho done\n").unwrap();
    std::fs::set_permissions(&worker, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.ledger("run @plan.yaml --run q --ledger @first --worker @quick");
    store.wait_for(store.seq("first"));
    assert_eq!(car.stop(), 0, "{}", car.err());
    assert_eq!(last_line(&car, "replicated")["seq"].as_u64(), Some(store.seq("first")));
    assert_eq!(place.json(once)["shipped"], 0);
    let root = place.json("root --ledger @first --json");
    let (seq, chain) = (root["seq"].as_u64().unwrap(), root["chain"].as_str().unwrap());
    place.ledger("restore URL @second");
    place.ledger(&format!("verify @second --expect-head {seq}:{chain}"));

    // Another machine continues the ledger: its folder is bound, and the first one is behind.
    let mut owner = store.serve("--ledger @second");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let (code, _, err) = place.run("replicate URL --ledger @second --once");
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("bound to the store"), "{err}");
    let (code, _, err) = place.run("replicate URL --ledger @first --once");
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("another process took over"), "{err}");
    let (code, _, err) = place.run("replicate URL --ledger @none --once");
    assert_eq!(code, 2, "{err}");
}

/// Goal: a side-car whose store is away for longer than its patience ends with exit code 7, and says what waits.
#[test]
fn side_car_without_its_store_says_what_waits() {
    let store = Store::new();
    let mut car = store.place.start("replicate URL --ledger @first --json");
    car.wait_for("\"type\":\"replicated\"");
    store.take_away();
    store.claim("first");
    assert_eq!(car.end(), 7, "{}", car.err());
    let err = car.out() + &car.err();
    assert!(err.contains("are only in the folder, the oldest for"), "{err}");
    store.bring_back();
    store.place.ledger("replicate URL --ledger @first --once");
    assert_eq!(store.stored(), store.seq("first"));
}

/// Story: `ledger replicate --once` never ended on a ledger whose first plan had 12,000 steps, and ignored SIGTERM.
#[test]
fn large_first_plan_is_copied_and_the_copy_ends() {
    let mut place = Place::new();
    let folder = place.path("shelf");
    std::fs::create_dir(&folder).unwrap();
    place.url = format!("file://{}", folder.display());
    let mut plan = String::from("steps:\n");
    for number in 0..12_000 {
        writeln!(plan, "  - {{id: s{number}, goal: 'Do thing {number}: {}'}}", "x".repeat(100))
            .unwrap();
    }
    place.plan("first", &plan);
    let line = place.json("replicate URL --ledger @first --once --json");
    assert_eq!((&line["records"], line["seq"] == line["shipped"]), (&0.into(), true), "{line}");
    let root = place.json("root --ledger @first --json");
    assert_eq!(line["seq"], root["seq"]);
    place.ledger("restore URL @second");
    assert_eq!(place.json("root --ledger @second --json")["chain"], root["chain"]);
    place.ledger("verify URL");
    // A server binds the folder, and a killed copy continues.
    let mut owner = place.start("serve --store URL --json --ledger @second");
    owner.wait_for("\"type\":\"serving\"");
    assert_eq!(owner.stop(), 0, "{}", owner.err());
}

/// Goal: a signal ends a copy soon, while a request gets no answer, and while it asks a store again that does not answer. The
/// message says that the next start continues.
#[test]
fn signal_ends_a_copy_that_waits_for_the_store() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let store = Store::new();
    let line = "replicate s3://bucket/x --timeout 1h --no-probe --ledger @first";
    let mut command = store.place.command(line);
    command
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b")
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"));
    let mut car = Running::start(&mut command);
    let request = silent.accept().unwrap();
    assert_eq!(car.stop(), 7, "{}", car.err());
    assert!(car.err().contains("stopped by a signal"), "{}", car.err());
    assert!(car.err().contains("start this command again"), "{}", car.err());
    drop(request);

    let mut car = store.place.start("replicate URL --ledger @first --json");
    car.wait_for("\"type\":\"replicated\"");
    store.take_away();
    store.claim("first");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(car.stop(), 7, "{}", car.err());
    assert!(car.err().contains("stopped by a signal"), "{}", car.err());
    store.bring_back();
    store.place.ledger("replicate URL --ledger @first --once");
    assert_eq!(store.stored(), store.seq("first"));
}
