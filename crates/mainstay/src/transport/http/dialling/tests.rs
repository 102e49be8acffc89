use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

fn by_proxy(url: &str) -> Dialling {
    let url = Url::parse(url).unwrap();
    let proxies = || {
        let proxies = Matcher::builder().all("http://user:pass@proxy.example:3128");
        proxies.no("inside.example").build()
    };
    Dialling::by(&url, &HttpOptions::new(), proxies).unwrap()
}

#[test]
fn a_proxy_of_the_environment_stands_before_what_it_is_named_for() {
    let plain = by_proxy("http://mcp.example/mcp");
    assert!(plain.socket().is_err());
    assert!(plain.names_the_origin(), "it is the proxy that goes there");
    assert_eq!(plain.of_proxy().unwrap(), "Basic dXNlcjpwYXNz");
    let encrypted = by_proxy("https://mcp.example/mcp");
    assert!(encrypted.socket().is_err());
    assert!(!encrypted.names_the_origin(), "the proxy sees nothing of it");
    assert_eq!(encrypted.of_proxy(), None);
    for near in [
        "http://inside.example/",
        "http://127.0.0.1/",
        "https://localhost/",
    ] {
        let direct = by_proxy(near);
        assert!(matches!(direct.socket(), Ok(None)), "{near}");
        assert!(!direct.names_the_origin());
    }
}

/// The head of the request that comes on a stream, answered so.
async fn answer(far: &mut DuplexStream, answer: &str) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(far.read_u8().await.unwrap());
    }
    far.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_way_that_it_does_not_look_into() {
    let (near, mut far) = duplex(1024);
    let proxy = tokio::spawn(async move {
        let head = answer(&mut far, "HTTP/1.1 200 OK\r\n\r\nthrough").await;
        (head, far)
    });
    let origin = "https://mcp.example".parse().unwrap();
    let credential = HeaderValue::from_static("Basic eA==");
    let mut stream = tunnel(Box::new(near), &origin, Some(credential)).await.unwrap();
    let (head, mut far) = proxy.await.unwrap();
    assert!(head.starts_with("CONNECT mcp.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: Basic eA==\r\n"), "{head}");
    let mut heard = [0; 7];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"through");
    stream.write_all(b"back").await.unwrap();
    let mut heard = [0; 4];
    far.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"back");
}

#[tokio::test]
async fn a_proxy_that_refuses_says_so() {
    let (near, mut far) = duplex(1024);
    let proxy = tokio::spawn(async move {
        answer(&mut far, "HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n").await
    });
    let origin = "https://mcp.example".parse().unwrap();
    let refused = tunnel(Box::new(near), &origin, None).await.err().unwrap();
    assert!(refused.to_string().contains("status 407"), "{refused}");
    proxy.await.unwrap();
}
