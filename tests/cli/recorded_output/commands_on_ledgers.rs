//! Commands over the fixed ledgers: those that only read over all of them, those that write over a
//! fresh copy in each test.

use super::ledgers::NAMES;
use super::session::Session;

/// Goal: commands that read print what was recorded.
#[test]
fn commands_that_read() {
    let mut session = Session::reading(&NAMES);
    for (name, run) in [
        ("complete", "release"),
        ("killed", "release"),
        ("damaged", "release"),
        ("pruned", "later"),
        ("waiting", "attention"),
        ("random", "'run 0'"),
    ] {
        for line in [
            format!("status {name}"),
            format!("status {name} --view operator --run {run}"),
            format!("status {name} --view debug --run {run}"),
            format!("status {name} --view user --run {run}"),
            format!("status {name} --view execution-state --run {run} --at 50"),
            format!("status {name} --view operator --at 50"),
            format!("questions --ledger {name}"),
            format!("questions {run} --ledger {name} --decided"),
            format!("questions --ledger {name} --at 40"),
            format!("next {run} --ledger {name}"),
            format!("budget --ledger {name}"),
            format!("budget {run} --ledger {name}"),
            format!("budget {run} --ledger {name} --chart --at 40"),
            format!("root {name}"),
            format!("blobs {name}"),
            format!("blobs {name} --check"),
            format!("prune {name} --ended"),
            format!("prune {name} --through 90"),
            format!("logs {run} --ledger {name}"),
        ] {
            session.run(&line);
            session.run(&format!("{line} --json"));
        }
    }
    session.run_all(&[
        "status missing",
        "status complete --run nonsense",
        "status complete --view nonsense",
        "status complete --at 0",
        "status complete --at 99999",
        "status complete --at 5 --watch",
        "status complete --ledger killed",
        "status complete --all",
        "status killed --since 2020-01-01",
        "status killed --since 2020-01-01 --json",
        "status killed --since noon",
        "logs nonsense --ledger complete",
        "logs release 37 --ledger killed",
        "logs '#37' --run release --ledger killed --json",
        "logs --ledger missing",
        "questions --ledger missing",
        "next --ledger waiting",
        "next nonsense --ledger waiting",
        "next --ledger missing",
        "budget nonsense --ledger complete",
        "budget a b c --ledger complete",
        "budget --chart --ledger complete",
        "root missing",
        "root",
        "blobs missing",
        "prune complete",
        "prune complete --ended --through 5",
        "prune missing --ended",
        "prune complete --through 99999",
        "get level --run attention --ledger waiting",
        "get level --run attention --ledger waiting --json",
        "get nonsense --run attention --ledger waiting",
        "get nonsense --run attention --ledger waiting --json",
        "get level --ledger waiting",
        "get level --run nonsense --ledger waiting",
        "get",
        "report release --html page.html --ledger complete",
        "report release --html page.html --ledger complete",
        "report release --html early.html --at 20 --ledger complete --json",
        "report nonsense --html nonsense.html --ledger complete",
        "report --ledger complete",
        "LEDGER_DIR=waiting LEDGER_RUN=attention get level",
    ]);
    session.assert_recorded("reading");
}

/// Goal: verification prints what was recorded, at each level.
#[test]
fn verification() {
    let mut session = Session::reading(&NAMES);
    for name in NAMES {
        for level in ["crc", "chain", "snapshots", "replay"] {
            session.run(&format!("verify {name} --level {level} --jobs 1"));
            session.run(&format!("verify {name} --level {level} --jobs 1 --json"));
        }
    }
    let root = session.quietly("root complete").trim().to_owned();
    session.run(&format!("verify complete --jobs 1 --expect-head {root}"));
    session.run(&format!("verify killed --jobs 1 --expect-head {root}"));
    session.run(&format!("verify killed --jobs 1 --expect-head {root} --json"));
    session.run_all(&[
        "verify missing",
        "verify complete --level nonsense",
        "verify complete --jobs 0",
    ]);
    session.run_all(&["verify complete --expect-head nonsense", "verify"]);
    session.assert_recorded("verify");
}

