use std::future::{pending, ready};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::header;
use mainstay::Fleet;
use mainstay::gateway::message::{Params, RawJson};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::super::guard::HttpCaller;
use super::super::session::HttpSession;
use super::super::timeouts::HOLD_BACK_TIMEOUT;
use super::*;
use crate::answer_kind::AnswerKind;
use crate::budget::{Budget, BudgetLimits, MIB};
use crate::client::{Client, Outbox};
use crate::isolation::{Isolated, IsolationLimits};
use crate::principal::Principal;
use crate::protocol::ClientIntroduction;
use crate::router::tasks::ClientTasks;
use crate::scope::Scope;
use crate::sessions::{DoorKind, SessionNotes};

const BOTH: Accepts = Accepts {
    json: true,
    events: true,
};

fn account() -> Account {
    Arc::new(Budget::default()).account(Principal::session(1))
}

fn session() -> SessionUse {
    let none_isolated = Arc::new(Isolated::new(
        Fleet::builder(),
        Arc::default(),
        IsolationLimits::default(),
    ));
    let client = Client::of_session(
        Scope::Union,
        &none_isolated,
        &ClientTasks::new(false),
        None,
        SessionNotes::new(DoorKind::Http, Arc::default()),
    );
    let caller = HttpCaller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
    SessionUse::new(HttpSession::new(
        "id".to_owned(),
        DoorKind::Http,
        caller,
        client,
        account(),
    ))
}

/// Lets a client introduce itself with these parameters of `initialize`.
fn introduce(client: &Client, said: &str) {
    let said = Params::new(RawJson::from_text(said).ok());
    let said = ClientIntroduction::of_initialize(&said).unwrap();
    client.introduce(&said, account().hold(said.bytes()).unwrap());
}

fn answered(text: &'static str) -> Option<HttpAnswer> {
    let result = RawJson::from_text(text).map_err(|_| unreachable!("it is JSON"));
    Some(HttpAnswer::One(answer_of(result)))
}

fn answer_of(result: Result<RawJson, RpcError>) -> RequestAnswer {
    RequestAnswer {
        id: RawJson::from(1),
        result,
        kind: AnswerKind::Other,
        hint: None,
    }
}

fn head_timer() -> HeadTimer {
    HeadTimer::default()
}

fn kind(response: &Response<ResponseBody>) -> &str {
    response.headers()[header::CONTENT_TYPE].to_str().unwrap()
}

