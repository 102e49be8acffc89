use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use mainstay::Fleet;

use super::*;
use crate::isolation::{Isolated, IsolationLimits};
use crate::principal::TokenDigest;
use crate::router::Subscribers;

const ONE: HttpCaller = HttpCaller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn other() -> HttpCaller {
    HttpCaller::Token(TokenDigest::of("other"))
}

fn sessions(most: usize, most_of_caller: usize) -> Sessions {
    let subscribers = Arc::new(Subscribers::default());
    let isolated = Isolated::new(Fleet::builder(), subscribers.clone(), IsolationLimits::default());
    let router = Router::new(Fleet::builder().start([]), subscribers, Arc::new(isolated));
    let door = super::super::options::HttpDoor::new().max_sessions(most, most_of_caller);
    Sessions::new(Arc::new(router), &door.limits)
}

fn open(sessions: &Sessions, caller: HttpCaller) -> Result<SessionUse, StatusCode> {
    let opened = sessions.open(Scope::Union, DoorKind::Http, caller);
    opened.map_err(|refusal| refusal.status())
}

fn is_there(sessions: &Sessions, id: &str) -> bool {
    lock(&sessions.table).sessions.contains_key(id)
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_session_is_evicted_and_none_that_is_in_use() {
    let sessions = sessions(4, 4);
    let used = open(&sessions, ONE).unwrap();
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(open(&sessions, ONE).unwrap().id.clone());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // The first is used once more, so the second is idle for longer.
    drop(sessions.find(&idle[0], DoorKind::Http, ONE));
    let next = open(&sessions, ONE).unwrap();
    assert_eq!(
        idle.iter().map(|id| is_there(&sessions, id)).collect::<Vec<_>>(),
        [true, false, true]
    );
    // The search for the second found the third too, which is in use by now.
    let third = sessions.find(&idle[2], DoorKind::Http, ONE).unwrap();
    let last = open(&sessions, ONE).unwrap();
    assert!(!is_there(&sessions, &idle[0]) && is_there(&sessions, &idle[2]));
    assert_eq!(
        open(&sessions, ONE).map(|_| ()),
        Err(StatusCode::TOO_MANY_REQUESTS)
    );
    assert_eq!(
        open(&sessions, other()).map(|_| ()),
        Err(StatusCode::SERVICE_UNAVAILABLE)
    );
    drop((used, next, third, last));
    assert!(open(&sessions, other()).is_ok());
    assert_eq!(lock(&sessions.table).sessions.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_too_many_sessions_loses_one_of_its_own() {
    let sessions = sessions(10, 2);
    let other = open(&sessions, other()).unwrap().id.clone();
    let mut own = Vec::new();
    for _ in 0..5 {
        tokio::time::advance(Duration::from_secs(1)).await;
        own.push(open(&sessions, ONE).unwrap().id.clone());
    }
    assert!(is_there(&sessions, &other), "though it is idle for longer");
    let left: Vec<_> = own.iter().map(|id| is_there(&sessions, id)).collect();
    assert_eq!(left, [false, false, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_evicted_in_the_order_in_which_they_became_idle() {
    const MOST: usize = 3 * CANDIDATES;
    let sessions = sessions(MOST, MOST);
    let mut opened = Vec::new();
    for n in 0..3 * MOST {
        tokio::time::advance(Duration::from_millis(1)).await;
        opened.push(open(&sessions, ONE).unwrap().id.clone());
        let gone = (n + 1).saturating_sub(MOST);
        assert!(gone == 0 || !is_there(&sessions, &opened[gone - 1]));
        assert!(is_there(&sessions, &opened[gone]));
    }
    assert_eq!(lock(&sessions.table).sessions.len(), MOST);
}

#[tokio::test(start_paused = true)]
async fn many_unused_sessions_are_evicted_before_one_that_was_used() {
    let sessions = sessions(10 * UNUSED_LIMIT, 2 * UNUSED_LIMIT);
    let used: Vec<_> = (0..UNUSED_LIMIT / 2)
        .map(|_| open(&sessions, ONE).unwrap().id.clone())
        .collect();
    for id in &used {
        assert!(sessions.find(id, DoorKind::Http, ONE).is_some());
    }
    let mut last = String::new();
    for _ in 0..20 * UNUSED_LIMIT {
        tokio::time::advance(Duration::from_secs(1)).await;
        last = open(&sessions, ONE).unwrap().id.clone();
    }
    let mut table = lock(&sessions.table);
    assert_eq!(table.sessions.len(), 2 * UNUSED_LIMIT);
    assert!(used.iter().all(|id| table.sessions.contains_key(id)));
    assert!(table.sessions.contains_key(&last));
    // With fewer unused ones the longest idle is evicted, used or not.
    let unused = table.sessions.values().filter(|session| !session.was_used());
    let gone: Vec<_> = unused
        .skip(UNUSED_LIMIT / 2)
        .map(|session| session.id.clone())
        .collect();
    for id in gone {
        table.remove(&id);
    }
    table.idle = IdleSessions::default();
    let gone = table.take_longest_idle().unwrap();
    assert!(used.contains(&gone.id));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_unread_streams_are_dropped_first_and_none_that_is_read() {
    let sessions = sessions(10, 10);
    let one = open(&sessions, ONE).unwrap();
    let other = open(&sessions, ONE).unwrap();
    let keep = |session: &HttpSession, number| {
        let stream = Arc::new(ClientStream::resumable(number, session.account.clone()));
        stream.push_answer(Bytes::from_static(b"0123456789").into());
        stream.close();
        session.keep_stream(stream.clone());
        stream
    };
    let read = keep(&one, 1);
    let _reader = read.open(None);
    let mut left = Vec::new();
    for (session, number) in [(&one, 2), (&other, 3), (&one, 4)] {
        tokio::time::advance(Duration::from_secs(1)).await;
        let stream = keep(session, number);
        stream.leave(&stream.open(None));
        left.push(number);
    }
    let kept = || {
        let of = |session: &HttpSession| {
            (1..=4)
                .filter(|n| session.find_stream(*n).is_some())
                .collect::<Vec<_>>()
        };
        (of(&one), of(&other))
    };
    sessions.drop_unread(&|of| of == other.client.principal, 1);
    assert_eq!(kept(), (vec![1, 2, 4], vec![]));
    sessions.drop_unread(&|_| true, 10);
    assert_eq!(kept(), (vec![1, 4], vec![]), "no more than needed");
    sessions.drop_unread(&|_| true, 1000);
    assert_eq!(kept(), (vec![1], vec![]), "a client reads it");
}
