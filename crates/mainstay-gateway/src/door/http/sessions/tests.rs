use std::net::{IpAddr, Ipv4Addr};

use mainstay::Fleet;

use super::*;
use crate::desk::Audience;
use crate::isolation::{Bounds as OfIsolated, Isolated};
use crate::principal::TokenDigest;

const ONE: Caller = Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn other() -> Caller {
    Caller::Token(TokenDigest::of("other"))
}

fn sessions(most: usize, most_of_caller: usize) -> Sessions {
    let audience = Arc::new(Audience::default());
    let isolated = Isolated::new(Fleet::builder(), audience.clone(), OfIsolated::default());
    let desk = Desk::new(Fleet::builder().start([]), audience, Arc::new(isolated));
    let door = super::super::options::HttpDoor::new().max_sessions(most, most_of_caller);
    Sessions::new(Arc::new(desk), &door.bounds)
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
