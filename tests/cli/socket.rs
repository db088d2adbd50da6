//! The socket of a ledger that is held: stale, long, silent, rude, crowded; and holders that die.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plan_ledger::{BatchKey, Environment, Ledger, Plan, RunPolicy, Step};
use plan_ledger_cli::protocol::{Answer, Failure, MESSAGE_LENGTH_MAX};
use plan_ledger_cli::requests::{ClaimRequest, Request, SetRequest};
use plan_ledger_cli::server::{CONNECTIONS_MAX, Client, SOCKET_NAME, while_serving};
use serde_json::{Value, json};

use super::command::{Place, start, wait_until};

fn plan(count: usize) -> Plan {
    let step = |number: usize| Step { id: format!("s{number}"), ..Step::default() };
    Plan { steps: (1..=count).map(step).collect(), ..Plan::default() }
}

/// A ledger in that folder with a run of so many steps.
pub(crate) fn ledger(dir: &Path, steps: usize) -> Ledger {
    let ledger = Ledger::create(dir, &Environment::system()).unwrap();
    ledger.start_run("r", &plan(steps), RunPolicy::default()).unwrap();
    ledger
}

fn claim(worker: &str) -> Request {
    ClaimRequest {
        worker: worker.to_owned(),
        ..ClaimRequest::new(plan_ledger::plan::Secret([7; 16]))
    }
    .into()
}

/// One request by a client of its own.
fn called(dir: &Path, request: &Request) -> Result<Answer, Failure> {
    Client::new(dir, &Environment::system()).call(request)
}

#[track_caller]
pub(crate) fn quiet(complaint: &str) {
    panic!("{complaint}");
}

