//! Tests of tables with tasks, and of files of tools that have more than tasks.

use crate::{PlanFile, lint_text, parse};

fn read(text: &str) -> PlanFile {
    parse("p", text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn ids(plan_file: &PlanFile) -> Vec<&str> {
    plan_file.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

fn done(plan_file: &PlanFile) -> Vec<&str> {
    plan_file.done.keys().map(String::as_str).collect()
}

fn problems(text: &str) -> String {
    lint_text("p", text, None).diagnostics.iter().map(|each| format!("{each}\n")).collect()
}

#[test]
fn tables_with_the_same_columns_are_one_plan() {
    let text = "# Fair\n\n## Hall\n\n| # | Task | Status |\n|---|---|---|\n| A1 | Rent it | `[x]` |\n| A2 | Clean it | `[ ]` |\n\n\
                ## Food\n\n| # | Task | Size | Status |\n|---|---|---|---|\n| B1 | Buy bread | 3 | \u{2705} |\n| B2 | Bake | 4 | open |\n\n\
                ## Again\n\n| # | Task |\n|---|---|\n| A2 | Clean it |\n| B2 | Serve |\n\n\
                ## People\n\n| Name | Phone |\n|---|---|\n| Ana | 1 |\n";
    let file = read(text);
    assert_eq!(ids(&file), ["A1", "A2", "B1", "B2", "3.B2"]);
    assert_eq!(done(&file), ["A1", "B1"]);
    let phases: Vec<&str> = file.plan.phases.iter().map(|phase| phase.id.as_str()).collect();
    assert_eq!(phases, ["Hall", "Food", "Again"]);
    let found = problems(text);
    assert!(found.contains("1 table row under \"People\""), "{found}");
    assert!(found.contains("1 rows repeat a task of an earlier table"), "{found}");
}

#[test]
fn tables_in_other_languages_have_ids_titles_and_statuses() {
    let text = "# \u{8a08}\u{753b}\n\n| \u{30bf}\u{30b9}\u{30af}ID | \u{30bf}\u{30b9}\u{30af}\u{540d} | \u{72b6}\u{614b} |\n|---|---|---|\n\
                | T-1 | \u{7d75} | \u{2705} \u{5b8c}\u{4e86} |\n| T-2 | \u{672c} | \u{2b1c} \u{672a}\u{5b8c}\u{4e86} |\n";
    let file = read(text);
    assert_eq!(ids(&file), ["T-1", "T-2"]);
    assert_eq!(done(&file), ["T-1"]);
}

#[test]
fn headings_of_which_most_have_a_table_of_tasks_are_its_sections() {
    let section = |name: &str, first: u32| {
        let rows =
            format!("| K-{first} | Draw {first} | x |\n| K-{} | Print {first} | y |\n", first + 1);
        format!("## {name} \u{2014} work\n\n| ID | Title | Why |\n|---|---|---|\n{rows}\n")
    };
    let text = format!(
        "# Backlog\n\n{}{}{}## P3 \u{2014} later\n\nIdeas.\n",
        section("P0", 1),
        section("P1", 3),
        section("P2", 5)
    );
    assert_eq!(ids(&read(&text)), ["K-1", "K-2", "K-3", "K-4", "K-5", "K-6"]);
}

#[test]
fn task_elements_may_have_their_title_as_an_attribute() {
    let text = "<tasks>\n  <task id=\"a-1\" title=\"Draw\">\n    <description>Two lines.</description>\n  </task>\n\
                  <task id=\"a-2\" title=\"Print\">\n    <description>Once.</description>\n  </task>\n</tasks>\n\n\
                <verification_criteria>\n- [ ] It is there.\n</verification_criteria>\n";
    let file = read(text);
    assert_eq!(ids(&file), ["a-1", "a-2"]);
    assert_eq!(file.plan.steps[0].title, "Draw");
}

#[test]
fn tags_inside_of_an_object_are_read_and_the_others_named() {
    let task = |id: u32| {
        format!(
            "{{\"id\": {id}, \"title\": \"t{id}\", \"status\": \"pending\", \"dependencies\": [], \"details\": \"d\"}}"
        )
    };
    let text = format!(
        "{{\"tags\": {{\"master\": {{\"tasks\": [{}, {}]}}}}, \"later\": {{\"tasks\": [{}]}}}}",
        task(1),
        task(2),
        task(3)
    );
    let file = read(&text);
    assert_eq!(ids(&file), ["1", "2"]);
    assert!(!format!("{:?}", file.plan.extra).contains("t1"), "{:?}", file.plan.extra);
    assert!(problems(&text).contains("`later` has 1 tasks"), "{}", problems(&text));
    let later = lint_text("p", &text, Some("later")).plan_file.unwrap();
    assert_eq!(ids(&later), ["3"]);
}

#[test]
fn issues_that_are_no_work_are_counted() {
    let issue = |id: &str, kind: &str, more: &str| {
        format!(
            "{{\"id\": \"{id}\", \"title\": \"{id}\", \"issue_type\": \"{kind}\", \"status\": \"open\"{more}}}\n"
        )
    };
    let text = [
        issue("p-1", "task", ""),
        issue("p-2", "molecule", ""),
        issue("p-3", "message", ""),
        issue("p-4", "task", ", \"labels\": [\"gt:rig\"]"),
        issue("p-5", "bug", ", \"labels\": [\"web\"]"),
    ]
    .concat();
    let file = read(&text);
    assert_eq!(ids(&file), ["p-1", "p-5"]);
    let unread: usize = file.report.unread.iter().map(|part| part.count).sum();
    assert_eq!(unread, 3);
}

#[test]
fn parent_by_its_title_comes_after_its_parts() {
    let text = "Title,Description,Parent\nEditor,All of it,\nDraw,a,Editor\nPrint,b,Editor\nShop,c,\nSell,d,Shop\n";
    let file = read(text);
    let titles: Vec<&str> = file.plan.steps.iter().map(|step| step.title.as_str()).collect();
    assert_eq!(titles, ["Draw", "Print", "Editor", "Sell", "Shop"]);
    let circle = "Title,Parent\nA,B\nB,A\nC,\n";
    assert_eq!(read(circle).plan.steps.len(), 3);
}

#[test]
fn file_of_one_task_is_a_plan_of_one_step() {
    let text = |status: &str| {
        format!(
            "---\nid: TASK-7\ntitle: Draw the map\nstatus: {status}\ncreated_date: '2026-01-02'\n---\n\n\
             ## Description\n\nIn two colours.\n\n## Acceptance Criteria\n\n- [ ] #1 It has a scale\n- [ ] #2 It fits\n"
        )
    };
    let file = read(&text("To Do"));
    assert_eq!(ids(&file), ["TASK-7"]);
    assert_eq!(file.plan.steps[0].acceptance.len(), 2);
    assert!(file.done.is_empty());
    assert_eq!(done(&read(&text("Done"))), ["TASK-7"]);
}

#[test]
fn list_with_descriptions_and_flags_is_a_list_of_tasks() {
    let text = r#"[{"category": "a", "description": "Draw", "complete": true}, {"category": "b", "description": "Print", "complete": false}]"#;
    let file = read(text);
    assert_eq!(ids(&file), ["1", "2"]);
    assert_eq!(done(&file), ["1"]);
}
