use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use mainstay_testkit::guarded;
use rustix::process::Signal;

use super::super::guardian;
use super::{LONG, PATIENT_LADDER, comes_true, kill, marked, rerun, runs, start, stop};

/// What is promised for the time after this program was killed.
const PROMISED: Duration = Duration::from_secs(1);

#[test]
fn nothing_survives_a_second_when_the_program_is_killed() {
    if rerun::is_it() {
        return rerun::block_on(async {
            // Ignores the end of input and SIGTERM; with a child in its group, one in a session of its own, and one
            // that is known by its group alone.
            let mut server = start(
                "trap '' TERM; sleep 1000 & setsid sh -c 'while :; do sleep 1000; done' &
                 env -i sh -c 'echo $$; while :; do sleep 1000; done' & while :; do sleep 1000; done",
            );
            let unmarked = server.says_pid().await;
            println!("\nhas {} {unmarked}", server.process.marker());
            std::future::pending::<()>().await;
        });
    }
    let mut program = Program::start("guardian::nothing_survives_a_second_when_the_program_is_killed");
    let (marker, unmarked) = program.says_has();
    assert!(
        comes_true(LONG, || marked(&marker).len() >= 5),
        "the whole tree is there"
    );

    program.kill();
    assert!(
        comes_true_as_promised(|| marked(&marker).is_empty() && !runs(unmarked)),
        "{:?}",
        marked(&marker)
    );
}

#[test]
fn a_guardian_that_died_is_replaced_before_the_next_start_and_knows_all_that_live() {
    if rerun::is_it() {
        return rerun::block_on(async {
            // Only its group leads the second guardian to the server's unmarked child.
            let mut server = start(
                "env -i sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' & exec sleep 1000",
            );
            let child = server.says_pid().await;
            let first = guardian::pid().expect("there is a guardian");
            kill(first.as_raw_nonzero().get(), Signal::KILL);
            assert!(comes_true(LONG, || guardian::pid().is_some_and(|pid| pid != first)));
            println!("\nhas {} {child}", server.process.marker());
            std::future::pending::<()>().await;
        });
    }
    let mut program = Program::start(
        "guardian::a_guardian_that_died_is_replaced_before_the_next_start_and_knows_all_that_live",
    );
    let (marker, unmarked) = program.says_has();

    program.kill();
    assert!(comes_true_as_promised(
        || marked(&marker).is_empty() && !runs(unmarked)
    ));
}

#[test]
fn what_is_left_of_a_program_that_was_killed_with_its_guardian_is_ended_by_the_next_program() {
    if rerun::is_it() {
        return rerun::block_on(async {
            let server = start("trap '' TERM; while :; do sleep 1000; done");
            let guardian = guardian::pid().expect("there is a guardian").as_raw_nonzero();
            println!("\nhas {} {guardian}", server.process.marker());
            std::future::pending::<()>().await;
        });
    }
    let test =
        "guardian::what_is_left_of_a_program_that_was_killed_with_its_guardian_is_ended_by_the_next_program";
    let mut program = Program::start(test);
    let (marker, guardian) = program.says_has();
    // It must not replace its guardian.
    kill(program.child.id().cast_signed(), Signal::STOP);
    kill(guardian, Signal::KILL);
    program.kill();

    let mut next = Program::start(test);
    let (next_marker, _) = next.says_has();
    assert!(
        comes_true(LONG, || marked(&marker).is_empty()),
        "{:?}",
        marked(&marker)
    );
    assert!(!marked(&next_marker).is_empty(), "its own servers run");
}