/// One request on a connection, as a client without a library writes it.
pub(crate) fn asked(stream: &UnixStream, request: &str) -> Answer {
    (&mut &*stream).write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// The answer to one act on a connection of its own.
pub(crate) fn requested(socket: &Path, request: &Request) -> Answer {
    asked(&UnixStream::connect(socket).unwrap(), &serde_json::to_string(request).unwrap())
}

/// Goal: the protocol needs nothing but a socket and JSON, and answers what it cannot understand.
#[test]
fn anybody_can_speak_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 3);
    while_serving(&ledger, &dir, quiet, || {
        let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        let secret = "9f".repeat(16);
        let first =
            format!(r#"{{"act":"claim","run":"r","worker":"w","secret":"{secret}","once":"k1"}}"#);
        let answer = asked(&stream, &first);
        assert_eq!((answer.code, answer.lines[0]["step"]["id"].as_str()), (0, Some("s1")));
        // The same again under the same key: the same claim, and no other.
        let again = asked(&stream, &first);
        assert_eq!(again, answer);
        for (request, words) in [
            ("", "invalid request"),
            ("claim", "invalid request"),
            ("[]", "invalid request"),
            (r#"{"act":"fly"}"#, "unknown variant `fly`"),
            (r#"{"act":"claim"}"#, "missing field `worker`"),
            (r#"{"act":"claim","worker":"w"}"#, "missing field `secret`"),
            (r#"{"act":"claim","worker":"w","secret":"9f"}"#, "expected a secret"),
            (r#"{"act":"claim","worker":"w","colour":1}"#, "unknown field `colour`"),
            (r#"{"act":"renew","token":"x"}"#, "expected a token"),
            (r#"{"act":"renew","token":"7"}"#, "expected a token"),
            (&format!(r#"{{"act":"renew","token":"1-{secret}","once":7}}"#), "once"),
            (r#"{"act":"set","name":"n","value":1,"by":"b","run":"none"}"#, "no run `none`"),
        ] {
            let answer = asked(&stream, request);
            assert_eq!(answer.code, 2, "{request}: {answer:?}");
            let message = answer.lines[0]["message"].as_str().unwrap();
            assert!(message.contains(words), "{request}: {message}");
        }
        let long = format!(r#"{{"act":"renew","token":"1-{secret}","once":"{}"}}"#, "k".repeat(65));
        assert_eq!(asked(&stream, &long).code, 6);
        assert_eq!(asked(&stream, &format!(r#"{{"act":"renew","token":"1-{secret}"}}"#)).code, 6);
    });
    assert!(!dir.join(SOCKET_NAME).exists());
    assert_eq!(ledger.state().unwrap().in_flight.len(), 1);
    ledger.close().unwrap();
}

/// Story: a fork was asked for through the socket, and a run of that name was there. Since every
/// request has a key, it was taken for the same fork asked for again, and answered as done.
#[test]
fn a_fork_of_a_name_that_is_taken_is_refused_and_the_same_request_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 1);
    while_serving(&ledger, &dir, quiet, || {
        let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        let fork = |once: &str| {
            let request = json!({ "act": "fork", "run": "r", "name": "other", "at": 5, "by": "ana", "once": once });
            asked(&stream, &request.to_string())
        };
        assert_eq!(fork("k1").code, 0);
        assert_eq!(fork("k1").code, 0);
        let refused = fork("k2");
        assert_eq!((refused.code, refused.lines[0]["rejection"].as_str()), (6, Some("run_exists")));
    });
    assert_eq!(ledger.state().unwrap().runs.len(), 2);
}

/// Goal: a request that is too long is refused, whatever it is, and affects no other client.
#[test]
fn a_message_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 1);
    while_serving(&ledger, &dir, quiet, || {
        let stream = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        let writer = stream.try_clone().unwrap();
        let flood = move || {
            let piece = vec![b'x'; 1 << 20];
            let pieces = usize::try_from(MESSAGE_LENGTH_MAX >> 20).unwrap() + 1;
            // It is not read to its end.
            (0..pieces).try_for_each(|_| (&writer).write_all(&piece))
        };
        let flooding = std::thread::spawn(flood);
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).unwrap();
        let answer: Answer = serde_json::from_str(&answer).unwrap();
        assert_eq!((answer.code, answer.lines[0]["kind"].as_str()), (6, Some("too_large")));
        drop(stream);
        let _ = flooding.join().unwrap();
        let request = SetRequest {
            run: None.into(),
            name: "n".to_owned(),
            value: json!("v".repeat(usize::try_from(MESSAGE_LENGTH_MAX).unwrap())),
            if_version: None,
            by: "b".to_owned().into(),
        };
        let refused = called(&dir, &request.into()).unwrap_err();
        assert_eq!(refused.json()["kind"], "too_large");
        assert_eq!(called(&dir, &claim("w")).unwrap().code, 0);
    });
}

/// Goal: a path that no address of a socket can hold is served all the same.
#[test]
fn a_long_path_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a".repeat(120)).join("b".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let dir = deep.join("c.ledger");
    let ledger = ledger(&dir, 1);
    while_serving(&ledger, &dir, quiet, || {
        assert!(dir.join(SOCKET_NAME).exists());
        assert_eq!(called(&dir, &claim("w")).unwrap().code, 0);
    });
}

/// Story: one process opened all connections, sent a byte now and then, and kept every other client out;
/// leases ran out meanwhile.
/// Goal: connections that say nothing make room, and their number keeps no client out.
#[test]
fn connections_that_say_nothing_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 1);
    let socket = dir.join(SOCKET_NAME);
    while_serving(&ledger, &dir, quiet, || {
        let crowd: Vec<_> =
            (0..CONNECTIONS_MAX).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        for stream in &crowd {
            (&mut &*stream).write_all(br#"{"act":"#).unwrap();
        }
        let one_more = UnixStream::connect(&socket).unwrap();
        assert_eq!(asked(&one_more, r#"{"act":"tick"}"#).code, 0);
        assert_eq!(called(&dir, &claim("w")).unwrap().code, 0);
        let closed = crowd.iter().filter(|stream| {
            stream.set_nonblocking(true).unwrap();
            matches!((&mut &**stream).read(&mut [0]), Ok(0))
        });
        assert!((1..=2).contains(&closed.count()));
    });
}

/// Story: 60 clients that sent 16 MiB without a line end took a gigabyte of the server's memory.
#[test]
fn messages_without_an_end_have_a_common_limit() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 1);
    let socket = dir.join(SOCKET_NAME);
    while_serving(&ledger, &dir, quiet, || {
        let part = vec![b'x'; 15 << 20];
        let sent = |stream: &UnixStream| (&mut &*stream).write_all(&part).is_ok();
        let crowd: Vec<_> = (0..10).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let all: Vec<bool> = crowd.iter().map(sent).collect();
        assert_eq!(called(&dir, &claim("w")).unwrap().code, 0);
        let closed = crowd.iter().zip(all).filter(|(stream, was_sent)| {
            stream.set_nonblocking(true).unwrap();
            !was_sent || !matches!((&mut &**stream).read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
        assert!((1..=3).contains(&closed.count()));
    });
}

/// Story: when incomplete messages had more bytes than the server keeps, the longest one was dropped: many
/// connections of one process cost another process its one long message.
/// Method: the many connections are those of another process.
#[test]
fn long_message_survives_many_short_ones_of_another_process() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        super::command::report_skipped("python3 is not installed");
        return;
    }
    let place = Place::new();
    place.ledger("init").code(0);
    place.write(
        "flood.py",
        "import socket, time
part, held = b'x' * (900 << 10), []
for _ in range(160):
    s = socket.socket(socket.AF_UNIX)
    s.connect('.ledger/serve.sock')
    s.settimeout(5)
    held.append(s)
    try: s.sendall(part)
    except OSError: pass
open('flooded', 'w').write('x')
time.sleep(600)
",
    );
    let serving = place.serve();
    let text = "y".repeat(60_000);
    let start_of = format!(r#"{{"padding":"{}","#, "y".repeat(12 << 20));
    let own = UnixStream::connect(place.path(".ledger").join(SOCKET_NAME)).unwrap();
    (&own).write_all(start_of.as_bytes()).unwrap();
    let mut python = std::process::Command::new("python3")
        .arg("flood.py")
        .current_dir(place.path(""))
        .spawn()
        .unwrap();
    wait_until("the other process has sent its parts", || place.path("flooded").exists());
    let rest = format!(r#""act":"note","text":"{text}","by":"ana"}}"#);
    let answered = std::panic::catch_unwind(|| asked(&own, &rest));
    python.kill().unwrap();
    python.wait().unwrap();
    let answer = answered.expect("the connection with the long message was closed");
    assert!([0, 2].contains(&answer.code), "{answer:?}");
    serving.dismiss();
}

/// Goal: a client that says nothing, or only half a message, disturbs no other client; the end of the
/// service does not wait for it, and half a message is not acted upon.
#[test]
fn silent_clients_are_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 2);
    let mut silent = while_serving(&ledger, &dir, quiet, || {
        let silent = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        let half = UnixStream::connect(dir.join(SOCKET_NAME)).unwrap();
        (&half).write_all(br#"{"act":"claim","worker":"half"}"#).unwrap();
        assert_eq!(called(&dir, &claim("w")).unwrap().code, 0);
        silent
    });
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "it was told that it is over");
    let state = ledger.state().unwrap();
    assert_eq!(state.in_flight.len(), 1);
}

/// Goal: whatever lies where the socket is to be does not keep the next holder from serving.
#[test]
fn a_stale_socket_is_no_obstacle() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}, {id: c}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let holder = place.serve();
    place.ledger("claim --worker w1").code(0);
    holder.kill();
    assert!(place.path(".ledger/serve.sock").exists());
    // Without a listener the command opens the ledger itself; readers are not affected.
    place.ledger("claim --worker w2").code(0);
    place.ledger("verify .ledger").code(0);
    place.ledger("inspect .ledger").code(0);
    let holder = place.serve();
    place.ledger("claim --worker w3").code(0);
    holder.dismiss();
    assert!(!place.path(".ledger/serve.sock").exists());
    assert_eq!(place.state().in_flight.len(), 3);
    place.write(".ledger/serve.sock", "an unrelated file");
    place.ledger("claim --worker w4").code(3);
    let holder = place.serve();
    place.ledger("tick").code(0);
    holder.dismiss();
}

/// Goal: where a process has the lock without serving, who waits is let in when they are
/// done, and told who it is if they are not done in time.
#[test]
fn a_holder_that_does_not_serve_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let held = ledger(&dir, 2);
    let begun = Instant::now();
    let refused = called(&dir, &claim("w")).unwrap_err();
    assert!(begun.elapsed() >= plan_ledger_cli::server::LOCK_WAIT);
    assert_eq!(refused.json()["exit_code"], 5);
    let message = refused.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| called(&dir, &claim("w")));
        std::thread::sleep(Duration::from_millis(100));
        held.close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().code, 0);
    });
}

/// Goal: an act that was carried out, and of which the answer never came, is not done again by its
/// asker, who finds the ledger free.
#[test]
fn an_act_whose_answer_is_lost_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let held = ledger(&dir, 3);
    let listener = UnixListener::bind(dir.join(SOCKET_NAME)).unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| called(&dir, &claim("w")));
        let (stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let mut request: Value = serde_json::from_str(&request).unwrap();
        let once = request.as_object_mut().unwrap().remove("once").unwrap();
        let key = BatchKey::new(once.as_str().unwrap().as_bytes()).unwrap();
        let request: Request = serde_json::from_value(request).unwrap();
        let done = request.execute(&held, Some(&key)).unwrap();
        // It ends before it has answered.
        drop(listener);
        std::fs::remove_file(dir.join(SOCKET_NAME)).unwrap();
        held.close().unwrap();
        drop(stream);
        let answer = asking.join().unwrap().unwrap();
        assert_eq!(answer.lines[0]["token"], done.lines[0]["token"], "{answer:?}");
    });
    let (ledger, _) = Ledger::open_with(&dir, &Environment::system()).unwrap();
    assert_eq!(ledger.state().unwrap().in_flight.len(), 1, "it was done twice");
}

