use std::pin::pin;

use super::*;
use crate::http::Port;
use crate::{clock, poll};

const LIMIT: Duration = poll::LIMIT;

/// A server that sends back what it is sent.
async fn echo() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.into_split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    port
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))
        .await
        .unwrap()
}

async fn say(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    hear(stream, text.len()).await
}

/// So many bytes, or those that came before the end.
async fn hear(stream: &mut TcpStream, bytes: usize) -> String {
    let mut heard = Vec::new();
    let mut limited = stream.take(bytes as u64);
    let read = limited.read_to_end(&mut heard);
    let _reset = tokio::time::timeout(LIMIT, read).await.expect("an end in time");
    String::from_utf8(heard).unwrap()
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let proxy = Proxy::start(echo().await).await.unwrap();
    let mut client = connect(&proxy).await;
    assert_eq!(say(&mut client, "hello").await, "hello");
    assert!(proxy.wait_until(LIMIT, |counts| counts.to_client == 5).await);
    assert_eq!(proxy.counts().to_server, 5);
    assert_eq!((proxy.counts().accepted, proxy.counts().open), (1, 1));
}

#[tokio::test]
async fn a_cut_ends_open_connections_and_no_later_one() {
    let proxy = Proxy::start(echo().await).await.unwrap();
    let mut client = connect(&proxy).await;
    assert_eq!(say(&mut client, "hello").await, "hello");
    proxy.cut();
    assert_eq!(hear(&mut client, 1).await, "");
    assert!(proxy.wait_until(LIMIT, |counts| counts.open == 0).await);
    let mut client = connect(&proxy).await;
    assert_eq!(say(&mut client, "again").await, "again");
}

#[tokio::test]
async fn a_refusing_proxy_closes_new_connections_and_keeps_the_old() {
    let proxy = Proxy::start(echo().await).await.unwrap();
    let mut old = connect(&proxy).await;
    assert_eq!(say(&mut old, "one").await, "one");
    proxy.refuse(true);
    let mut new = connect(&proxy).await;
    assert_eq!(hear(&mut new, 1).await, "");
    assert_eq!(proxy.counts().refused, 1);
    assert_eq!(say(&mut old, "two").await, "two");
    proxy.refuse(false);
    assert_eq!(say(&mut connect(&proxy).await, "three").await, "three");
}

#[tokio::test]
async fn held_bytes_arrive_when_the_hold_ends() {
    let proxy = Proxy::start(echo().await).await.unwrap();
    let mut client = connect(&proxy).await;
    assert_eq!(say(&mut client, "one").await, "one");
    proxy.hold(true);
    client.write_all(b"two").await.unwrap();
    let is_held = clock::keeps_waiting(&mut pin!(hear(&mut client, 3))).await;
    assert!(is_held, "a held byte arrived");
    assert_eq!(proxy.counts().open, 1);
    proxy.hold(false);
    assert_eq!(hear(&mut client, 3).await, "two");
}

#[tokio::test]
async fn a_delay_is_paid_in_each_direction() {
    let proxy = Proxy::start(echo().await).await.unwrap();
    let mut client = connect(&proxy).await;
    proxy.delay(Duration::from_millis(30));
    let began = std::time::Instant::now();
    assert_eq!(say(&mut client, "slow").await, "slow");
    assert!(began.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn a_target_that_does_not_listen_refuses() {
    let nobody = Port::free().unwrap();
    let proxy = Proxy::start(nobody.number()).await.unwrap();
    assert_eq!(hear(&mut connect(&proxy).await, 1).await, "");
    assert!(proxy.wait_until(LIMIT, |counts| counts.refused == 1).await);
}
