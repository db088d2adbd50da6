//! A ledger that one store held goes to another one, as processes: with `ledger replicate` and `ledger serve --store`, to an
//! emptied store, and after `ledger export` and `ledger import`.

use std::fs;

use super::process::Place;

const PLAN: &str = "\
steps:
  - {id: one, goal: First}
  - {id: two, goal: Second}
  - {id: three, goal: Third}
  - {id: four, goal: Fourth}
  - {id: five, goal: Fifth}
";

/// Another place in the store.
fn another(place: &Place, name: &str) -> String {
    let url = format!("{}-{name}", place.url);
    if let Some(folder) = url.strip_prefix("file://") {
        fs::create_dir(folder).unwrap();
    }
    url
}

/// A server holds the ledger of a folder in a store, and a worker does one step. Returns the epoch.
fn do_one_step(place: &Place, folder: &str, url: &str) -> u64 {
    let mut owner = place.start(&format!("serve --ledger @{folder} --store {url} --json"));
    owner.wait_for("\"type\":\"serving\"");
    let task = place.json(&format!("claim --worker w --ledger @{folder} --json"));
    let token = task["token"].as_str().unwrap();
    place.ledger(&format!("receipt {token} --output done --ledger @{folder}"));
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    place.json(&format!("store status {url} --json"))["epoch"].as_u64().unwrap()
}

/// A ledger that its store held in three epochs, on two machines. Returns the last epoch.
fn held(place: &Place) -> u64 {
    place.plan("first", PLAN);
    do_one_step(place, "first", &place.url);
    let before = do_one_step(place, "second", &place.url);
    let epoch = do_one_step(place, "first", &place.url);
    assert_eq!(epoch, before + 1);
    epoch
}

/// A folder and a store have the same records, and each is whole.
#[track_caller]
fn expect_same(place: &Place, folder: &str, url: &str) {
    for ledger in [&format!("@{folder}"), url] {
        place.ledger(&format!("verify {ledger} --level replay"));
    }
    let export = |ledger: &str| place.ledger(&format!("export {ledger}"));
    assert!(export(&format!("@{folder}")) == export(url), "{folder} and {url} differ");
    let root = place.json(&format!("root --ledger @{folder} --json"));
    let head = format!("{}:{}", root["seq"], root["chain"].as_str().unwrap());
    let copy = format!("copy-of-{folder}-{}", root["seq"]);
    place.ledger(&format!("restore {url} @{copy}"));
    place.ledger(&format!("verify @{copy} --expect-head {head}"));
    fs::remove_dir_all(place.path(&copy)).unwrap();
}

/// Goal: the folder of a ledger that a store held is refused by another store as long as STORE.json binds it, and the error
/// says what to do. Then a copy, and a server, bring it there with all its epochs.
#[test]
fn ledger_moves_to_another_store() {
    let place = Place::new();
    let epoch = held(&place);
    let (copied, served) = (another(&place, "copied"), another(&place, "served"));
    for line in [
        format!("serve --ledger @first --store {copied}"),
        format!("run @plan.yaml --run q --stub --ledger @first --store {copied}"),
        format!("replicate {copied} --ledger @first --once"),
    ] {
        let (code, _, err) = place.run(&line);
        assert_eq!(code, 6, "{line}\n{err}");
        assert!(err.contains(&format!("bound to the store {}", place.url)), "{line}\n{err}");
        let binding = place.path("first/STORE.json").display().to_string();
        let hint = format!("end every process of it, standbys first, remove {binding}");
        assert!(err.contains(&hint), "{line}\n{err}");
    }
    fs::remove_file(place.path("first/STORE.json")).unwrap();
    let line = place.json(&format!("replicate {copied} --ledger @first --once --json"));
    let root = place.json("root --ledger @first --json");
    assert_eq!((&line["seq"], &line["shipped"]), (&root["seq"], &root["seq"]), "{line}");
    expect_same(&place, "first", &copied);
    let status = place.json(&format!("store status {copied} --json"));
    assert_eq!(status["epoch"].as_u64(), Some(epoch));
    // It is not bound: commands write it as an ordinary folder, and the next copy has that, too.
    place.ledger("note written-alone --ledger @first");
    place.ledger(&format!("replicate {copied} --ledger @first --once"));
    expect_same(&place, "first", &copied);
    for url in [&copied, &served] {
        let next = do_one_step(&place, "first", url);
        assert!(next > epoch, "{next} {epoch}");
        expect_same(&place, "first", url);
        fs::remove_file(place.path("first/STORE.json")).unwrap();
    }
    // Its old store is as it was: the second machine has its end there.
    let old = place.json("store status URL --json");
    assert_eq!(old["epoch"].as_u64(), Some(epoch));
}

/// Goal: a store that was emptied gets the ledger again from the folder that held it, once a person unbinds that folder, and
/// another machine goes on there.
#[test]
fn emptied_store_gets_the_ledger_again() {
    let place = Place::in_folder();
    let epoch = held(&place);
    fs::remove_dir_all(place.path("store")).unwrap();
    fs::create_dir(place.path("store")).unwrap();
    let (code, _, err) = place.run("serve --ledger @first --store URL --no-probe");
    assert_eq!(code, 6, "{err}");
    assert!(
        err.contains("no longer has a record of the ledger") && err.contains("STORE.json"),
        "{err}"
    );
    assert_eq!(fs::read_dir(place.path("store")).unwrap().count(), 0);
    fs::remove_file(place.path("first/STORE.json")).unwrap();
    assert_eq!(do_one_step(&place, "first", &place.url), epoch + 1);
    expect_same(&place, "first", &place.url);
    fs::remove_dir_all(place.path("second")).unwrap();
    assert_eq!(do_one_step(&place, "second", &place.url), epoch + 2);
    expect_same(&place, "second", &place.url);
}

/// Goal: an imported ledger goes to a store with the epochs that the exported one had.
#[test]
fn imported_ledger_goes_to_a_store() {
    let place = Place::new();
    let epoch = held(&place);
    let new = another(&place, "imported");
    place.ledger("export URL -o @backup.jsonl");
    place.ledger("import @backup.jsonl --ledger @third");
    let next = do_one_step(&place, "third", &new);
    assert_eq!(next, epoch + 1);
    expect_same(&place, "third", &new);
    assert_eq!(do_one_step(&place, "third", &new), next + 1);
    expect_same(&place, "third", &new);
}