/// Story: a holder had no room for a receipt, and the same was said again as if it were another one. What had been
/// recorded the first time would have been refused as too late.
#[test]
fn what_is_asked_again_is_the_same_request() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let held = ledger(&dir, 3);
    let listener = UnixListener::bind(dir.join(SOCKET_NAME)).unwrap();
    let (claim, environment) = (claim("w"), Environment::system());
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut client = Client::new(&dir, &environment);
            client.call_until(&claim, |outcome| outcome.as_ref().unwrap().code == 0).unwrap()
        });
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut requests = [(); 2].map(|()| {
            let mut request = String::new();
            reader.read_line(&mut request).unwrap();
            (&stream).write_all(b"{\"code\":7,\"lines\":[]}\n").unwrap();
            request
        });
        assert_eq!(requests[0], requests[1]);
        // It did it all the same, and is gone before it is asked for the third time.
        let mut members: Value = serde_json::from_str(&std::mem::take(&mut requests[0])).unwrap();
        let once = members.as_object_mut().unwrap().remove("once").unwrap();
        let key = BatchKey::new(once.as_str().unwrap().as_bytes()).unwrap();
        let done =
            serde_json::from_value::<Request>(members).unwrap().execute(&held, Some(&key)).unwrap();
        drop(listener);
        std::fs::remove_file(dir.join(SOCKET_NAME)).unwrap();
        held.close().unwrap();
        drop(stream);
        let answer = asking.join().unwrap();
        assert_eq!(answer.lines[0]["token"], done.lines[0]["token"], "{answer:?}");
    });
}