async fn piece(response: &mut Response<ResponseBody>) -> String {
    let frame = response
        .body_mut()
        .frame()
        .await
        .expect("a piece")
        .expect("no error");
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_long_silence_is_broken_by_a_stream_that_can_be_resumed() {
    let session = session();
    for (version, first) in [
        ("2025-11-25", "id: 1-0\nretry: 1000\ndata: \n\n"),
        ("2025-06-18", ":\n\n"),
    ] {
        introduce(&session.client, &format!(r#"{{"protocolVersion":"{version}"}}"#));
        let stream = session.new_stream().for_client(BOTH);
        let started = Instant::now();
        let mut response = respond(
            Box::pin(pending()),
            stream,
            Some(session.clone()),
            BOTH,
            &head_timer(),
        )
        .await;
        assert_eq!(started.elapsed(), HOLD_BACK_TIMEOUT);
        assert_eq!(kind(&response), "text/event-stream");
        assert_eq!(piece(&mut response).await, first);
        assert_eq!(
            piece(&mut response).await,
            ":\n\n",
            "and again, as long as it lasts"
        );
        assert_eq!(piece(&mut response).await, ":\n\n");
    }
    assert!(
        session.find_stream(1).is_some(),
        "kept for a client that comes back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_no_events_gets_one_body() {
    let session = session();
    let accepts = Accepts {
        json: true,
        events: false,
    };
    let work = Box::pin(async {
        sleep(10 * HOLD_BACK_TIMEOUT).await;
        answered("{}")
    });
    let stream = session.new_stream().for_client(accepts);
    let response = respond(work, stream, Some(session), accepts, &head_timer()).await;
    assert_eq!(kind(&response), "application/json");
}

#[tokio::test]
async fn events_before_an_answer_that_is_there_already_come_before_it() {
    let session = session();
    let stream = session.new_stream().for_client(BOTH);
    stream.send(Bytes::from_static(b"{\"before\":1}"));
    let work = Box::pin(ready(answered("{\"answer\":1}")));
    let mut response = respond(work, stream, Some(session), BOTH, &head_timer()).await;
    assert_eq!(piece(&mut response).await, "id: 1-1\ndata: {\"before\":1}\n\n");
    assert_eq!(
        piece(&mut response).await,
        "id: 1-2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"answer\":1}}\n\n"
    );
    assert!(response.body_mut().frame().await.is_none());
}

#[tokio::test]
async fn a_legacy_request_goes_on_without_its_client_and_a_modern_one_does_not() {
    let session = session();
    for (owner, goes_on) in [(Some(session.clone()), true), (None, false)] {
        let (end, ended) = oneshot::channel();
        let (go, gone) = oneshot::channel::<()>();
        let work = Box::pin(async move {
            let _ = gone.await;
            let _ = end.send(());
            answered("{}")
        });
        let head_timer = head_timer();
        let waiting = respond(
            work,
            session.new_stream().for_client(BOTH),
            owner,
            BOTH,
            &head_timer,
        );
        let left = tokio::time::timeout(Duration::from_millis(1), waiting).await;
        assert!(left.is_err(), "the client went away");
        assert_eq!(go.send(()).is_ok(), goes_on);
        assert_eq!(ended.await.is_ok(), goes_on);
    }
}

#[tokio::test]
async fn a_stream_that_its_modern_client_leaves_ends_the_request() {
    let stream = Arc::new(ClientStream::once(account()));
    stream.send(Bytes::from_static(b"{}"));
    let (end, ended) = oneshot::channel::<()>();
    let work = Box::pin(async move {
        pending::<()>().await;
        drop(end);
        None
    });
    let response = respond(work, stream, None, BOTH, &head_timer()).await;
    assert_eq!(kind(&response), "text/event-stream");
    drop(response);
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    assert!(ended.expect("in time").is_err());
}

#[tokio::test]
async fn a_large_message_is_framed_without_a_copy() {
    let large = Bytes::from(vec![b'x'; 1 << 20]);
    let stream = Arc::new(ClientStream::once(account()));
    stream.send(large.clone());
    stream.close();
    let mut response = events(EventReader::open(stream, None, Box::new(())));
    assert_eq!(piece(&mut response).await, "data: ");
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap().as_ptr(), large.as_ptr());
    assert_eq!(piece(&mut response).await, "\n\n");
}

#[tokio::test]
async fn a_large_answer_is_sent_without_a_copy_and_its_length_is_known() {
    let result = RawJson::from_value(&"x".repeat(1 << 20)).unwrap();
    let answer = answer_of(Ok(result.clone()));
    let mut response = one_body(&answer, StatusCode::OK, &account());
    let length = hyper::body::Body::size_hint(response.body()).exact();
    assert_eq!(length, Some(answer.write_line(&account()).len() as u64));
    assert_eq!(piece(&mut response).await, r#"{"jsonrpc":"2.0","id":1,"result":"#);
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap().as_ptr(), result.as_bytes().as_ptr());
    assert_eq!(piece(&mut response).await, "}");
    assert!(response.body_mut().frame().await.is_none());
}

/// A request whose server asks its client something when the test says so, and the outcome of that question.
fn asking(
    session: &SessionUse,
    stream: &Arc<ClientStream>,
) -> (
    PendingAnswer,
    oneshot::Sender<()>,
    oneshot::Receiver<Result<RawJson, RpcError>>,
) {
    let (go, going) = oneshot::channel();
    let (ended, outcome) = oneshot::channel();
    let (client, line): (_, Arc<dyn Outbox>) = (session.client.clone(), stream.clone());
    let said = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}"#;
    introduce(&client, said);
    let work = Box::pin(async move {
        let _reachable = client.reachable(&line);
        going.await.unwrap();
        let question = mainstay::handler::ServerRequest {
            server: "a".into(),
            generation: mainstay::Generation(1),
            method: "elicitation/create".to_owned(),
            params: None,
        };
        let answer = mainstay::ClientHandler::request(&*client, question).await;
        let _ = ended.send(answer);
        answered("{}")
    });
    (work, go, outcome)
}

/// What comes of a question, which must come to an end.
async fn in_time(outcome: oneshot::Receiver<Result<RawJson, RpcError>>) -> Result<RawJson, RpcError> {
    let outcome = tokio::time::timeout(Duration::from_secs(3600), outcome).await;
    outcome.expect("an end").expect("an outcome")
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_client_that_left_before_the_head_is_declined_at_once() {
    let session = session();
    let stream = session.new_stream().for_client(BOTH);
    let (work, go, outcome) = asking(&session, &stream);
    let head_timer = head_timer();
    let mut waiting = Box::pin(respond(work, stream, Some(session.clone()), BOTH, &head_timer));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), &mut waiting)
            .await
            .is_err()
    );
    drop(waiting);
    let left = Instant::now();
    go.send(()).unwrap();
    let declined = in_time(outcome).await.unwrap_err();
    assert!(declined.message().contains("cannot be reached"), "{declined:?}");
    assert_eq!(left.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_client_that_left_before_the_head_is_asked_on_its_standing_stream() {
    let session = session();
    let place = session.standing.open(None);
    let stream = session.new_stream().for_client(BOTH);
    let (work, go, outcome) = asking(&session, &stream);
    let head_timer = head_timer();
    let mut waiting = Box::pin(respond(work, stream, Some(session.clone()), BOTH, &head_timer));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), &mut waiting)
            .await
            .is_err()
    );
    drop(waiting);
    go.send(()).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(3600), session.standing.has_event());
    asked.await.expect("a question");
    session.standing.leave(&place);
    sleep(Duration::from_secs(59)).await;
    let _back = session.standing.open(Some(0));
    sleep(Duration::from_secs(300)).await;
    assert!(
        session
            .client
            .answered(&session.client.latest_question(), Ok(RawJson::EMPTY_OBJECT))
    );
    assert_eq!(in_time(outcome).await.unwrap(), RawJson::EMPTY_OBJECT);
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_a_minute_for_a_client_whose_stream_broke() {
    for comes_back in [true, false] {
        let session = session();
        let stream = session.new_stream().for_client(BOTH);
        let (work, go, outcome) = asking(&session, &stream);
        go.send(()).unwrap();
        let head_timer = head_timer();
        let response = respond(work, stream.clone(), Some(session.clone()), BOTH, &head_timer).await;
        assert_eq!(kind(&response), "text/event-stream");
        drop(response);
        let left = Instant::now();
        if comes_back {
            sleep(Duration::from_secs(59)).await;
            let _back = stream.open(Some(0));
            sleep(Duration::from_secs(300)).await;
            assert!(
                session
                    .client
                    .answered(&session.client.latest_question(), Ok(RawJson::EMPTY_OBJECT))
            );
            assert!(
                in_time(outcome).await.is_ok(),
                "it found its question, and its answer counts"
            );
        } else {
            assert!(in_time(outcome).await.is_err());
            assert_eq!(left.elapsed().as_secs(), 60);
        }
    }
}

