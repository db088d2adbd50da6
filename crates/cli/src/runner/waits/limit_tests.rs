//! Goal: every sentence of a host about a limit gives the end of the limit, and no other last
//! output is a limit.

use jiff::SignedDuration;
use jiff::civil::date;
use jiff::tz::TimeZone;

use super::*;

/// A Saturday at noon in Berlin.
fn noon() -> Zoned {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    date(2026, 11, 28).at(12, 0, 0, 0).to_zoned(zone).unwrap()
}

fn failed(out: &str, err: &str) -> Option<LimitEnd> {
    let last = LastOutput { code: Some(1), out, err, printed: &noon() };
    last.limit().map(|limit| limit.ends)
}

/// The end of a limit, as a time in Berlin without the slack, or a word.
fn end(found: Option<LimitEnd>) -> String {
    let zone = noon().time_zone().clone();
    match found {
        Some(LimitEnd::At(time) | LimitEnd::After(time)) => {
            time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        Some(LimitEnd::Later) => "later".to_owned(),
        Some(LimitEnd::Person) => "person".to_owned(),
        None => "none".to_owned(),
    }
}

fn expect_ends(cases: &[(&str, &str)]) {
    for (sentence, expected) in cases {
        assert_eq!(end(failed("", sentence)), *expected, "{sentence}");
        assert_eq!(end(failed(sentence, "\n")), *expected, "{sentence}");
        let with_lines = format!("working\nstill working\n\n\u{26a0} {sentence}\n\n");
        assert_eq!(end(failed(&with_lines, "")), *expected, "{sentence}");
    }
}

#[test]
fn sentence_of_claude_code_gives_its_end() {
    expect_ends(&[
        (
            "You've hit your session limit \u{b7} resets 3:34am (Asia/Kolkata)",
            "2026-11-28 23:04:30",
        ),
        (
            "You've hit your session limit \u{b7} resets 4pm (America/New_York)",
            "2026-11-28 22:00:30",
        ),
        (
            "You\u{2019}ve hit your session limit \u{b7} resets 4pm (Europe/Berlin)",
            "2026-11-28 16:00:30",
        ),
        (
            "You've hit your weekly limit \u{b7} resets Dec 2, 1:34am (Asia/Kolkata)",
            "2026-12-01 21:04:30",
        ),
        (
            "You've hit your Opus limit \u{b7} resets Jan 8, 2027, 1:34am (UTC)",
            "2027-01-08 02:34:30",
        ),
        ("You've hit your Sonnet limit \u{b7} resets Jan 8, 1:34am (UTC)", "2027-01-08 02:34:30"),
        ("You're out of usage credits \u{b7} resets 9:54pm (UTC)", "2026-11-28 22:54:30"),
        ("You're out of usage credits", "person"),
        ("You're out of extra usage \u{b7} resets 9:54pm (UTC)", "2026-11-28 22:54:30"),
        ("You've hit your org's monthly spend limit \u{b7} ask your admin to raise it", "person"),
        ("Your usage allocation has been disabled by your admin \u{b7} ask them", "person"),
        ("Your org is out of usage \u{b7} add funds to continue", "person"),
        ("Your group's usage limit is set to $0", "person"),
        ("You've hit your monthly spend limit.", "person"),
        ("Credit balance is too low", "person"),
        ("You've reached your Fable 5 limit", "later"),
        ("You've hit your limit \u{b7} resets 2am (Europe/Berlin)", "2026-11-29 02:00:30"),
        ("5-hour limit reached \u{2219} resets 12am", "2026-11-29 00:00:30"),
        ("5-hour limit reached \u{2219} resets 12pm", "later"),
        ("Claude AI usage limit reached|1795930400", "2026-11-29 06:33:20"),
        (
            "Claude usage limit reached. Your limit will reset at 9am (America/Chicago).",
            "2026-11-28 16:00:30",
        ),
        (
            "API Error: Request rejected (429) \u{b7} This request would exceed your account's rate \
             limit. Please try again later.",
            "later",
        ),
    ]);
}

#[test]
fn sentence_of_codex_gives_its_end() {
    expect_ends(&[
        (
            "You\u{2019}ve hit your usage limit. Upgrade to Pro (https://example.org/pro), visit \
             https://example.org to purchase more credits or try again at 3:34 AM.",
            "2026-11-29 03:34:30",
        ),
        (
            "ERROR: You've hit your usage limit. Upgrade to Pro or try again at Dec 2nd, 2026 1:34 AM.",
            "2026-12-02 01:34:30",
        ),
        ("You've hit your usage limit. Upgrade to Pro or try again later.", "later"),
        (
            "You've hit your usage limit for gpt-5. Switch to another model now, or try again at 11:31 PM.",
            "2026-11-28 23:31:30",
        ),
        ("You've hit your usage limit. Please try again at 3:10 AM (UTC)", "2026-11-29 04:10:30"),
        (
            "You've hit your usage limit. Try again in 5 days 22 hours 11 minutes.",
            "2026-12-04 10:11:00",
        ),
        ("Quota exceeded. Check your plan and billing details.", "person"),
        ("You exceeded your current quota, please check your plan and billing details.", "person"),
        ("stream error: exceeded retry limit, last status: 429 Too Many Requests", "later"),
        ("To use Codex with your ChatGPT plan, upgrade to Plus: https://example.org", "person"),
    ]);
}

#[test]
fn sentence_of_another_host_gives_its_end() {
    expect_ends(&[
        (
            "[API Error: You have exhausted your capacity on this model. Your quota will reset after 2h15m10s.]",
            "2026-11-28 14:15:10",
        ),
        (
            "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset \
             after 4h28m20s.. Retrying after 16761506ms...",
            "2026-11-28 16:28:20",
        ),
        (
            "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 53s.",
            "2026-11-28 12:00:53",
        ),
        (
            "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 0s.",
            "later",
        ),
        ("You have exhausted your daily quota on this model.", "later"),
        (
            "Usage limit reached for some-model.\nAccess resets at 2:55 PM PST.",
            "2026-11-28 23:55:30",
        ),
        ("You have reached your daily some-model quota limit.", "later"),
        ("Quota exceeded for metric requests. Please retry in 28.6s.", "2026-11-28 12:00:29"),
        // OpenCode.
        (
            "Free usage exceeded, subscribe to Go\nretrying in 6h16m - attempt #1",
            "2026-11-28 18:16:00",
        ),
        ("weekly usage limit reached. It will reset in 5 days 10 hours.", "2026-12-03 22:00:00"),
        ("The usage limit has been reached", "later"),
        // Copilot.
        (
            "Sorry, you've hit a rate limit that restricts the number of requests. Please try again in 58 hours.",
            "2026-11-30 22:00:00",
        ),
        (
            "You've reached your weekly rate limit. Please wait for your limit to reset on April 20, \
             2027 at 2:00 AM",
            "2027-04-20 02:00:30",
        ),
        // Cursor.
        (
            "You've hit your usage limit\nGet more with a larger plan.\nYour usage limits will reset \
             when your monthly cycle ends on 12/17/2026.",
            "2026-12-17 00:00:30",
        ),
        // A worker of one's own.
        ("rate limit reached, resets at 3am", "2026-11-29 03:00:30"),
        ("You've hit your limit \u{b7} resets 3am (No/Such_Zone)", "later"),
    ]);
}

#[test]
fn structured_sign_comes_before_the_sentence() {
    let event = |status: &str| {
        format!(
            r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"{status}","resetsAt":1795930400,"rateLimitType":"five_hour"}}}}"#
        )
    };
    let result = |is_error: bool, status: &str, text: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","is_error":{is_error},"api_error_status":{status},"result":"{text}"}}"#
        )
    };
    let sentence = "You've hit your session limit \u{b7} resets 4pm (Europe/Berlin)";
    for (lines, expected) in [
        (vec![event("rejected"), result(true, "429", sentence)], "2026-11-29 06:33:20"),
        (vec![event("allowed"), result(true, "429", sentence)], "2026-11-28 16:00:30"),
        (vec![result(true, "429", "some new words")], "later"),
        (vec![result(true, "500", "Internal server error")], "none"),
        (vec![event("rejected"), result(false, "null", sentence)], "none"),
        (
            vec![
                r#"{"type":"turn.started"}"#.to_owned(),
                r#"{"type":"turn.failed","error":{"message":"You\u2019ve hit your usage limit. Try again at 3:34 AM."}}"#
                    .to_owned(),
            ],
            "2026-11-29 03:34:30",
        ),
        (
            vec![r#"{"type":"turn.failed","error":{"message":"stream disconnected"}}"#.to_owned()],
            "none",
        ),
        (
            vec![
                "{".to_owned(),
                r#"  "error": {"type": "Error", "message": "no more", "code": 429}"#.to_owned(),
                "}".to_owned(),
            ],
            "later",
        ),
    ] {
        assert_eq!(end(failed(&lines.join("\n"), "")), expected, "{lines:?}");
        assert_eq!(end(failed("", &lines.join("\n"))), expected, "{lines:?}");
    }
    let of_code = |code| {
        let last = LastOutput { code: Some(code), out: "", err: "gave up", printed: &noon() };
        last.limit().map(|limit| limit.ends)
    };
    assert_eq!((of_code(173), of_code(1)), (Some(LimitEnd::Later), None));
}