/// Goal: exports, imports, archives and what is saved of damage are as recorded.
#[test]
fn whole_ledgers() {
    let mut session = Session::reading(&NAMES);
    session.run("export complete");
    for name in NAMES {
        session.run_for_digest(&format!("export {name}"));
        session.run(&format!("export {name} -o {name}.jsonl"));
    }
    session.run_all(&[
        "export complete -o complete.jsonl",
        "export complete --from 10 --to 12",
        "export complete --from 12 --to 10",
        "export complete --from 0",
        "export missing",
        "import complete.jsonl --ledger copy",
        "import complete.jsonl --ledger copy",
        "root copy",
        "import damaged.jsonl --ledger copy-2",
        "import missing.jsonl --ledger copy-3",
        "import complete.jsonl",
    ]);
    session.run_with_input("import - --ledger copy-4", "nonsense\n");
    session.assert_recorded("export-import");

    let mut session = Session::writing(&NAMES);
    session.run_all(&[
        "archive complete --to old.tar --through 90",
        "archive complete --to old.tar --through 90",
        "archive complete --to older.tar --through 90 --json",
        "verify old.tar",
        "inspect old.tar records --limit 2",
        "archive complete --to pruned.tar --through 90 --prune",
        "archive complete --to pruned-2.tar --prune --yes --by ana",
        "archive killed --to killed.tar",
        "archive damaged --to damaged.tar",
        "archive missing --to missing.tar",
        "archive complete",
        "archive complete --to x.tar --yes",
        "prune pruned --through 120 --yes --by ana",
        "prune pruned --through 120 --yes --by ana --json",
        "prune killed --ended --yes",
        "prune damaged --ended --yes",
        "blobs killed --collect",
        "blobs killed --collect --json",
        "blobs missing --collect",
        "snapshot killed",
        "snapshot killed --json",
        "snapshot damaged",
        "snapshot missing",
        "snapshot killed extra",
    ]);
    session.assert_recorded("archive-prune-blobs-snapshot");

    let mut session = Session::writing(&NAMES);
    for name in ["complete", "damaged", "killed"] {
        session.run(&format!("recover {name}"));
        session.run(&format!("recover {name} --json"));
        session.run(&format!("recover {name} --export saved-{name}"));
        session.run(&format!("recover {name} --export saved-{name}"));
        session.run(&format!("recover {name} --export json-{name} --json"));
        session.run(&format!("recover {name} --fence"));
        session.run(&format!("recover {name} --fence --yes"));
        session.run(&format!("recover {name} --fence --yes --json"));
    }
    session.run_all(&[
        "recover missing --export x",
        "recover complete --fence --export x",
        "recover complete --yes",
    ]);
    session.assert_recorded("recover");
}

