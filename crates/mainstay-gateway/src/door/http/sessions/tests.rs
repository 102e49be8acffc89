use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use mainstay::Fleet;

use super::super::stream::Stream;
use super::*;
use crate::isolation::{Isolated, IsolationLimits};
use crate::principal::TokenDigest;
use crate::router::Subscribers;

const ONE: Caller = Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn other() -> Caller {
    Caller::Token(TokenDigest::of("other"))
}

fn sessions(most: usize, most_of_caller: usize) -> Sessions {
    let subscribers = Arc::new(Subscribers::default());
    let isolated = Isolated::new(Fleet::builder(), subscribers.clone(), IsolationLimits::default());
    let router = Router::new(Fleet::builder().start([]), subscribers, Arc::new(isolated));
    let door = super::super::options::HttpDoor::new().max_sessions(most, most_of_caller);
    Sessions::new(Arc::new(router), &door.bounds)
}

fn open(sessions: &Sessions, caller: Caller) -> Result<InUse, StatusCode> {
    let opened = sessions.open(Scope::Union, Way::Streamable, caller);
    opened.map_err(|refusal| refusal.status())
}

fn is_there(sessions: &Sessions, id: &str) -> bool {
    sessions.table().sessions.contains_key(id)
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_session_gives_way_and_none_that_is_in_use() {
    let sessions = sessions(4, 4);
    let used = open(&sessions, ONE).unwrap();
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(open(&sessions, ONE).unwrap().id.clone());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // The first is used once more, so the second is idle for longer.
    drop(sessions.find_any(&idle[0], Way::Streamable, ONE));
    let next = open(&sessions, ONE).unwrap();
    assert_eq!(
        idle.iter().map(|id| is_there(&sessions, id)).collect::<Vec<_>>(),
        [true, false, true]
    );
    // The third was looked up together with the second, and is in use by now.
    let third = sessions.find_any(&idle[2], Way::Streamable, ONE).unwrap();
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
    assert_eq!(sessions.table().sessions.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_too_many_sessions_gives_up_its_own() {
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
async fn many_sessions_give_way_in_the_order_in_which_they_became_idle() {
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
    assert_eq!(sessions.table().sessions.len(), MOST);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_sessions_that_were_never_used_gives_way_before_one_that_was() {
    let sessions = sessions(10 * CROWD, 2 * CROWD);
    let used: Vec<_> = (0..CROWD / 2)
        .map(|_| open(&sessions, ONE).unwrap().id.clone())
        .collect();
    for id in &used {
        assert!(sessions.find_any(id, Way::Streamable, ONE).is_some());
    }
    let mut last = String::new();
    for _ in 0..20 * CROWD {
        tokio::time::advance(Duration::from_secs(1)).await;
        last = open(&sessions, ONE).unwrap().id.clone();
    }
    let mut table = sessions.table();
    assert_eq!(table.sessions.len(), 2 * CROWD);
    assert!(used.iter().all(|id| table.sessions.contains_key(id)));
    assert!(table.sessions.contains_key(&last));
    // Without a crowd, the longest idle gives way, used or not.
    let unused = table.sessions.values().filter(|session| !session.was_used());
    let gone: Vec<_> = unused.skip(CROWD / 2).map(|session| session.id.clone()).collect();
    for id in gone {
        table.remove(&id);
    }
    table.idle = Idle::default();
    let gone = table.longest_idle().unwrap();
    assert!(used.contains(&gone.id));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_answers_that_nobody_came_back_for_are_given_up_first_and_none_that_is_read() {
    let sessions = sessions(10, 10);
    let one = open(&sessions, ONE).unwrap();
    let other = open(&sessions, ONE).unwrap();
    let keep = |session: &Session, number| {
        let stream = Arc::new(Stream::kept(number, session.account.clone()));
        stream.answer(Bytes::from_static(b"0123456789").into());
        stream.close();
        session.keep(stream.clone());
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
        let of = |session: &Session| (1..=4).filter(|n| session.find(*n).is_some()).collect::<Vec<_>>();
        (of(&one), of(&other))
    };
    sessions.forget_left_behind(&|of| of == other.client.principal, 1);
    assert_eq!(kept(), (vec![1, 2, 4], vec![]));
    sessions.forget_left_behind(&|_| true, 10);
    assert_eq!(kept(), (vec![1, 4], vec![]), "no more than needed");
    sessions.forget_left_behind(&|_| true, 1000);
    assert_eq!(kept(), (vec![1], vec![]), "somebody reads it");
}
