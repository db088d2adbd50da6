//! A ledger that lives in a git checkout: it is found from other worktrees, and a folder that was rolled
//! back is noticed. The files of git are written by hand: its program is not needed.

use std::fs;
use std::path::Path;

use super::command::Place;

/// A main worktree `main` and a linked one `linked`, as `git worktree add` leaves them.
fn worktrees(place: &Place) {
    fs::create_dir_all(place.path("main/.git/worktrees/linked")).unwrap();
    fs::create_dir_all(place.path("linked/src")).unwrap();
    let git_dir = place.path("main/.git/worktrees/linked").display().to_string();
    place.write("linked/.git", format!("gitdir: {git_dir}\n"));
    place.write("main/.git/worktrees/linked/commondir", "../..\n");
}

fn in_folder(place: &Place, folder: &str, line: &str) -> super::command::Ended {
    let words: Vec<_> = line.split(' ').collect();
    super::command::start(place.command(&words).current_dir(place.path(folder))).end()
}

/// Goal: workers in worktrees of their own share one ledger without being told where it is.
#[test]
fn ledger_of_the_main_worktree_is_found_from_a_linked_one() {
    let place = Place::new();
    worktrees(&place);
    place.write("main/plan.yaml", "steps: [{id: a}, {id: b}]\n");
    in_folder(&place, "main", "init").code(0);
    in_folder(&place, "main", "plan propose plan.yaml").code(0);
    in_folder(&place, "linked/src", "claim --worker w").code(0);
    in_folder(&place, "linked", "status").code(0).says(&["working on: #1 a"]);
    assert!(!place.path("linked/.ledger").exists());
    // A ledger of its own comes first.
    in_folder(&place, "linked", "init").code(0);
    in_folder(&place, "linked/src", "status").code(0).says(&["no run has been started"]);
}

/// The ledger of the main worktree is gone: a command in a linked one begins no other one.
#[test]
fn ledger_of_a_main_worktree_that_is_gone_is_known_in_a_linked_one() {
    let place = Place::new();
    worktrees(&place);
    place.write("main/plan.yaml", "steps: [{id: a}]\n");
    place.write("linked/plan.yaml", "steps: [{id: a}]\n");
    in_folder(&place, "main", "run plan.yaml --stub").code(0);
    fs::remove_dir_all(place.path("main/.ledger")).unwrap();
    let said = ["a ledger with at least ", "it is gone"];
    in_folder(&place, "linked", "run plan.yaml --stub").code(6).complains(&said);
    in_folder(&place, "linked/src", "status").code(2).complains(&said);
    in_folder(&place, "linked/src", "prime").code(0).says(&said);
    assert!(!place.path("linked/.ledger").exists());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Goal: work that is done is not dispatched again because an agent restored an older folder.
#[test]
fn ledger_that_was_rolled_back_is_not_written_to() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: echo >> done}, {id: b, after: [a], command: echo >> done}]\n",
    );
    place.ledger("init").code(0);
    copy(&place.path(".ledger"), &place.path("older"));
    place.ledger("run plan.yaml").code(0);
    copy(&place.path(".ledger"), &place.path("newer"));
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    copy(&place.path("older"), &place.path(".ledger"));
    let refused = "the ledger was rolled back: it ends at record 0, and had record ";
    place.ledger("run plan.yaml").code(6).complains(&[refused, "--accept-rollback"]);
    place.ledger("note hello").code(6).complains(&[refused]);
    place.ledger("status").code(0).complains(&[refused]);
    assert_eq!(place.read("done").lines().count(), 2);
    // The newer state is no rollback, and neither is a copy elsewhere.
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    copy(&place.path("newer"), &place.path(".ledger"));
    place.ledger("note hello").code(0);
    place.ledger("note hello --ledger older").code(0);
    // It can be meant.
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    copy(&place.path("newer"), &place.path(".ledger"));
    place.ledger("note hello").code(6);
    place.ledger("note hello --accept-rollback").code(0);
    place.ledger("note hello").code(0);
    // Another ledger in the same place has a history of its own.
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    place.ledger("run plan.yaml").code(6).complains(&["it is gone", "--accept-rollback"]);
    place.ledger("run plan.yaml --accept-rollback").code(0);
}