/// Goal: workers from outside are answered as recorded.
#[test]
fn workers() {
    let mut session = Session::writing(&["waiting", "killed", "damaged", "complete"]);
    session.write("receipt.json", "{\"outcome\": \"succeeded\", \"output\": {\"rows\": 3}}");
    session.write("result.json", "{\"rows\": 4}");
    session.run_all(&[
        "claim attention --ledger waiting --worker w1",
        "claim attention --ledger waiting --worker w1 --json --lease 2h",
        "claim attention --ledger waiting --step last",
        "claim attention --ledger waiting --step nonsense",
        "claim nonsense --ledger waiting",
        "claim --ledger waiting",
        "claim --ledger missing",
        "claim --ledger damaged",
        "claim release --ledger complete",
        "claim release --ledger complete --json",
        "claim attention --ledger waiting --wait 0",
        "claim attention --ledger waiting --lease nonsense",
        "claim --ledger killed --worker w2 --json",
    ]);
    let token = |session: &Session, step: &str| session.token("waiting", "attention", step);
    let first = token(&session, "flying");
    let second = token(&session, "ready");
    for line in [
        format!("renew {second} --ledger waiting"),
        format!("renew {second} --ledger waiting --lease 3h --json"),
        "renew 99999 --ledger waiting".to_owned(),
        format!("renew 99999-{} --ledger waiting", "9f".repeat(16)),
        "renew x --ledger waiting".to_owned(),
        "renew --ledger waiting".to_owned(),
        format!("effect mail:7 --token {second} --what 'the mail' --ledger waiting"),
        format!("effect mail:7 --token {second} --done --ledger waiting --json"),
        format!("effect mail:8 --token {second} --done --ledger waiting"),
        format!("effect mail:9 --token 99999-{} --ledger waiting", "9f".repeat(16)),
        "effect --ledger waiting".to_owned(),
        format!(
            "receipt {second} --ledger waiting --output '{{\"rows\": 12}}' --cost 0.000005 --tokens 9"
        ),
        format!("receipt {second} --ledger waiting --output again --json"),
        format!("receipt {first} --ledger waiting --receipt receipt.json --json"),
        format!("receipt 99999-{} --ledger waiting --output x", "9f".repeat(16)),
        "receipt --ledger waiting --output x".to_owned(),
        format!("receipt {second} --ledger waiting --output @missing.json"),
        format!("receipt {second} --ledger waiting --message x"),
        format!("receipt {second} --ledger waiting --failed nonsense"),
    ] {
        session.run(&line);
    }
    session.run_all(&[
        "claim attention --ledger waiting --worker w3",
        "claim versions --ledger waiting --worker w3",
    ]);
    session.run("inspect waiting queue attention");
    let third = token(&session, "also-ready");
    for line in [
        format!("receipt {third} --ledger waiting --failed transient --message lost"),
        format!("release {third} --ledger waiting"),
        "claim attention --ledger waiting --worker w4 --json".to_owned(),
    ] {
        session.run(&line);
    }
    let fourth = token(&session, "also-ready");
    for line in [
        format!("release {fourth} --ledger waiting --reason 'not mine' --json"),
        "claim attention --ledger waiting --worker w4".to_owned(),
        format!("release 99999-{} --ledger waiting", "9f".repeat(16)),
        "release x --ledger waiting".to_owned(),
    ] {
        session.run(&line);
    }
    let fifth = token(&session, "also-ready");
    for line in [
        format!("release {fifth} --begun --ledger waiting"),
        "claim attention --ledger waiting --worker w5".to_owned(),
    ] {
        session.run(&line);
    }
    let sixth = token(&session, "also-ready");
    session.run(&format!(
        "receipt {sixth} --ledger waiting --output @result.json --next --worker w6 --json"
    ));
    session.run_all(&[
        "tick --ledger waiting",
        "tick --ledger waiting --json",
        "tick --ledger missing",
        "tick --ledger damaged",
    ]);
    session.assert_recorded("workers");
}

/// Goal: `ledger work` reports what it does as recorded.
#[test]
fn work() {
    let mut session = Session::writing(&["waiting", "killed", "complete", "damaged"]);
    session.run_all(&[
        "work attention --ledger waiting --worker w1 --max 1 -- echo done",
        "work attention --ledger waiting --worker w1 --max 1 --json -- echo done",
        "work attention --ledger waiting --worker w1 --max 1 -- false",
        "work versions --ledger waiting --worker w1 -- echo done",
        "work release --ledger complete --worker w1 -- echo done",
        "work release --ledger killed --worker w1 --max 1 --json -- echo done",
        "work release --ledger damaged --worker w1 -- echo done",
        "work nonsense --ledger waiting -- echo done",
        "work attention --ledger missing -- echo done",
        "work attention --ledger waiting",
        "work attention --ledger waiting --max 0 -- echo done",
    ]);
    session.assert_recorded("work");
}