/// The same words occur in code and texts that an agent reads, and in the output of tests.
#[test]
fn words_of_a_limit_elsewhere_are_no_limit() {
    let sentence = "You've hit your session limit \u{b7} resets 3:34am (Asia/Kolkata)";
    let json = |text: &str| format!(r#"{{"type":"result","is_error":true,"result":"{text}"}}"#);
    for output in [
        format!("{sentence}\nrunning 3 tests\ntest a ... ok\ntest b ... FAILED\nerror: 1 failed"),
        format!("src/limits.rs:12:    \"{sentence}\","),
        format!("  left: `{sentence}`"),
        format!("// {sentence}").replacen("// ", "let x = ", 1),
        format!("The test expects that it prints {sentence}"),
        json(&format!("I read a file that says: {sentence}")),
        "Disk quota exceeded".to_owned(),
        "write error: Disk quota exceeded".to_owned(),
        "error: recursion limit reached while expanding `a!`".to_owned(),
        "You've hit your head".to_owned(),
        "exit status 1".to_owned(),
        "attempt to read what exhausted your capacity".to_owned(),
        "Attempt 2 failed: it says that you have exhausted your capacity".to_owned(),
        String::new(),
    ] {
        assert_eq!(failed(&output, ""), None, "{output}");
        assert_eq!(failed("", &output), None, "{output}");
    }
}

#[test]
fn time_of_day_just_passed_is_not_the_one_of_tomorrow() {
    for (sentence, expected) in [
        ("usage limit reached, resets 11:55am", "later"),
        ("usage limit reached, resets 12:01pm", "2026-11-28 12:01:30"),
        ("usage limit reached, resets 11:30am", "2026-11-29 11:30:30"),
        ("usage limit reached, resets Nov 28, 11:55am", "later"),
        ("usage limit reached, resets 15:30", "2026-11-28 15:30:30"),
        ("usage limit reached, resets 13pm", "later"),
    ] {
        assert_eq!(end(failed("", sentence)), expected, "{sentence}");
    }
}

#[test]
fn unknown_zone_gives_no_time() {
    expect_ends(&[
        ("usage limit reached, try again at 3:10 PM BST.", "later"),
        ("usage limit reached, try again at 3:10 PM (BST)", "later"),
        ("usage limit reached, resets 3pm No/Such_Zone", "later"),
        ("Usage limit reached. Access resets at 2:55 PM GMT+5:30.", "2026-11-29 10:25:30"),
        ("usage limit reached, resets 3pm UTC-5", "2026-11-28 21:00:30"),
        ("usage limit reached, resets 3pm (UTC +02:00)", "2026-11-28 14:00:30"),
        ("usage limit reached, resets 15:30 +0530", "2026-11-29 11:00:30"),
        ("usage limit reached, resets 4pm America/New_York", "2026-11-28 22:00:30"),
        ("usage limit reached, resets 3 PM EST", "2026-11-28 21:00:30"),
        ("You've hit your limit \u{b7} resets 9:34 p.m. (Asia/Kolkata)", "2026-11-28 17:04:30"),
        ("You've hit your limit \u{b7} resets 9:34p.m. (UTC)", "2026-11-28 22:34:30"),
        ("You've hit your limit \u{b7} resets 9:34 P.M. Please wait", "2026-11-28 21:34:30"),
        ("usage limit reached, try again at 3:10 PM to go on", "2026-11-28 15:10:30"),
    ]);
}

/// A limit so far in the future has just passed, by another clock.
#[test]
fn date_without_a_year_is_not_almost_a_year_ahead() {
    expect_ends(&[
        ("You've hit your limit \u{b7} resets Oct 20 at 2pm", "later"),
        ("You've hit your limit \u{b7} resets Nov 26 at 2pm", "later"),
        ("You've hit your limit \u{b7} resets Jan 20 at 2pm", "2027-01-20 14:00:30"),
        ("You've hit your limit \u{b7} resets Oct 20, 2027 at 2pm", "2027-10-20 14:00:30"),
    ]);
}

#[test]
fn sentence_is_read_behind_colours_times_and_progress() {
    let sentence = "You've hit your session limit \u{b7} resets 4pm (Europe/Berlin)";
    for text in [
        format!("\u{1b}[31m{sentence}\u{1b}[0m"),
        format!("\u{1b}[1;38;5;196merror:\u{1b}[0m \u{1b}[2K{sentence}"),
        format!("\u{1b}]0;title\u{7}{sentence}\u{1b}]8;;\u{1b}\\"),
        format!("2026-11-28T10:59:58.123Z {sentence}"),
        format!("2026-11-28 11:59:58,123 ERROR {sentence}"),
        format!("[11:59:58] [error] {sentence}"),
        format!("thinking 90 %\r{sentence}"),
        format!("{sentence}\r\n"),
    ] {
        assert_eq!(end(failed("", &text)), "2026-11-28 16:00:30", "{text:?}");
        assert_eq!(end(failed(&text, "")), "2026-11-28 16:00:30", "{text:?}");
    }
}

#[test]
fn delay_is_told_from_a_time_of_a_clock() {
    let by_clock = |text: &str| match failed("", text).unwrap() {
        LimitEnd::At(_) => true,
        LimitEnd::After(_) => false,
        other => panic!("{other:?}"),
    };
    for text in ["resets 3pm", "resets Dec 2, 1am", "your limit will reset at 9am (UTC)"] {
        assert!(by_clock(&format!("usage limit reached, {text}")), "{text}");
    }
    for text in ["try again in 20 seconds", "resets in 2h", "retrying in 6h16m"] {
        assert!(!by_clock(&format!("usage limit reached, {text}")), "{text}");
    }
}

/// A night with a change of the clocks: the time of day counts, not the number of hours.
#[test]
fn time_of_day_follows_the_zone_when_clocks_change() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let evening = date(2026, 10, 24).at(23, 0, 0, 0).to_zoned(zone).unwrap();
    let text = "You've hit your limit \u{b7} resets 6am (Europe/Berlin)";
    let found = limit_in(text, &evening).unwrap();
    let LimitEnd::At(time) = found.ends else { panic!("{found:?}") };
    assert_eq!(time.duration_since(evening.timestamp()), SignedDuration::from_secs(8 * 3600 + 30));
}