#[test]
fn a_guardian_that_does_not_listen_is_replaced_and_harms_no_one() {
    if rerun::is_it() {
        return rerun::block_on(async {
            let mut server = start("echo $$; cat");
            let pid = server.says_pid().await;
            let stopped = guardian::pid().expect("there is a guardian");
            kill(stopped.as_raw_nonzero().get(), Signal::STOP);
            // Its pipe fills up; nobody waits for it.
            let stranger = rustix::process::Pid::from_raw(i32::MAX).unwrap();
            assert!(comes_true(LONG, || {
                for _ in 0..1_000 {
                    drop(guardian::watch(stranger));
                }
                guardian::pid().is_some_and(|pid| pid != stopped)
            }));
            assert!(!runs(stopped.as_raw_nonzero().get()));
            assert!(
                runs(pid),
                "to the old guardian it must not look as if the program had ended"
            );
        });
    }
    let mut program =
        Program::start("guardian::a_guardian_that_does_not_listen_is_replaced_and_harms_no_one");
    assert!(
        program
            .ends_within(2 * LONG)
            .is_some_and(|status| status.success())
    );
}

#[test]
fn a_guardian_leaves_with_its_program_and_harms_no_one() {
    if rerun::is_it() {
        return rerun::block_on(async {
            let server = start("exit 0");
            let marker = server.process.marker().to_owned();
            let _ = stop(server.process, &PATIENT_LADDER).await;
            let guardian = guardian::pid()
                .expect("there is a guardian")
                .as_raw_nonzero()
                .get();
            assert!(
                !marked(rerun::OUTER).contains(&guardian),
                "an outer program would sweep it away"
            );
            println!("\nhas {marker} {guardian}");
        });
    }
    let mut bystander = Command::new("sleep")
        .arg("1000")
        .process_group(0)
        .spawn()
        .unwrap();
    let mut program = Program::start("guardian::a_guardian_leaves_with_its_program_and_harms_no_one");
    let (_, guardian) = program.says_has();
    assert!(program.child.wait().unwrap().success());
    assert!(comes_true_as_promised(|| !runs(guardian)));

    let unharmed = runs(bystander.id().cast_signed());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(unharmed);
}

#[test]
fn a_guardian_ends_only_groups_that_were_not_taken_from_its_list() {
    let mut sleepers: Vec<_> = (0..4)
        .map(|_| {
            Command::new("sleep")
                .arg("1000")
                .process_group(0)
                .spawn()
                .unwrap()
        })
        .collect();
    let pids: Vec<_> = sleepers
        .iter()
        .map(|sleeper| sleeper.id().cast_signed())
        .collect();

    let mut shell = Command::new("/bin/sh")
        .args([
            "-c",
            include_str!("../guardian.sh"),
            "guardian",
            "MAINSTAY_TREE=of-nobody.",
        ])
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    for pid in &pids {
        writeln!(input, "+ {pid}").unwrap();
    }
    writeln!(input, "- {}\n- {}\n- {}", pids[0], pids[2], pids[2]).unwrap();
    drop(input);
    let ended: Vec<_> = [1, 3].into_iter().map(|n| sleepers[n].wait().unwrap()).collect();
    assert!(shell.wait().unwrap().success());

    let left: Vec<_> = pids.iter().map(|&pid| runs(pid)).collect();
    for n in [0, 2] {
        sleepers[n].kill().unwrap();
        sleepers[n].wait().unwrap();
    }
    assert!(ended.iter().all(|exit| !exit.success()));
    assert_eq!(left, [true, false, true, false]);
}

/// Whether the condition comes true within what is promised.
fn comes_true_as_promised(condition: impl FnMut() -> bool) -> bool {
    guarded::comes_true_as_promised(PROMISED, condition)
}

/// A second program, killed at the latest when the test ends.
struct Program {
    child: Child,
    stdout: std::io::Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(test: &str) -> Self {
        let mut child = rerun::of(test).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdout }
    }

    /// A marker and a process number.
    fn says_has(&mut self) -> (String, i32) {
        for line in self.stdout.by_ref().map_while(Result::ok) {
            if let Some((marker, pid)) = line.strip_prefix("has ").and_then(|has| has.split_once(' ')) {
                return (marker.to_owned(), pid.parse().unwrap());
            }
        }
        panic!("the program ended before it said what it has");
    }

    fn ends_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let mut ended = None;
        comes_true(time, || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