/// Goal: the commands by which people answer and steer are answered as recorded.
#[test]
fn people() {
    let mut session = Session::writing(&["waiting", "damaged"]);
    session.run_all(&[
        "questions --ledger waiting",
        "answer attention gated maybe --by ana --ledger waiting",
        "answer attention gated yes --ledger waiting",
        "answer attention gated yes --by ana --note 'read it' --ledger waiting",
        "answer attention gated yes --by ana --ledger waiting",
        "answer attention doubtful did-not-happen --by ana --ledger waiting --json",
        "answer attention doubtful landed --by ana --ledger waiting",
        "answer 99999 yes --by ana --ledger waiting",
        "answer 1 --by ana --ledger waiting",
        "answer attention gated yes --by ana --ledger missing",
        "accept attention reported --by worker-1 --ledger waiting",
        "accept attention reported --by ana --evidence 'read it' --ledger waiting",
        "accept attention reported --by ana --ledger waiting",
        "accept attention nonsense --by ana --ledger waiting",
        "accept attention reported --ledger waiting",
        "decide decisions odd nonsense --ledger waiting",
        "decide decisions odd retry --after 60 --ledger waiting",
        "decide decisions odd fallback --reason why --ledger waiting --json",
        "decide attention ready retry --ledger waiting",
        "decide decisions --ledger waiting",
        "retry broken breaks --by ana --ledger waiting",
        "retry broken breaks --by ana --ledger waiting --json",
        "retry broken nonsense --by ana --ledger waiting",
        "retry nonsense --ledger waiting",
        "skip attention ready --reason 'written already' --ledger waiting",
        "skip attention also-ready --reason 'not needed' --by ana --ledger waiting --json",
        "skip attention flying --reason x --ledger waiting",
        "skip attention ready --ledger waiting",
        "skip nonsense ready --reason x --ledger waiting",
        "questions --ledger waiting --json",
        "accept attention reported --by ana --ledger damaged",
    ]);
    session.assert_recorded("answers");

    let mut session = Session::writing(&["waiting", "killed"]);
    session.run_all(&[
        "accept attention reported --by ana --ledger waiting --json",
        "reject attention reported --by ana --ledger waiting",
        "reject attention plan --by ana --ledger waiting",
        "reject nonsense plan --by ana --ledger waiting",
        "retry broken --by ana --ledger waiting --json",
        "decide decisions odd fail --ledger waiting --json",
        "answer attention doubtful landed --by ana --ledger waiting",
    ]);
    session.assert_recorded("answers-again");

    let mut session = Session::writing(&["waiting"]);
    session.run_all(&[
        "reject attention reported --by ana --evidence 'too long' --ledger waiting",
        "inspect waiting step attention reported",
    ]);
    session.assert_recorded("rejected");

    let mut session = Session::writing(&["waiting"]);
    session.run_all(&[
        "reject attention reported --by ana --ledger waiting --json",
        "reject --ledger waiting",
    ]);
    session.assert_recorded("rejected-json");
}