/// A large answer, as a result.
fn large(bytes: usize) -> Result<RawJson, RpcError> {
    RawJson::from_value(&"x".repeat(bytes)).map_err(|_| unreachable!("it is JSON"))
}

#[tokio::test]
async fn a_large_answer_is_held_until_its_last_byte_is_sent_and_there_is_no_room_for_another_meanwhile() {
    let limits = BudgetLimits {
        all: 8 * MIB,
        share: Some(2 * MIB),
    };
    let budget = Arc::new(Budget::new(limits));
    let account = budget.account(Principal::session(1));
    let answer = answer_of(large(MIB + MIB / 2));
    let list = RequestAnswer {
        id: RawJson::from(2),
        result: large(MIB + MIB / 2),
        kind: AnswerKind::List,
        hint: None,
    };
    let response_to = |answer| one_body(answer, StatusCode::OK, &account);
    let mut response = response_to(&answer);
    assert_eq!(response.status(), StatusCode::OK);
    let refused = response_to(&list);
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    // Whatever is no list may have been done: no status asks for another try.
    let mut dropped = response_to(&answer);
    assert_eq!(dropped.status(), StatusCode::OK);
    let dropped = piece(&mut dropped).await;
    assert!(dropped.contains(r#""outcome":"answered""#), "{dropped}");
    piece(&mut response).await;
    let payload = response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    assert_eq!(
        response_to(&list).status(),
        StatusCode::TOO_MANY_REQUESTS,
        "the connection has yet to send it"
    );
    drop(payload);
    assert_eq!(response_to(&list).status(), StatusCode::OK);
    assert_eq!(budget.held(), 0);
}