/// Story: the holder is killed again and again while eight clients set variables. Each act was
/// done once, whether or not its answer came through.
#[test]
fn a_holder_that_dies_costs_no_act_and_doubles_none() {
    const ACTS: u64 = 40;
    const CLIENTS: u64 = 8;
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let dir: PathBuf = place.path(".ledger");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let set = |client: u64| {
            let dir = &dir;
            scope.spawn(move || {
                let mut asking = Client::new(dir, &Environment::system());
                for number in 0..ACTS {
                    let request = SetRequest {
                        run: None.into(),
                        name: format!("v{client}"),
                        value: json!(number),
                        if_version: Some(number),
                        by: "b".to_owned().into(),
                    };
                    let answer = asking.call(&request.into()).unwrap();
                    assert_eq!(answer.code, 0, "{client}/{number}: {answer:?}");
                    assert_eq!(answer.lines[0]["version"], number + 1);
                }
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(set).collect();
        let (place, over) = (&place, &is_over);
        let murder = scope.spawn(move || {
            let mut killed = 0;
            while !over.load(Ordering::Acquire) {
                let holder = start(&mut place.command(&["serve"]));
                wait_until("it serves", || holder.said("serving") || over.load(Ordering::Acquire));
                std::thread::sleep(Duration::from_millis(20 + killed % 7 * 5));
                holder.kill();
                killed += 1;
            }
            killed
        });
        for client in clients {
            client.join().unwrap();
        }
        is_over.store(true, Ordering::Release);
        assert!(murder.join().unwrap() > 0);
    });
    let state = place.state();
    let run = state.runs.values().next().unwrap();
    for client in 0..CLIENTS {
        assert_eq!(run.variables[&format!("v{client}")].version, ACTS);
    }
    place.ledger("verify .ledger --level replay").code(0);
}
