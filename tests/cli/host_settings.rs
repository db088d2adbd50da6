//! Goal: `ledger setup` adds what a host needs and keeps what others wrote, repeated it changes
//! nothing, `--remove` restores the files, and a broken file is refused before anything is changed.

use std::fs;

use super::command::{Ended, Place, start};

const HOSTS: [&str; 6] = ["claude-code", "codex", "gemini", "opencode", "cursor", "vscode"];

fn setup(place: &Place, line: &str) -> Ended {
    let words: Vec<&str> = std::iter::once("setup").chain(line.split_whitespace()).collect();
    let mut command = place.command(&words);
    command.env("HOME", place.path("home"));
    start(&mut command).end()
}

/// The files below the folder, with their content as text.
fn files(place: &Place) -> Vec<(String, String)> {
    let root = place.path("");
    let found = place.snapshot().into_iter().filter_map(|(path, content)| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        Some((name, String::from_utf8(content?).unwrap()))
    });
    found.collect()
}

#[test]
fn setup_is_complete_after_one_call_and_gone_after_removal() {
    for host in HOSTS {
        for user in ["", " --user"] {
            let place = Place::new();
            fs::create_dir(place.path("home")).unwrap();
            setup(&place, &format!("{host}{user} --check")).code(1).says(&["incomplete"]);
            assert!(files(&place).is_empty(), "--check changes nothing");
            setup(&place, &format!("{host}{user}")).code(0).says(&["created"]);
            let all = files(&place);
            assert!(
                all.iter().any(|(_, text)| text.contains(&format!("hook {host} "))
                    || text.contains("\"hook\", \"opencode\"")),
                "{all:?}"
            );
            let in_home = all.iter().all(|(name, _)| name.starts_with("home/"));
            assert_eq!(in_home, !user.is_empty(), "{all:?}");
            setup(&place, &format!("{host}{user} --check")).code(0).says(&["unchanged"]);
            let again = setup(&place, &format!("{host}{user} --json")).code(0);
            assert_eq!(again.lines()[0]["is_complete"], true);
            assert_eq!(files(&place), all, "{host}: repeated it changes nothing");
            setup(&place, &format!("{host}{user} --remove")).code(0).says(&["deleted"]);
            assert!(files(&place).is_empty(), "{host}: {:?}", files(&place));
        }
    }
}

/// Settings of a user, in the layout that the host writes.
const SETTINGS: &str = r#"{
  "model": "opus",
  "permissions": { "allow": ["Bash(make:*)"] },
  "hooks": {
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "notify-send done"
          }
        ]
      }
    ],
    "PreToolUse": []
  },
  "zeta": 1
}
"#;

#[test]
fn settings_of_others_stay_byte_for_byte() {
    for (host, path) in [
        ("claude-code", ".claude/settings.json"),
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
        ("cursor", ".cursor/hooks.json"),
        ("vscode", ".github/hooks/plan-ledger.json"),
    ] {
        let place = Place::new();
        // Cursor's file has a version.
        let settings = SETTINGS.replace("zeta", if host == "cursor" { "version" } else { "zeta" });
        fs::create_dir_all(place.path(path).parent().unwrap()).unwrap();
        place.write(path, &settings);
        setup(&place, host).code(0).says(&["changed"]);
        let text = place.read(path);
        for part in ["\"model\": \"opus\"", "notify-send done", "\"Bash(make:*)\""] {
            assert!(text.contains(part), "{host}: {part} in {text}");
        }
        let place_of = |part: &str| text.find(part).unwrap();
        assert!(
            place_of("model") < place_of("permissions")
                && place_of("hooks") < place_of("notify-send")
        );
        setup(&place, &format!("{host} --remove")).code(0);
        assert_eq!(place.read(path), settings, "{host}");
    }
}

#[test]
fn comments_stay() {
    let place = Place::new();
    fs::create_dir_all(place.path(".gemini")).unwrap();
    let text = "{\n  // mine\n  \"theme\": \"dark\", /* why not */\n}\n";
    place.write(".gemini/settings.json", text);
    setup(&place, "gemini").code(0);
    let with = place.read(".gemini/settings.json");
    assert!(with.contains("// mine") && with.contains("/* why not */"), "{with}");
}

#[test]
fn old_settings_are_replaced() {
    let place = Place::new();
    setup(&place, "claude-code").code(0);
    let path = ".claude/settings.json";
    let now = place.read(path);
    let program = super::command::PROGRAM;
    place.write(path, now.replace(program, "/old/path/ledger").replace("10", "3"));
    setup(&place, "claude-code --check").code(1);
    setup(&place, "claude-code").code(0).says(&["changed"]);
    assert_eq!(place.read(path), now);
}

#[test]
fn broken_settings_are_refused_and_nothing_is_changed() {
    for (text, why) in [
        ("{\n  \"a\": 1,,\n}", "not valid JSON: line 2"),
        ("", ""),
        ("[]", "expected a JSON object"),
        ("{\"hooks\": 3}", "expected an object in `hooks`"),
        ("{\"hooks\": {\"Stop\": {}}}", "expected a list in `Stop`"),
        ("{'a': 1}", "not valid JSON"),
    ] {
        let place = Place::new();
        fs::create_dir_all(place.path(".claude")).unwrap();
        place.write(".claude/settings.json", text);
        if why.is_empty() {
            setup(&place, "claude-code").code(0);
            continue;
        }
        setup(&place, "claude-code").code(2).complains(&[
            "settings.json",
            why,
            "no file was changed",
        ]);
        assert_eq!(place.read(".claude/settings.json"), text);
    }
    let place = Place::new();
    fs::create_dir_all(place.path(".opencode/plugins")).unwrap();
    place.write(".opencode/plugins/plan-ledger.js", "export const mine = 1;\n");
    for line in ["opencode", "opencode --remove"] {
        setup(&place, line).code(2).complains(&["did not write it"]);
    }
    setup(&place, "emacs").code(2).complains(&["claude-code", "vscode, service]"]);
}

/// Dotfiles are often links into a repository.
#[test]
fn linked_settings_stay_linked() {
    let place = Place::new();
    fs::create_dir_all(place.path(".claude")).unwrap();
    let target = place.write("settings-in-dotfiles.json", SETTINGS);
    std::os::unix::fs::symlink(&target, place.path(".claude/settings.json")).unwrap();
    setup(&place, "claude-code").code(0);
    assert!(place.path(".claude/settings.json").is_symlink());
    assert!(place.read("settings-in-dotfiles.json").contains("hook claude-code"));
}

/// The plugin folders and the settings name the same events.
#[test]
fn plugin_folders_are_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts");
    let mut folders = vec![root];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "json") {
                let text = fs::read_to_string(&path).unwrap();
                serde_json::from_str::<serde_json::Value>(&text).unwrap();
                count += 1;
            }
        }
    }
    assert!(count >= 9, "{count}");
}