/// Goal: the commands that steer runs and set variables, caps and budgets are answered as recorded.
#[test]
fn steering() {
    let mut session = Session::writing(&["waiting", "complete", "damaged"]);
    session.run_all(&[
        "set level 4 --run attention --ledger waiting",
        "set level '\"text\"' --run attention --if-version 2 --ledger waiting --json",
        "set level 5 --run attention --if-version 1 --ledger waiting",
        "set fresh true --run attention --if-version 0 --by ana --ledger waiting",
        "set level --run attention --ledger waiting",
        "set level 4 --run nonsense --ledger waiting",
        "set level 4 --ledger waiting",
        "set level @missing --run attention --ledger waiting",
        "set level 4 --run release --ledger complete",
        "set level 4 --run release --ledger damaged",
        "get level --run attention --ledger waiting --json",
        "note 'the network was down' --by ana --ledger waiting",
        "note 'took the small one' --run attention --step ready --ledger waiting --json",
        "note x --run nonsense --ledger waiting",
        "note --ledger waiting",
        "pause attention --by ana --reason 'the network' --ledger waiting",
        "pause attention --by ana --ledger waiting --json",
        "pause versions --by ana --ledger waiting --json",
        "pause nonsense --by ana --ledger waiting",
        "pause attention --ledger waiting",
        "unpause attention --by ana --ledger waiting",
        "unpause attention --by ana --ledger waiting",
        "unpause paused --by ana --ledger waiting --json",
        "unpause nonsense --by ana --ledger waiting",
        "unpause attention --ledger waiting",
        "cap --global 8 --ledger waiting",
        "cap --run attention 2 --ledger waiting --json",
        "cap --owner builder none --by ana --ledger waiting",
        "cap --tag gpu 1 --ledger waiting",
        "cap --run nonsense 2 --ledger waiting",
        "cap --global 0 --ledger waiting",
        "cap 4 --ledger waiting",
        "cap --global 4 --ledger missing",
        "budget attention --tokens 5000 --by ana --ledger waiting",
        "budget raise attention --tokens 50 --by ana --ledger waiting --json",
        "budget attention --tokens none --by ana --ledger waiting",
        "budget attention --tokens 6000 --by ana --ledger waiting -q",
        "budget attention --as-planned --by ana --ledger waiting",
        "budget --attempts 1000 --by ana --ledger waiting",
        "budget attention --tokens 5 --ledger waiting",
        "budget attention --tokens many --by ana --ledger waiting",
        "budget attention --ledger waiting",
        "fork attention --at 12 --name what-if --ledger waiting",
        "fork attention --step ready --name again --ledger waiting --json",
        "fork attention --step ready --name again --ledger waiting",
        "fork attention --at 99999 --name x --ledger waiting",
        "fork nonsense --at 3 --name x --ledger waiting",
        "fork attention --name x --ledger waiting",
        "fork release --at 30 --name once-more --ledger complete",
        "cancel paused --by ana --reason 'not needed' --ledger waiting",
        "cancel versions --by ana --ledger waiting --json",
        "cancel paused --by ana --ledger waiting",
        "cancel nonsense --by ana --ledger waiting",
        "cancel paused --ledger waiting",
        "status waiting",
        "erase waiting --variable fresh --run attention",
        "erase waiting --variable fresh --run attention --json",
        "erase waiting --variable fresh --run attention --yes --by ana",
        "erase waiting --variable fresh --run attention --yes --by ana",
        "get fresh --run attention --ledger waiting --json",
        "erase waiting --variable level --run attention --yes --by ana --json",
        "erase waiting --output nonsense --run attention",
        "erase waiting --blob 12",
        "erase waiting --yes",
        "erase missing --record 1",
    ]);
    session.assert_recorded("steering");
}

/// Goal: making and serving a ledger is reported as recorded.
#[test]
fn ledgers_that_are_made_and_served() {
    let mut session = Session::writing(&["waiting"]);
    session.write("a-file", "no ledger\n");
    session.run_all(&[
        "init",
        "init",
        "init --ledger other --json",
        "init --ledger waiting",
        "init --ledger a-file",
        "init --ledger missing/folder",
        "init extra",
        "LEDGER_DIR=third init",
        "serve --ledger missing",
        "serve --ledger a-file --json",
        "serve extra",
    ]);
    session.serve(
        "serve --ledger waiting",
        &[
            "note 'while it is served' --ledger waiting",
            "tick --ledger waiting --json",
            "claim attention --ledger waiting --worker w1",
            "snapshot waiting",
            "serve --ledger waiting",
            "inspect waiting",
        ],
    );
    session.serve("serve --ledger waiting --json", &["note 'again' --ledger waiting --json"]);
    session.assert_recorded("init-serve");
}
